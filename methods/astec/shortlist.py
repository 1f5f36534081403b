"""The shortlist of a document: labels whose mean document is near to it, and labels of the documents near to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import TopK
from xmcbench.methods.deepxml.bags import ROWS
from xmcbench.methods.dense.search import Index
from xmcbench.methods.sparse.search import count_votes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Scores pairs of a document and a label: of the vectors of the documents, float32 [p, d], the labels, int [p], and the
#: nearness of the two, float64 [p].
Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
#: Floats of the vectors of the pairs that are scored at a time.
_FLOATS = 16_000_000


class Shortlists:
    """Labels and documents near to a document. The documents and the labels' means are indexed once, for all uses."""

    def __init__(
        self, documents: np.ndarray, pairs: csr_matrix, labels: int, neighbors: int, votes: float, **options: Any
    ) -> None:
        """Index documents, float32 [N, d] of length 1, with their pairs, binary CSR [N, L], every label with a pair.
        labels: size of a shortlist by the nearest means. neighbors: near documents whose labels it has too; votes:
        their share in the nearness. options: of ``Index``."""
        self.documents, self.pairs, self.neighbors = documents, pairs, neighbors
        means = pairs.T.tocsr() @ documents
        self.means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        self.labels, self.votes = labels, votes
        self.near_documents = Index(documents, **options)
        self.near_means = Index(self.means, **options)

    def rank_documents(self, k: int, score: Score) -> tuple[np.ndarray, dict[str, object]]:
        """Return the k best labels of each document, int32 [N, k], -1 for none, and notes; none is its own neighbor."""
        ranking = Ranking(self, k, own=True)
        parts = (
            ranking.of(self.documents[start : start + ROWS], score) for start in range(0, len(self.documents), ROWS)
        )
        return TopK.joined(parts, k, len(self.documents)).indices, ranking.notes()


class Ranking:
    """One use of the shortlists, for k labels or more of each. Queries come in one part or several."""

    def __init__(self, near: Shortlists, k: int, own: bool = False) -> None:
        """own: queries are all documents, in order, and none is its own neighbor."""
        self._near, self._k, self._own, self._row = near, k, own, 0
        # Each document is likely to be its own nearest neighbor.
        self._documents = near.near_documents.search(near.neighbors + own)
        self._means = near.near_means.search(min(max(near.labels, k), len(near.means)))

    def of(self, queries: np.ndarray, score: Score) -> TopK:
        """The k labels of each shortlist with the largest score. queries: float32 [n, d] of length 1."""
        near, means = (
            TopK.joined(search.batches(queries), search.k, len(queries)) for search in (self._documents, self._means)
        )
        if self._own:
            near = without_own(near, np.arange(self._row, self._row + len(queries)))
            self._row += len(queries)
        listed = self._list_labels(near, means)
        rows = np.repeat(np.arange(len(queries)), np.diff(listed.indptr))
        step = max(1, _FLOATS // queries.shape[1])
        for start in range(0, listed.nnz, step):
            part = slice(start, start + step)
            vectors, labels = queries[rows[part]], listed.indices[part]
            nearness = (1 - self._near.votes) * cosines(vectors, self._near.means[labels])
            nearness = nearness + self._near.votes * listed.data[part]
            listed.data[part] = score(vectors, labels, nearness)
        return TopK.from_scores(listed.astype(np.float32), self._k)

    def notes(self) -> dict[str, object]:
        """Notes of the searches for a record, by the items that are searched."""
        return {"documents": self._documents.note(), "labels": self._means.note()}

    def _list_labels(self, near: TopK, means: TopK) -> csr_matrix:
        """The shortlists: CSR float64 [n, L] of the votes of the near documents."""
        from scipy.sparse import coo_matrix

        votes = count_votes(near, self._near.pairs, power=2.0).tocoo()
        others = means.pairs(len(self._near.means)).tocoo()
        rows, labels = np.concatenate([votes.row, others.row]), np.concatenate([votes.col, others.col])
        # Zeros stay: they are labels of the shortlist that no neighbor has.
        return coo_matrix((np.concatenate([votes.data, 0 * others.data]), (rows, labels)), shape=votes.shape).tocsr()


def without_own(near: TopK, rows: np.ndarray) -> TopK:
    """The neighbors without the documents themselves, which are these rows: [n, k] become [n, k - 1]. Where more
    documents than k are equal, a document may not be among its neighbors: the last one is left out."""
    left_out = near.indices == rows[:, None]
    left_out[~left_out.any(axis=1), -1] = True
    kept = [array[~left_out].reshape(len(near), near.k - 1) for array in (near.indices, near.scores)]
    return TopK(*kept)


def cosines(documents: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The cosine of each row of one with the same row of the other, both of length 1: float32 [p]."""
    found: np.ndarray = np.einsum("nd,nd->n", documents, labels)
    return found
