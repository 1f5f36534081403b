"""Known pairs in batches of documents that are alike, so that the other labels of a batch are hard to tell apart
(Dahiya et al., WSDM 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import nn

from xmcbench.methods.encoder.clustering import balanced_clusters, clustered
from xmcbench.methods.encoder.contrastive import ContrastiveTask, Vectors, View
from xmcbench.methods.encoder.losses import contrastive_loss, in_batch, triplet_loss
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Mining:
    """How batches are made: clusters of at most ``size`` documents, made again at the first epoch that begins at least
    ``refreshed`` steps after the last time."""

    size: int
    refreshed: int


@dataclass(frozen=True)
class PairLoss:
    """triplet: the mean of margin - positive + negative, where above 0, over the ``hardest`` labels of a document;
    contrastive: equation 2 of MACLR, over all of them, at ``temperature``."""

    kind: Literal["triplet", "contrastive"]
    margin: float
    hardest: int
    temperature: float


class ClusteredPairs(ContrastiveTask):
    """Documents with one of their labels each; a batch takes whole clusters, but for those at its edges.

    An epoch has no document twice; those that do not fill a batch are left to another one.

    The other labels of the batch are the negatives of a document, but for those that are its own too.
    """

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        mining: Mining,
        loss: PairLoss,
        seed: int,
    ) -> None:
        """pairs: binary CSR [N, L], every row with a pair; instances: N texts; labels: L texts; batch: documents of a
        step, over all processes."""
        self._instances, self._labels, self._pairs = instances, labels, pairs.tocsr()
        self._batch, self._mining, self._loss, self._seed = min(batch, pairs.shape[0]), mining, loss, seed
        self._clusters = np.zeros(pairs.shape[0], np.int64)
        self._ordered, self._order = -1, np.empty(0, np.int64)

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        """Cluster the documents again if it is time. The order of an epoch stays as it is."""
        epoch, place = divmod(step, len(self._clusters) // self._batch)
        every = -(-self._mining.refreshed // (len(self._clusters) // self._batch))
        if place == 0 and epoch % every == 0:
            assert isinstance(network, Encoder)
            rows = np.arange(len(self._clusters))
            halved = partial(balanced_clusters, size=self._mining.size, seed=self._seed)
            self._clusters = clustered(network, self._instances, rows, context, halved)
            self._ordered = -1

    def state(self) -> dict[str, np.ndarray]:
        """The cluster of each document, int64 [N]."""
        return {"clusters": self._clusters}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what ``state`` returned."""
        self._clusters, self._ordered = state["clusters"], -1

    def draw(self, step: int) -> dict[str, View]:
        """The step's documents, and a label of each, drawn again at every visit."""
        steps = len(self._clusters) // self._batch
        epoch, place = divmod(step, steps)
        if epoch != self._ordered:
            rng = np.random.default_rng([self._seed, 21, epoch])
            shuffled = rng.permutation(len(self._clusters))
            turn = rng.permutation(int(self._clusters.max()) + 1)[self._clusters]
            self._ordered, self._order = epoch, shuffled[np.argsort(turn[shuffled], kind="stable")]
        rows = self._order[place * self._batch : (place + 1) * self._batch]
        starts, sizes = self._pairs.indptr[rows], np.diff(self._pairs.indptr)[rows]
        drawn = starts + np.random.default_rng([self._seed, 22, step]).integers(sizes)
        labels = self._pairs.indices[drawn].astype(np.int64)
        return {"anchor": View(self._instances, rows), "positive": View(self._labels, labels)}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each document against the labels of the batch."""
        anchors, labels = vectors["anchor"], vectors["positive"]
        rows = views["anchor"].rows[anchors.first : anchors.first + len(anchors.local)]
        true = torch.from_numpy(self._pairs[rows][:, views["positive"].rows].toarray() > 0).to(anchors.local.device)
        if self._loss.kind == "contrastive":
            logits, own = in_batch(anchors.local, labels.gathered, anchors.first, self._loss.temperature)
            return {"contrastive": contrastive_loss(logits, own, true)}
        cosines, own = in_batch(anchors.local, labels.gathered, anchors.first, 1.0)
        return {"triplet": triplet_loss(cosines, own, true, self._loss.margin, self._loss.hardest)}
