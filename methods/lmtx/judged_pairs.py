"""Training on the labels that a judge called relevant: a triplet loss on the hardest labels of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench.methods.encoder.clustering import ClusteredPairs, Mining, PairLoss
from xmcbench.methods.encoder.contrastive import Vectors, View, in_batch
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext


def weighted_triplet_loss(
    cosines: torch.Tensor, own: torch.Tensor, true: torch.Tensor, margin: float, hardest: int, sharpness: float
) -> torch.Tensor:
    """Mean over anchors of the hinge ``margin`` - positive + negative over their hardest negatives, weighted.

    cosines: float [n, m]; own: bool [n, m], the positive of each anchor; true: bool [n, m], not negatives. hardest: how
    many negatives of an anchor count, those with the largest cosines. Their weights are a softmax over the cosine
    divided by ``sharpness``; a negative whose hinge is 0 has 0 in the place of its cosine.
    """
    negative, _ = cosines.masked_fill(true | own, -torch.inf).topk(min(hardest, cosines.shape[1]), dim=1)
    there = negative > -torch.inf
    negative = negative.masked_fill(~there, 0.0)
    hinge = torch.relu(margin - cosines[own][:, None] + negative) * there
    weights = torch.softmax(negative / sharpness * (hinge > 0), dim=1)
    return (weights * hinge).sum(dim=1).mean()


class JudgedPairs(ClusteredPairs):
    """Documents in random order with one of their relevant labels each, drawn again at every visit. The other labels
    of the batch are the negatives of a document, except its own."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        loss: tuple[float, int, float],
        seed: int,
    ) -> None:
        """pairs: binary CSR [N, L], every row with a pair; instances: N texts; labels: L texts; batch: documents of a
        step, over all processes. loss: margin, hardest and sharpness of ``weighted_triplet_loss``."""
        margin, hardest, self._sharpness = loss
        pair_loss = PairLoss("triplet", margin, hardest, 1.0)
        super().__init__(instances, labels, pairs, batch, Mining(1, 1), pair_loss, seed)
        self._clusters = np.arange(pairs.shape[0])  # each document is a cluster of its own

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        """Cluster nothing."""

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each document against the labels of the batch."""
        anchors, labels = vectors["anchor"], vectors["positive"]
        rows = views["anchor"].rows[anchors.first : anchors.first + len(anchors.local)]
        true = torch.from_numpy(self._pairs[rows][:, views["positive"].rows].toarray() > 0).to(anchors.local.device)
        cosines, own = in_batch(anchors.local, labels.gathered, anchors.first, 1.0)
        margin, hardest = self._loss.margin, self._loss.hardest
        return {"triplet": weighted_triplet_loss(cosines, own, true, margin, hardest, self._sharpness)}
