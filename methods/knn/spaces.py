"""Spaces in which instances and label texts are near or far: TF-IDF vectors, or those of an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xmcbench import TopK
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import Texts
    from xmcbench.methods.encoder.tower import Tower

#: Floats of gathered vectors that are held at a time.
_BLOCK = 32_000_000


class Space(Protocol):
    """Training instances and labels as vectors, compared by inner product."""

    def embed(self, texts: Texts) -> Any:
        """The vectors of new texts: what the other functions take as queries."""

    def instances(self, queries: Any, k: int) -> TopK:
        """The k nearest training instances of each query."""

    def labels(self, queries: Any, k: int) -> TopK:
        """The k nearest labels of each query."""

    def scores(self, queries: Any, starts: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The inner product of each query i with ``labels[starts[i]:starts[i + 1]]``: float32 [len(labels)]."""


class TfidfSpace:
    """Words and bigrams. A text is near to those alone that share one with it."""

    def __init__(self, features: TfidfFeatures, raw_X: Texts) -> None:
        self._features = features
        self._instances, self._labels = SparseIndex(features.transform(raw_X)), SparseIndex(features.labels)

    def embed(self, texts: Texts) -> csr_matrix:
        """CSR float32 [N, features]."""
        return self._features.transform(texts)

    def instances(self, queries: csr_matrix, k: int) -> TopK:
        """Those with a positive product."""
        return self._instances.search(queries, k)

    def labels(self, queries: csr_matrix, k: int) -> TopK:
        """Those with a positive product."""
        return self._labels.search(queries, k)

    def scores(self, queries: csr_matrix, starts: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Summed feature by feature."""
        from xmcbench.methods.sparse.pairwise import pair_scores

        return pair_scores(queries, self._features.labels, starts, labels)


class EncoderSpace:
    """Vectors of an encoder as it is."""

    def __init__(self, tower: Tower, raw_X: Texts, raw_Y: Texts, notes: dict[str, object]) -> None:
        """notes: takes what the search says of itself."""
        self._tower, self._notes = tower, notes
        instance_length, label_length = tower.lengths
        with tower.embeddings(tower.instance_tokens(raw_X, instance_length), shared=True) as vectors:
            self._instances = np.array(vectors)
        with tower.embeddings(tower.label_tokens(raw_Y, label_length), shared=True) as vectors:
            self._labels = np.array(vectors)

    def embed(self, texts: Texts) -> np.ndarray:
        """float32 [N, width], of length 1."""
        with self._tower.embeddings(self._tower.instance_tokens(texts, self._tower.lengths[0])) as vectors:
            return np.array(vectors)

    def instances(self, queries: np.ndarray, k: int) -> TopK:
        """By cosine."""
        return self._nearest(queries, self._instances, k)

    def labels(self, queries: np.ndarray, k: int) -> TopK:
        """By cosine."""
        return self._nearest(queries, self._labels, k)

    def scores(self, queries: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Cosines."""
        rows, found = np.repeat(np.arange(len(queries)), np.diff(starts)), np.empty(len(labels), np.float32)
        step = max(1, _BLOCK // max(1, queries.shape[1]))
        for start in range(0, len(labels), step):
            part = slice(start, start + step)
            found[part] = np.einsum("nd,nd->n", queries[rows[part]], self._labels[labels[part]])
        return found

    def _nearest(self, queries: np.ndarray, items: np.ndarray, k: int) -> TopK:
        from xmcbench.methods.dense.search import top_k

        return top_k(queries, items, k, device=self._tower.device, seed=self._tower.seed, notes=self._notes)
