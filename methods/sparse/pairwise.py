"""Inner products of chosen pairs of sparse rows. Imports numba: import it late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def pair_scores(queries: csr_matrix, items: csr_matrix, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The inner product of each query with the items chosen for it: float32 [len(columns)].

    queries: CSR [N, features]. items: CSR [L, features]. starts: int [N + 1]; the items of query i are
    ``columns[starts[i]:starts[i + 1]]``. Each product is summed in float64 in the order of the item's features.
    """
    scores = np.empty(len(columns), np.float32)
    _pair_scores(
        (queries.indptr, queries.indices, queries.data),
        (items.indptr, items.indices, items.data),
        starts,
        columns,
        queries.shape[1],
        scores,
    )
    return scores


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _pair_scores(queries, items, starts, columns, features, scores):  # type: ignore[no-untyped-def]
    query_starts, query_features, query_values = queries
    item_starts, item_features, item_values = items
    workers = numba.get_num_threads()
    for worker in numba.prange(workers):
        # One query at a time is spread out, so that each item costs as many look-ups as it has features.
        dense = np.zeros(features, np.float32)
        for row in range(worker, len(starts) - 1, workers):
            for place in range(query_starts[row], query_starts[row + 1]):
                dense[query_features[place]] = query_values[place]
            for pair in range(starts[row], starts[row + 1]):
                total = 0.0
                for place in range(item_starts[columns[pair]], item_starts[columns[pair] + 1]):
                    total += dense[item_features[place]] * item_values[place]
                scores[pair] = total
            for place in range(query_starts[row], query_starts[row + 1]):
                dense[query_features[place]] = 0
