"""Filters: pairs that do not count as predictions, such as an item recommended to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import ranking
from xmcbench.metrics.protocol import DEPTH

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix


def longest(removed: csr_matrix | None) -> int:
    """The most pairs that the filter [N, L] holds for one row: how many more predictions must be fetched."""
    if removed is None or not removed.shape[0]:
        return 0
    rows, _ = ranking.pairs(removed)
    return int(np.bincount(rows, minlength=1).max())


def remove(indices: NDArray[np.int32], removed: csr_matrix | None, depth: int = DEPTH) -> NDArray[np.int32]:
    """Predictions without those that the filter names, int32 [N, depth].

    ``indices`` [N, k] are label ids, best first, -1 where there is none; ``removed`` [N, L] holds the filter's pairs,
    None for no filter. The order stays, gaps close, missing places are -1. Raises DataError when the filter is for
    another number of rows.
    """
    indices = np.asarray(indices, np.int32)
    if removed is None:
        return _fit(indices, depth)
    if removed.shape[0] != len(indices):
        raise DataError(
            f"the filter has {removed.shape[0]} rows, the predictions {len(indices)}",
            "the filter of the training set where that of the test set is meant?",
        )
    rows, labels = ranking.pairs(removed)
    hits = ranking.find(indices, rows, labels)
    kept = _fit(indices, depth)
    # Most rows lose nothing; only the others are rebuilt, from all the predictions they came with.
    touched, row = np.unique(rows[hits.pair], return_inverse=True)
    affected = indices[touched]
    affected[row, hits.rank] = -1
    present = affected >= 0
    place = np.cumsum(present, axis=1) - 1
    source_row, source_rank = np.nonzero(present & (place < depth))
    closed = np.full((len(touched), depth), -1, np.int32)
    closed[source_row, place[source_row, source_rank]] = affected[source_row, source_rank]
    kept[touched] = closed
    return kept


def _fit(indices: NDArray[np.int32], depth: int) -> NDArray[np.int32]:
    """A copy cut or padded to ``depth`` columns."""
    kept = np.full((len(indices), depth), -1, np.int32)
    width = min(depth, indices.shape[1])
    kept[:, :width] = indices[:, :width]
    return kept
