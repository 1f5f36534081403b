"""Ranks: which labels are right for which test rows, and where these stand among the predictions.

Every metric follows from the ranks. A filter holds pairs that do not count as predictions, such as an item that is
recommended to itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError, MethodError
from xmcbench.metrics.protocol import DEPTH

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Comparisons made at a time: small enough that the block stays in a core's cache.
_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class TruePairs:
    """The true pairs of a test set, row by row, each once.

    rows: int64 [P], the test row of each pair; never falls.
    labels: int64 [P], its label.
    instances: number of test rows N, with or without a true label.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    instances: int

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, matrix: csr_matrix) -> TruePairs:
        """Return the non-zero entries of a sparse matrix [N, L], each once."""
        return cls(*pairs_of(matrix), instances=matrix.shape[0])

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of true labels of every test row, int64 [N]."""
        return np.bincount(self.rows, minlength=self.instances)

    def restrict(self, members: NDArray[np.bool_]) -> tuple[TruePairs, NDArray[np.bool_]]:
        """Return the pairs whose label is a member (bool [L]), and a mask of these pairs, bool [P].

        The number of test rows stays. Raises DataError when a pair's label is outside the group's labels.
        """
        if len(self) and self.labels.max() >= len(members):
            raise DataError(
                f"a group over {len(members)} labels does not fit true pairs with label {self.labels.max()}"
            )
        kept = members[self.labels]
        return TruePairs(self.rows[kept], self.labels[kept], self.instances), kept


def true_ranks(predicted: NDArray[np.int32], pairs: TruePairs, removed: csr_matrix | None = None) -> NDArray[np.uint8]:
    """Return the rank of every true pair among its row's predictions, uint8 [P]: 1 to 100, 0 if it is not among them.

    ``predicted`` [N, k] are label ids, best first, -1 where there is none. The filter ``removed`` [N, L] is applied
    before the cut at 100. Raises MethodError when the predictions are of another number of rows, DataError when the
    filter is.
    """
    if predicted.ndim != 2 or len(predicted) != pairs.instances:
        raise MethodError(
            f"predictions have the shape {predicted.shape}, the truth has {pairs.instances} rows",
            "predict(raw_X, k) returns one row of labels for each instance",
        )
    hit, rank = find(predicted, pairs.rows, pairs.labels)
    if removed is not None:
        rank = _move_up(pairs.rows[hit], rank, *find_filtered(predicted, removed))
    kept = rank < DEPTH
    ranks = np.zeros(len(pairs), np.uint8)  # has room for ranks up to 255
    ranks[hit[kept]] = rank[kept] + 1
    return ranks


def _move_up(
    rows: NDArray[np.int64], ranks: NDArray[np.int64], filtered_rows: NDArray[np.int64], filtered: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the ranks of hits without the filtered predictions before them; -1 for a filtered hit, which is no hit."""
    depth = 1 + max(ranks.max(initial=0), filtered.max(initial=0))
    places, removed = rows * depth + ranks, np.sort(filtered_rows * depth + filtered)
    before = np.searchsorted(removed, places) - np.searchsorted(removed, rows * depth)
    return np.where(np.isin(places, removed), -1, ranks - before)


def find_filtered(predicted: NDArray[np.int32], removed: csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and 0-based rank, int64 [filtered] each, of the predictions [N, k] that a filter [N, L] removes.

    Raises DataError when the filter is for another number of rows.
    """
    if removed.shape[0] != len(predicted):
        raise DataError(
            f"the filter has {removed.shape[0]} rows, the predictions {len(predicted)}",
            "the filter of the training set where that of the test set is meant?",
        )
    rows, labels = pairs_of(removed)
    hit, rank = find(predicted, rows, labels)
    return rows[hit], rank


def longest_filter(removed: csr_matrix | None) -> int:
    """Return the most pairs of a row in the filter [N, L]: the number of additional predictions that are needed."""
    if removed is None or not removed.shape[0]:
        return 0
    rows, _ = pairs_of(removed)
    return int(np.bincount(rows, minlength=1).max())


def pairs_of(matrix: csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and labels, int64 [pairs] each, of the non-zero entries of a sparse matrix, each once, row by row."""
    matrix = matrix.tocsr()
    if not matrix.has_canonical_format or not np.all(matrix.data):
        matrix = matrix.copy()  # the argument is not changed
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices.astype(np.int64)


def find(
    predicted: NDArray[np.int32], rows: NDArray[np.int64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Look every pair (row, label) up among the predictions [N, k] of its row.

    Returns, int64 [hits] each, the places of the pairs that are found, rising, and the ranks of their labels from 0.
    There are far fewer pairs than predictions, so pairs x k comparisons are cheaper than sorting N x k predictions.
    """
    k = predicted.shape[1]
    if not k or not len(rows):
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    found_pairs, found_ranks = [], []
    step = max(1, _BLOCK // k)
    wanted = labels.astype(predicted.dtype)
    for start in range(0, len(rows), step):
        same = predicted[rows[start : start + step]] == wanted[start : start + step, None]
        rank = same.argmax(axis=1)  # the first match; 0 where there is none, hence the look at that place
        pair = np.flatnonzero(same[np.arange(len(same)), rank])
        found_pairs.append(pair + start)
        found_ranks.append(rank[pair])
    return np.concatenate(found_pairs), np.concatenate(found_ranks)


def top_sums(
    rows: NDArray[np.int64], values: NDArray[np.float64], instances: int, depths: list[int]
) -> dict[int, NDArray[np.float64]]:
    """Return the sum of the k largest values of each row, float64 [instances], for every k in ``depths``.

    ``rows`` [pairs] never falls; ``values`` [pairs] are the pairs' values. Of a row with fewer than k all are summed.
    """
    values = values[np.lexsort((-values, rows))]
    lengths = np.bincount(rows, minlength=instances)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return {
        k: np.bincount(rows[place < k], values[place < k], instances).astype(np.float64, copy=False) for k in depths
    }
