"""Models with a vector for each token (ColBERT; Khattab and Zaharia, SIGIR 2020), searched exactly.

The score of a label is the sum, over the vectors of the instance, of the largest inner product with a vector of the
label (MaxSim). All vectors of all labels stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xmcbench import Texts, TopK
from xmcbench.methods.embedder.opened import Opened
from xmcbench.methods.encoder.settings import Side

#: Products of vectors that are held at a time (256 MB).
_PRODUCTS = 64_000_000


class MultiVectorModel(Opened):
    """A MultiVectorEncoder of sentence-transformers."""

    kind = "MultiVectorEncoder"
    similarities = ("maxsim", "meanmaxsim")

    def index(self, labels: Texts) -> None:
        """Encode the labels: float32 [vectors, width], the vectors of each label one after the other."""
        vectors = [found for batch in labels.batches() for found in self._vectors(batch.to_pylist(), "label")]
        self._starts = _starts(vectors)
        self._labels = np.concatenate([*vectors, np.zeros((0, self._width(vectors)), np.float32)])
        self.notes["vectors_per_label"] = round(len(self._labels) / max(1, len(vectors)), 1)
        self.notes["label_vectors_bytes"] = self._labels.nbytes

    def search(self, texts: Texts, k: int) -> Iterator[TopK]:
        """Yield the k labels with the largest MaxSim."""
        number = 0
        for batch in texts.batches():
            vectors = self._vectors(batch.to_pylist(), "instance")
            number += sum(map(len, vectors))
            scores = np.concatenate([self._score(block) for block in self._blocks(vectors)])
            yield TopK.from_scores(scores, k)
        self.notes["vectors_per_instance"] = round(number / max(1, len(texts)), 1)

    def _vectors(self, texts: list[str], side: Side) -> list[np.ndarray]:
        return [np.asarray(found, np.float32) for found in self.encode(texts, side)]

    @staticmethod
    def _width(vectors: Sequence[np.ndarray]) -> int:
        return vectors[0].shape[1] if vectors else 1

    def _blocks(self, vectors: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
        """Yield the vectors of instances, as many as their products with all labels have room."""
        room = max(1, _PRODUCTS // max(1, len(self._labels)))
        block: list[np.ndarray] = []
        for own in vectors:
            if block and sum(map(len, block)) + len(own) > room:
                yield block
                block = []
            block.append(own)
        yield block

    def _score(self, block: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of instances with every label, float32 [n, labels]."""
        best = np.maximum.reduceat(np.concatenate(block) @ self._labels.T, self._starts, axis=1)
        scores: np.ndarray = np.add.reduceat(best, _starts(block), axis=0)
        if self.notes["similarity"] == "meanmaxsim":
            scores /= np.array([len(own) for own in block], np.float32)[:, None]
        return scores


def _starts(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Return where the vectors of each text begin, int64; every text has one: its special tokens have vectors too."""
    lengths = np.array([len(own) for own in vectors], np.int64)
    assert lengths.all()
    return np.cumsum(lengths) - lengths
