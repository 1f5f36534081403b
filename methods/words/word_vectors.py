"""Texts as means of the vectors of their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Texts
from xmcbench.methods.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

#: Texts that are averaged at a time.
_BATCH = 65_536


class WordVectors:
    """A vocabulary of V words and their vectors, float32 [V, d]."""

    def __init__(self, vocabulary: Vocabulary, vectors: np.ndarray) -> None:
        self.vocabulary = vocabulary
        self.vectors = vectors

    def embed(self, texts: Texts, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
        """The mean vector of each text, float32 [N, d], and whether it has a known word, bool [N].

        A word that occurs twice counts twice. A text without a known word is a zero vector. ``normalize`` scales
        the others to length 1.
        """
        means, known = np.zeros((len(texts), self.vectors.shape[1]), np.float32), np.zeros(len(texts), bool)
        start = 0
        for batch in texts.batches(_BATCH):
            rows = slice(start, start + len(batch))
            means[rows], known[rows] = self._means(batch)
            start += len(batch)
        if normalize:
            lengths = np.linalg.norm(means, axis=1, keepdims=True)
            np.divide(means, lengths, out=means, where=lengths > 0)
        return means, known

    def _means(self, batch: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        from scipy.sparse import csr_matrix

        codes, rows = self.vocabulary.codes(batch)
        lengths = np.bincount(rows, minlength=len(batch))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shares = np.repeat(1 / np.maximum(1, lengths), lengths).astype(np.float32)
        means = csr_matrix((shares, codes, starts), shape=(len(batch), len(self.vocabulary))) @ self.vectors
        return means, lengths > 0

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without Python objects: ``word_bytes``, ``word_ends``, ``vectors``."""
        return {**self.vocabulary.arrays(), "vectors": self.vectors}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], lowercase: bool) -> WordVectors:
        """What ``arrays`` describes."""
        return cls(Vocabulary.from_arrays(arrays["word_bytes"], arrays["word_ends"], lowercase), arrays["vectors"])
