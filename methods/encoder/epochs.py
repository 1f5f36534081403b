"""In which order a training visits its rows: a function of (seed, step) alone."""

from __future__ import annotations

import numpy as np


class Epochs:
    """Rows in random order, every row once before any comes again; a step's rows follow from its number."""

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        """rows: how many there are; batch: rows of a step, at most ``rows``."""
        self.rows, self.batch, self._seed = rows, min(batch, rows), seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def __call__(self, step: int) -> np.ndarray:
        """The rows of a step, counted from 0: int64 [batch], none of them twice.

        An epoch's last rows that do not fill a batch are left out of it.
        """
        epoch, place = self.epoch(step), step % (self.rows // self.batch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(self.rows)
        return self._order[place * self.batch : (place + 1) * self.batch]

    def epoch(self, step: int) -> int:
        """How often all rows were visited before a step."""
        return step // (self.rows // self.batch)


class BalancedEpochs:
    """Pairs drawn so that every label comes once before any comes again: in an epoch each label brings one pair.

    A label that has most of the pairs would otherwise fill most of every batch, and be compared with itself.
    """

    def __init__(self, labels: np.ndarray, batch: int, seed: int) -> None:
        """labels: the label of each pair, int64 [n]; batch: pairs of a step, at most as many as there are labels."""
        found, numbered = np.unique(labels, return_inverse=True)
        self._by_label = np.argsort(numbered, kind="stable")
        self._counts = np.bincount(numbered)
        self._starts = np.concatenate([[0], np.cumsum(self._counts)[:-1]])
        self._epochs, self._seed = Epochs(len(found), batch, seed), seed

    def __call__(self, step: int) -> np.ndarray:
        """The pairs of a step, counted from 0: int64 [batch], of as many labels."""
        labels = self._epochs(step)
        places = np.random.default_rng([self._seed, step, 7]).integers(self._counts[labels])
        return self._by_label[self._starts[labels] + places]  # type: ignore[no-any-return]
