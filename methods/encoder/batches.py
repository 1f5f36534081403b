"""Batches of texts: the order of rows, the texts computed side by side, and their padding."""

from __future__ import annotations

import numpy as np

from xmcbench import UsageError
from xmcbench.methods.encoder.hardware import TOKENS

#: What a batch costs in training on a GPU beside its tokens, in tokens: its kernels are launched one by one, and most
#: are done before the next one is launched. On an H100, a step of an encoder of BERT-base's size with 32 documents and
#: their titles was fastest as one batch: cut at a cost of 16,384 it took 11% longer, at 4,096 55%.
_LAUNCHES = 32_768
#: Lengths are rounded up to a multiple of this where batches are weighed against each other.
_ROUNDED = 8
#: Fused attention on a CPU takes half the time where the number of tokens is a multiple of this: torch computes the
#: exponentials of the rest one by one.
_ALIGNED = 16


def split_step(lengths: np.ndarray, device: str, at_most: int | None = None) -> list[np.ndarray]:
    """The batches of a training step: positions in ``lengths``, the longest texts first. lengths: tokens of each text,
    int [n]. at_most: tokens of a batch, None for what suits the device."""
    budget = at_most or 2 * TOKENS[device]
    return least_cost(lengths, budget, _LAUNCHES) if device == "cuda" else by_length(lengths, budget)


def by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Rows cut into batches of similar length with at most ``budget`` tokens, padding included (or a single row). The
    longest come first, so that a lack of memory shows at once."""
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        rows = max(1, budget // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + rows])
        start += rows
    return batches


def least_cost(lengths: np.ndarray, budget: int, launches: int) -> list[np.ndarray]:
    """Rows cut as ``by_length`` cuts them, but where that costs least. A batch costs its tokens, padding included, and
    ``launches`` tokens more. Lengths count in multiples of 8."""
    order = np.argsort(-lengths, kind="stable")
    rounded = _ROUNDED * np.maximum(1, -(-lengths[order] // _ROUNDED))
    starts = np.flatnonzero(np.diff(rounded, prepend=-1))
    bounds = np.append(starts, len(order))
    longest = rounded[starts]
    fitting = np.maximum(1, budget // np.maximum(1, lengths[order[starts]])) if len(starts) else starts
    # best[j]: the least cost of the rows before bounds[j]; cuts[j]: where its last group of batches starts.
    best, cuts = np.zeros(len(bounds)), np.zeros(len(bounds), np.int64)
    for end in range(1, len(bounds)):
        rows = bounds[end] - bounds[:end]
        costs = best[:end] + longest[:end] * rows + launches * -(-rows // fitting[:end])
        cuts[end] = costs.argmin()
        best[end] = costs[cuts[end]]
    batches: list[np.ndarray] = []
    end = len(bounds) - 1
    while end > 0:
        start, most = bounds[cuts[end]], int(fitting[cuts[end]])
        batches[:0] = [order[first : min(first + most, bounds[end])] for first in range(start, bounds[end], most)]
        end = int(cuts[end])
    return batches


def round_up(lengths: np.ndarray) -> np.ndarray:
    """The lengths rounded up to a multiple of 16, yet none above the longest: a network may have no position for more
    tokens."""
    return np.minimum(_ALIGNED * -(-lengths // _ALIGNED), lengths.max(initial=0))


def pad_texts(texts: list[np.ndarray], pad: int, width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Texts side by side: token numbers int64 [n, longest] and the mask of real tokens, bool of the same shape. There
    are at least ``width`` columns, and at least one, of padding where no text has a token: a network cannot read none.
    """
    lengths = np.array([len(text) for text in texts])
    mask = np.arange(max(1, width, lengths.max())) < lengths[:, None]
    ids = np.full(mask.shape, pad, np.int64)
    ids[mask] = np.concatenate(texts)
    return ids, mask


class Epochs:
    """Rows in random order, every row once before any comes again; a step's rows follow from its number."""

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        """rows: how many there are; batch: rows of a step, all where there are fewer."""
        self.rows, self.batch, self._seed = rows, min(batch, rows), seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def __call__(self, step: int) -> np.ndarray:
        """The rows of a step, counted from 0: int64 [batch], none of them twice. Rows that do not fill an epoch's last
        batch are left out."""
        epoch, place = self.epoch(step), step % (self.rows // self.batch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(self.rows)
        return self._order[place * self.batch : (place + 1) * self.batch]

    def share(self, processes: int) -> None:
        """Leave out of a batch of all rows those that these processes could not share evenly. Raises UsageError where
        there are fewer rows than processes."""
        if self.rows < processes:
            raise UsageError(
                f"{processes} processes cannot share {self.rows} rows of a training", "use fewer processes"
            )
        if self.batch == self.rows:
            self.batch -= self.rows % processes

    def epoch(self, step: int) -> int:
        """Number of visits of all rows before a step."""
        return step // (self.rows // self.batch)


class BalancedEpochs(Epochs):
    """Pairs drawn so that every label comes once before any comes again: in an epoch each label brings one pair. A
    label that has most of the pairs would otherwise fill most of every batch, and be compared with itself."""

    def __init__(self, labels: np.ndarray, batch: int, seed: int) -> None:
        """labels: the label of each pair, int64 [n]; batch: pairs of a step, one of each label at most."""
        found, numbered = np.unique(labels, return_inverse=True)
        self._by_label = np.argsort(numbered, kind="stable")
        self._counts = np.bincount(numbered)
        self._starts = np.concatenate([[0], np.cumsum(self._counts)[:-1]])
        super().__init__(len(found), batch, seed)

    def __call__(self, step: int) -> np.ndarray:
        """The pairs of a step, counted from 0: int64 [batch], of as many labels."""
        labels = super().__call__(step)
        places = np.random.default_rng([self._seed, step, 7]).integers(self._counts[labels])
        return self._by_label[self._starts[labels] + places]  # type: ignore[no-any-return]
