"""Texts as sequences of the numbers of their known words, cut at a length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcbench import Texts
from xmcbench.methods.words.vocabulary import Vocabulary


@dataclass(frozen=True)
class Sequences:
    """n texts: the known words of text i, in order, are ``words[starts[i]:starts[i + 1]]``.

    starts: int64 [n + 1]. words: int32, their numbers in the vocabulary.
    """

    starts: np.ndarray
    words: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, texts: Texts, vocabulary: Vocabulary, length: int) -> Sequences:
        """The first ``length`` known words of each text. Unknown words leave no gap."""
        sizes, words = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for batch in texts.batches():
            codes, rows = vocabulary.codes(batch)
            counts = np.bincount(rows, minlength=len(batch))
            places = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
            sizes.append(np.minimum(counts, length))
            words.append(codes[places < length])
        return cls(np.cumsum(np.concatenate(sizes)), np.concatenate(words))

    @property
    def lengths(self) -> np.ndarray:
        """Number of words of each text, int64 [n]."""
        return np.diff(self.starts)

    def take(self, rows: np.ndarray) -> Sequences:
        """The texts of these rows, in that order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return Sequences(starts, self.words[places])

    def padded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The words of these texts, int64 [m, longest], and how many each text has, int64 [m].

        Beyond its end, a text has its last word: padding looks up no word that the text does not have.
        """
        lengths = self.lengths[rows]
        within = np.minimum(np.arange(lengths.max(initial=0)), lengths[:, None] - 1)
        return self.words[self.starts[:-1][rows][:, None] + within].astype(np.int64), lengths
