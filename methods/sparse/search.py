"""Exact top-k search over sparse vectors by sparse_dot_topn: no dense score matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK, usable_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Results (queries x k) that the search holds at a time.
_RESULTS = 4_000_000


class SparseIndex:
    """Labels as sparse non-negative vectors, searched by inner product.

    Only labels with a positive score are predictions. Where scores are equal the lower label id comes first, at the
    k-th place too: the search compares scores s (1 - id x slope) in float64, with a slope so small that it decides
    between equal scores only. The slope is taken out again before the scores are rounded to float32.
    """

    def __init__(self, labels: csr_matrix) -> None:
        """labels: CSR [L, features]."""
        by_feature = labels.T.tocsr()
        self._labels = labels.shape[0]
        # The largest discount is half of what float32 can tell apart; one id makes at least 2^-47 for 4M labels, which
        # is 32 times the rounding error of float64.
        self._slope = 2.0**-25 / max(1, self._labels)
        by_feature.data = by_feature.data.astype(np.float64) * (1 - by_feature.indices * self._slope)
        self._by_feature = by_feature

    def search(self, queries: csr_matrix, k: int) -> TopK:
        """The k best labels of each query; queries: CSR [N, features]."""
        from sparse_dot_topn import sp_matmul_topn

        step = max(1, _RESULTS // max(1, k))
        parts = []
        for start in range(0, queries.shape[0], step):
            found = sp_matmul_topn(
                queries[start : start + step].astype(np.float64),
                self._by_feature,
                top_n=k,
                threshold=0.0,
                sort=True,
                n_threads=usable_cores(),
            )
            size = found.indptr[-1]  # an empty product comes with arrays longer than its rows say
            labels, scores = found.indices[:size], found.data[:size]
            parts.append(padded(found.indptr, labels, _settled(scores / (1 - labels * self._slope)), k))
        return joined(parts, k)


def _settled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores rounded to 40 bits, which takes away what the slope left of itself.

    Sums of float32 values can lie half-way between two others: the last bit of float64 then said which way each of
    two equal scores went.
    """
    mantissa, exponent = np.frexp(scores)
    settled: NDArray[np.float64] = np.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)
    return settled


def padded(starts: NDArray[np.int64], labels: NDArray[np.int64], scores: NDArray[np.float64], k: int) -> TopK:
    """Predictions of N rows, one row after the other and best first, as a TopK.

    starts: int [N + 1], where each row begins and the last one ends. labels, scores: one value for each prediction,
    at most k a row.
    """
    lengths = np.diff(starts)
    filled = np.arange(k) < lengths[:, None]
    indices = np.full((len(lengths), k), -1, np.int32)
    values = np.full((len(lengths), k), -np.inf, np.float32)
    indices[filled], values[filled] = labels, scores
    # Rounded to float32, neighbours can have become equal.
    disorder = (values[:, 1:] > values[:, :-1]) | (
        (values[:, 1:] == values[:, :-1]) & (indices[:, 1:] < indices[:, :-1])
    )
    rows = np.flatnonzero((disorder & filled[:, 1:]).any(axis=1))
    if len(rows):
        ranked = TopK.ranked(indices[rows], values[rows])
        indices[rows], values[rows] = ranked.indices, ranked.scores
    return TopK(indices, values)


def joined(parts: list[TopK], k: int) -> TopK:
    """The rows of several TopK below one another; k says the width where there are none."""
    if not parts:
        return TopK(np.empty((0, k), np.int32), np.empty((0, k), np.float32))
    return TopK(np.concatenate([part.indices for part in parts]), np.concatenate([part.scores for part in parts]))
