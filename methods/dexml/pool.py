"""Documents against a pool of labels: all of them, or those of the batch and hard ones; the losses of DEXML."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.contrastive import ContrastiveTask, Vectors, View
from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext

#: Numbers of processes that divide this can share a pool of all labels.
_SHARED_BY = 8
#: Halvings of the interval with the threshold of SoftTop-k; a step of Newton's method follows.
_HALVINGS = 32

#: From logits and truths, [n, m] each, to the mean loss.
PoolLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def decoupled_softmax(logits: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """Mean over the rows of the mean over their positives of -log softmax, where the denominator has the negatives and
    this positive alone (DEXML, section 4). logits: [n, m]. positive: bool [n, m]; a row without any costs nothing."""
    negatives = logits.masked_fill(positive, torch.finfo(logits.dtype).min).logsumexp(dim=1)
    rows, columns = positive.nonzero(as_tuple=True)
    own = logits[rows, columns]
    return _mean_over_positives(torch.logaddexp(own, negatives[rows]) - own, positive, rows)


def soft_top_k(logits: torch.Tensor, positive: torch.Tensor, k: int, sharpness: float) -> torch.Tensor:
    """Mean over the rows of the mean over their positives of -log sigmoid(sharpness x logit + t), where the threshold t
    of a row makes the sigmoids of all labels sum to ``k``, or to half of the labels if that is less (DEXML, section 5).
    logits: [n, m]. positive: bool [n, m]; a row without any costs nothing."""
    scaled, wanted = sharpness * logits, min(float(k), logits.shape[1] / 2)
    with torch.no_grad():
        # If all logits were the lowest or all were the highest, the threshold would be one of these.
        share = wanted / logits.shape[1]
        low, high = (math.log(share / (1 - share)) - ends for ends in (scaled.amax(1), scaled.amin(1)))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = torch.sigmoid(scaled + middle[:, None]).sum(dim=1) > wanted
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        middle = (low + high) / 2
    # The step of Newton's method has the gradient of the threshold, by the implicit function theorem.
    chosen = torch.sigmoid(scaled + middle[:, None])
    slope = (chosen * (1 - chosen)).sum(dim=1).detach().clamp(min=torch.finfo(logits.dtype).tiny)
    threshold = middle - (chosen.sum(dim=1) - wanted) / slope
    rows, columns = positive.nonzero(as_tuple=True)
    costs = nn.functional.softplus(-scaled[rows, columns] - threshold[rows])
    return _mean_over_positives(costs, positive, rows)


def _mean_over_positives(costs: torch.Tensor, positive: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Mean over all rows of the mean of their costs. costs, rows: one per positive."""
    return (costs / positive.sum(dim=1)[rows]).sum() / len(positive)


@dataclass(frozen=True)
class HardNegatives:
    """``count`` labels per document, drawn from its ``nearest`` ones without its own. These are found again after
    ``refreshed`` steps."""

    count: int
    nearest: int
    refreshed: int


class LabelPool(ContrastiveTask):
    """Documents against a pool of labels, no label twice; each is a positive of a document or a negative. An epoch has
    no document twice, and leaves out those that do not fill a batch."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        temperature: float,
        seed: int,
        loss: PoolLoss,
        hard: HardNegatives | None,
    ) -> None:
        """pairs: binary CSR [N, L], no row empty. batch: documents of a step, over all processes. hard: None for a pool
        of all labels; otherwise a label of each document, its hard negatives, and others in place of repeated
        labels."""
        self._instances, self._labels, self._pairs = instances, labels, pairs.tocsr()
        self._temperature, self._seed, self._loss, self._hard = temperature, seed, loss, hard
        self._epochs = Epochs(pairs.shape[0], batch, seed)
        self._nearest = np.empty((0, 0), np.int32)

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        if self._hard and step % self._hard.refreshed == 0:
            assert isinstance(network, Encoder)
            count = min(self._hard.nearest, len(self._labels))
            self._nearest = nearest_labels(network, self._instances, self._labels, count, self._seed, context)

    def state(self) -> dict[str, np.ndarray]:
        """The nearest labels of each document, int32 [N, nearest]."""
        return {"nearest": self._nearest}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:
        self._nearest = state["nearest"]

    def draw(self, step: int) -> dict[str, View]:
        """The step's documents, and its pool, of a size that the processes can share."""
        rows = self._epochs(step)
        pool = self._draw_hard(rows, step) if self._hard else np.arange(len(self._labels))
        padded = np.resize(pool, -(-len(pool) // _SHARED_BY) * _SHARED_BY)
        return {"anchor": View(self._instances, rows), "pool": View(self._labels, padded)}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each document against the pool, without what it was padded with."""
        anchors, pool = vectors["anchor"], views["pool"].rows
        rows = views["anchor"].rows[anchors.first : anchors.first + len(anchors.local)]
        size = len(np.unique(pool))
        logits = anchors.local @ vectors["pool"].gathered[:size].T / self._temperature
        true = torch.from_numpy(self._pairs[rows][:, pool[:size]].toarray() > 0).to(logits.device)
        return {"labels": self._loss(logits, true)}

    def _draw_hard(self, rows: np.ndarray, step: int) -> np.ndarray:
        """A label of each of these documents, and its hard negatives, each once: int64."""
        assert self._hard is not None, "of a pool of hard labels"
        rng = np.random.default_rng([self._seed, 41, step])
        starts, sizes = self._pairs.indptr[rows], np.diff(self._pairs.indptr)[rows]
        positives = self._pairs.indices[starts + rng.integers(sizes)]
        near = self._nearest[rows]
        turn = rng.random(near.shape)
        turn[self._pairs[rows[:, None], near].toarray() > 0] = 2  # after all others
        turn[near < 0] = 2  # an approximate search may find fewer
        chosen = np.argsort(turn, axis=1)[:, : self._hard.count]
        hard = np.take_along_axis(near, chosen, 1)[np.take_along_axis(turn, chosen, 1) < 2]
        pool = np.unique(np.concatenate([positives, hard]).astype(np.int64))
        size = min(len(self._labels), len(rows) * (1 + self._hard.count))
        others = rng.permutation(np.setdiff1d(np.arange(len(self._labels)), pool))
        return np.concatenate([pool, others[: size - len(pool)]])


def nearest_labels(
    encoder: Encoder, instances: TokenStore, labels: TokenStore, count: int, seed: int, context: DistributedContext
) -> np.ndarray:
    """The ``count`` labels nearest to each instance under the encoder as it is, int32 [N, count], on every process.
    Each process embeds its share of the texts; the first one searches for all."""
    from accelerate.utils import broadcast

    from xmcbench.methods.dense.search import top_k

    sides = []
    for store in (instances, labels):
        own = np.arange(context.rank, len(store), context.processes)
        part = np.zeros((-(-len(store) // context.processes), encoder.width), np.float32)
        encode(encoder, store, part[: len(own)], own)
        gathered = context.accelerator.gather(torch.from_numpy(part).to(context.device))
        dealt = gathered.cpu().numpy().reshape(context.processes, *part.shape)
        sides.append(dealt.transpose(1, 0, 2).reshape(-1, encoder.width)[: len(store)])
    found = torch.zeros((len(instances), count), dtype=torch.int32, device=context.device)
    if context.rank == 0:
        found.copy_(torch.from_numpy(top_k(sides[0], sides[1], count, device=context.device.type, seed=seed).indices))
    return np.array(broadcast(found, from_process=0).cpu())
