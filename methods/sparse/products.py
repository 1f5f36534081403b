"""Inner products of sparse rows: the largest ones, and those of chosen pairs. Imports numba: import it late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
from scipy.sparse import csr_matrix

from xmcbench import usable_cores
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Queries that a thread takes at a time.
_QUERIES = 256


def largest_products(
    queries: csr_matrix, by_feature: csr_matrix, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return the k largest positive products of each query: where each row begins, the columns, and the products.
    queries: CSR float64 [n, features]. by_feature: CSR float64 [features, L]. No value of either is negative. The
    largest product of a query is first; each is summed in the order of the query's features."""
    columns = np.empty((queries.shape[0], k), np.int32)
    products = np.empty((queries.shape[0], k))
    features = queries.indices.astype(np.uint32)
    items = by_feature.indptr.astype(np.uint64), by_feature.indices.astype(np.uint32), by_feature.data

    def multiply(start: int) -> NDArray[np.int64]:
        rows = slice(start, start + _QUERIES)
        ends = queries.indptr[start : start + _QUERIES + 1].astype(np.uint64)
        found = np.empty(len(ends) - 1, np.int64)
        sums, met = np.zeros(by_feature.shape[1]), np.empty(by_feature.shape[1], np.uint32)
        _multiply((ends, features, queries.data), items, sums, met, found, columns[rows], products[rows])
        return found

    parts = in_threads(multiply, range(0, queries.shape[0], _QUERIES), usable_cores())
    counts = np.concatenate([np.empty(0, np.int64), *parts])
    kept = np.arange(k) < counts[:, None]
    return np.concatenate([[0], np.cumsum(counts)]), columns[kept], products[kept]


@kernel(nogil=True)
def _multiply(queries, items, sums, met, counts, columns, products):  # type: ignore[no-untyped-def]
    # Unsigned numbers: numba asks of every signed index whether it counts from the end.
    starts, features, values = queries
    firsts, ids, weights = items
    k = columns.shape[1]
    for row in range(len(counts)):
        size = 0
        for place in range(starts[row], starts[row + 1]):
            value = values[place]
            for entry in range(firsts[features[place]], firsts[features[place] + 1]):
                column, added = ids[entry], value * weights[entry]
                if added <= 0:  # a zero that is stored; a sum that stays 0 would be met again
                    continue
                if sums[column] == 0:
                    met[size] = column
                    size += 1
                sums[column] += added
        # The best so far are a heap whose root is the least of them.
        found = 0
        for place in range(size):
            column = met[place]
            product = sums[column]
            sums[column] = 0
            if found < k:
                node = found
                found += 1
                while node > 0 and products[row, (node - 1) // 2] > product:
                    above = (node - 1) // 2
                    products[row, node], columns[row, node] = products[row, above], columns[row, above]
                    node = above
                products[row, node], columns[row, node] = product, column
            elif product > products[row, 0]:
                _sift(products[row], columns[row], k, product, column)
        counts[row] = found
        for last in range(found - 1, 0, -1):
            product, column = products[row, last], columns[row, last]
            products[row, last], columns[row, last] = products[row, 0], columns[row, 0]
            _sift(products[row], columns[row], last, product, column)


@kernel(nogil=True)
def _sift(products, columns, size, product, column):  # type: ignore[no-untyped-def]
    """Put a product in the place of the root of a heap."""
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and products[child + 1] < products[child]:
            child += 1
        if product <= products[child]:
            break
        products[node], columns[node] = products[child], columns[child]
        node = child
    products[node], columns[node] = product, column


def pair_scores(queries: csr_matrix, items: csr_matrix, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The inner product of each query with the items chosen for it: float32 [len(columns)]. queries: CSR [N, features].
    items: CSR [L, features]. starts: int [N + 1]; the items of query i are ``columns[starts[i]:starts[i + 1]]``. Each
    product is summed in float64 in the order of the item's features."""
    scores = np.empty(len(columns), np.float32)
    _pair_scores(
        (queries.indptr, queries.indices, queries.data),
        (items.indptr, items.indices, items.data),
        starts,
        columns,
        queries.shape[1],
        scores,
        numba.get_num_threads(),
    )
    return scores


@kernel(parallel=True)
def _pair_scores(queries, items, starts, columns, features, scores, workers):  # type: ignore[no-untyped-def]
    query_starts, query_features, query_values = queries
    item_starts, item_features, item_values = items
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
