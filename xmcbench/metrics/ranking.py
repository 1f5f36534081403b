"""Hits: the ranks at which a row's pairs stand among its predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Comparisons made at a time: small enough that the block stays in a core's cache.
_BLOCK = 1_000_000


class Hits(NamedTuple):
    """Pairs found among the predictions.

    pair: int64 [hits], position of the pair in the lists that were searched, rising.
    rank: int64 [hits], 0-based rank of its label among the row's predictions.
    """

    pair: NDArray[np.int64]
    rank: NDArray[np.int64]


def pairs(matrix: csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and labels, int64 [pairs] each, of the non-zero entries of a sparse matrix, each once, row by row."""
    matrix = matrix.tocsr()
    if not matrix.has_canonical_format or not np.all(matrix.data):
        matrix = matrix.copy()  # what was handed in stays as it is
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices.astype(np.int64)


def find(predicted: NDArray[np.int32], rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Hits:
    """Look every pair (row, label) up among the predictions [N, k] of its row.

    There are far fewer pairs than predictions, so pairs x k comparisons are cheaper than sorting N x k predictions.
    """
    k = predicted.shape[1]
    if not k or not len(rows):
        nothing = np.empty(0, np.int64)
        return Hits(nothing, nothing)
    found_pairs, found_ranks = [], []
    step = max(1, _BLOCK // k)
    wanted = labels.astype(predicted.dtype)
    for start in range(0, len(rows), step):
        same = predicted[rows[start : start + step]] == wanted[start : start + step, None]
        rank = same.argmax(axis=1)  # the first match; 0 where there is none, hence the look at that place
        pair = np.flatnonzero(same[np.arange(len(same)), rank])
        found_pairs.append(pair + start)
        found_ranks.append(rank[pair])
    return Hits(np.concatenate(found_pairs), np.concatenate(found_ranks))


def top_sums(
    rows: NDArray[np.int64], values: NDArray[np.float64], instances: int, depths: list[int]
) -> dict[int, NDArray[np.float64]]:
    """The sum of the k largest values of each row, float64 [instances], for every k in ``depths``.

    ``rows`` [pairs] never falls; ``values`` [pairs] are the pairs' values. Of a row with fewer than k all are summed.
    """
    values = values[np.lexsort((-values, rows))]
    lengths = np.bincount(rows, minlength=instances)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return {
        k: np.bincount(rows[place < k], values[place < k], instances).astype(np.float64, copy=False) for k in depths
    }
