"""Exact top-k search over sparse vectors, without a dense score matrix; neighbors that vote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Results (queries x k) per call of the search.
_RESULTS = 4_000_000
#: Bits of a score in float64 beyond the 40 that count.
_SPARE = 53 - 40


class SparseIndex:
    """Labels as sparse non-negative vectors, searched by inner product. Only labels with a positive score are
    predictions. Equal scores are ordered by label id, also at the k-th place: the search compares scores s (1 - id x
    slope) in float64, with a slope so small that it decides between equal scores only. The slope is taken out again
    before the scores are rounded to float32."""

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
        from xmcbench.methods.sparse.products import largest_products

        step = max(1, _RESULTS // max(1, k))
        parts = []
        for start in range(0, queries.shape[0], step):
            block = queries[start : start + step].astype(np.float64)
            starts, labels, scores = largest_products(block, self._by_feature, k)
            settled = _settle(scores / (1 - labels * self._slope)).astype(np.float32)
            parts.append(TopK.from_rows(starts, labels, settled, k))
        return TopK.joined(parts, k)


def _settle(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The positive scores rounded to 40 bits, in place, which removes the rest of the slope. Sums of float32 values can
    lie half-way between two others: the last bit of float64 then said which way each of two equal scores went."""
    bits = scores.view(np.int64)
    # Half of the bits that go, rounded to even, and then these bits.
    bits += (1 << _SPARE - 1) - 1 + (bits >> _SPARE & 1)
    bits &= -1 << _SPARE
    return scores


def count_votes(nearest: TopK, pairs: csr_matrix, power: float) -> csr_matrix:
    """The share of the neighbors that has each label, by similarity^power: CSR float64 [N, L]. nearest: of N
    texts the neighbors among the rows of ``pairs``, a binary CSR matrix, and their similarities; negative ones count as
    0. A neighbor without a pair votes for nothing, and its share is lost."""
    from scipy.sparse import csr_matrix

    # A missing neighbor scores -inf.
    similarities = np.maximum(nearest.scores.astype(np.float64), 0)
    largest = similarities.max(axis=1, initial=0, keepdims=True)
    # Relative to the largest, whose power alone may be nothing in float64, or beyond it.
    weights = (similarities / np.where(largest > 0, largest, 1)) ** power
    total = weights.sum(axis=1, keepdims=True)
    np.divide(weights, total, out=weights, where=total > 0)
    kept = weights > 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    shares = csr_matrix((weights[kept], nearest.indices[kept], starts), shape=(len(nearest), pairs.shape[0]))
    return shares @ pairs
