"""Stage II: self-training on pseudo pairs, with all pseudo labels of an instance as its positives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import softplus

from xmcbench.methods.encoder.contrastive import Epochs, KnownPairs, Vectors, View
from xmcbench.methods.encoder.losses import contrastive_loss, in_batch
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext
from xmcbench.methods.maclr.views import UnevenTask

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def visited(documents: int, held_out: np.ndarray, most: int, seed: int) -> np.ndarray:
    """The documents that a training of ``most`` draws can see, in order, int64: only these need pseudo labels.

    documents: how many there are; held_out: rows that it shall not see. If there are more than ``most``, that many are
    sampled.
    """
    rows = np.setdiff1d(np.arange(documents), held_out)
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng([seed, 5]).choice(rows, most, replace=False))


class SecondStage(UnevenTask):
    """Equation 3 with P(i) = {p: x_p = x_i}, on batches that hold all pseudo pairs of their instances.

    An instance is embedded once for all of its pairs, and so is a label that several of them share: it stands among
    the candidates once, and is a positive of all of them. Summed over the pairs, equation 3 becomes minus the mean log
    share of a pair's label: each of the |P| pairs of an instance weighs its |P| labels by 1/|P|.

    As the denominator of equation 3 holds the other labels of the instance, its minimum makes them all equally near.
    ``apart`` leaves them out: each label is compared with those of other instances alone.
    """

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        temperature: float,
        seed: int,
        apart: bool = False,
    ) -> None:
        """pairs: binary CSR [N, L], at least one; batch: instances of a step, over all processes."""
        self._instances, self._labels, self._temperature = instances, labels, temperature
        self._apart = apart
        self._pairs = pairs.tocsr()
        self._rows = np.flatnonzero(np.diff(self._pairs.indptr))
        self._epochs = Epochs(len(self._rows), batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        """The step's instances, and their pseudo labels, each once."""
        rows = self._rows[self._epochs(step)]
        labels = np.unique(self._pairs[rows].indices).astype(np.int64)
        return {"instance": View(self._instances, rows), "label": View(self._labels, labels)}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """This process's share of the loss; the shares of all processes sum to that of the batch."""
        instances, labels = vectors["instance"], vectors["label"].gathered
        pairs = self._pairs[views["instance"].rows][:, views["label"].rows]
        own = pairs[instances.first : instances.first + len(instances.local)].toarray() > 0
        positive = torch.from_numpy(own).to(labels.device)
        logits = instances.local @ labels.T / self._temperature
        if self._apart:
            others = logits.masked_fill(positive, -torch.inf).logsumexp(1, keepdim=True)
            return {"pseudo pairs": softplus(others - logits)[positive].sum() / pairs.nnz}
        return {"pseudo pairs": -torch.log_softmax(logits, 1)[positive].sum() / pairs.nnz}

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        """As the loop takes the mean over the processes, and the losses of these are parts of a sum."""
        return {name: each * context.processes for name, each in super().losses(step, network, context).items()}


class SinglePairs(KnownPairs):
    """Stage II of MACLR's code: pairs one by one, every other label of the batch is a negative (equation 2)."""

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each instance against the labels of all pairs of the batch."""
        instances, labels = vectors["anchor"], vectors["positive"].gathered
        logits = in_batch(instances.local, labels, instances.first, self._temperature)
        return {"pseudo pairs": contrastive_loss(*logits)}
