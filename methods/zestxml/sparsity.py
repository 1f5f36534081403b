"""Which entries of the bilinear model may differ from zero: decided once, before training. Imports numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def one_shot(X: csr_matrix, Y: csr_matrix, pairs: csr_matrix, count: int, alpha: float) -> csr_matrix:
    """The strongest links between document features and label features: CSR float32 [features, features].

    X: CSR [N, features], documents. Y: CSR [L, features], labels. pairs: binary CSR [N, L].

    The strength of the link (f, g) is v / (alpha (c_f + c_g - v) + (1 - alpha) n_f n_g): v is the number of pairs whose
    document has f and whose label has g; c_f and c_g count the pairs with one of the two; n_f and n_g count the rows of
    X and of Y with one of the two. X has the documents with a known pair only. Kept are the ``count`` strongest links
    of each document feature and of each label feature; among equal ones those with the lower feature number.
    """
    X, Y, pairs = _binary(X), _binary(Y), _binary(pairs)
    in_pairs = X.T @ np.diff(pairs.indptr), Y.T @ np.bincount(pairs.indices, minlength=pairs.shape[1])
    plain = np.diff(X.T.tocsr().indptr), np.diff(Y.T.tocsr().indptr)
    links = _strongest(X, (pairs @ Y).tocsr(), in_pairs, plain, count, alpha)
    back = _strongest(Y, (pairs.T.tocsr() @ X).tocsr(), in_pairs[::-1], plain[::-1], count, alpha)
    return links.maximum(back.T.tocsr())


def _binary(matrix: csr_matrix) -> csr_matrix:
    from scipy.sparse import csr_matrix

    ones = np.ones(matrix.nnz, np.float32)
    return csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _strongest(
    near: csr_matrix,
    far: csr_matrix,
    in_pairs: tuple[np.ndarray, np.ndarray],
    plain: tuple[np.ndarray, np.ndarray],
    count: int,
    alpha: float,
) -> csr_matrix:
    """For each feature of the near side the strengths of its ``count`` strongest links: CSR float32 [F, G].

    near: binary CSR [n, F]. far: CSR [n, G], how many pairs of a near item have each far feature.
    """
    from scipy.sparse import csr_matrix

    by_feature = near.T.tocsr()
    # A feature has no more links than entries of ``far`` that it meets.
    room = np.minimum(np.minimum(by_feature @ np.diff(far.indptr), far.shape[1]), count).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(room)])
    columns, values, filled = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32), np.zeros_like(room)
    _fill(
        (by_feature.indptr, by_feature.indices),
        (far.indptr, far.indices, far.data),
        tuple(each.astype(np.float64) for each in in_pairs),
        tuple(each.astype(np.float64) for each in plain),
        alpha,
        starts,
        columns,
        values,
        filled,
    )
    ends = np.concatenate([[0], np.cumsum(filled)])
    _close_gaps(starts, ends, columns, values)
    links = csr_matrix((values[: ends[-1]], columns[: ends[-1]], ends), shape=(len(room), far.shape[1]))
    links.sort_indices()
    return links


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _fill(by_feature, far, in_pairs, plain, alpha, starts, columns, values, filled):  # type: ignore[no-untyped-def]
    feature_starts, items = by_feature
    far_starts, far_features, far_counts = far
    workers = numba.get_num_threads()
    for worker in numba.prange(workers):
        counts = np.zeros(len(plain[1]), np.float64)
        touched = np.empty(len(plain[1]), np.int32)
        for feature in range(worker, len(filled), workers):
            size = 0
            for item in items[feature_starts[feature] : feature_starts[feature + 1]]:
                for place in range(far_starts[item], far_starts[item + 1]):
                    other = far_features[place]
                    if counts[other] == 0:
                        touched[size] = other
                        size += 1
                    counts[other] += far_counts[place]
            room = starts[feature + 1] - starts[feature]
            met = np.sort(touched[:size])
            strengths = np.empty(size, np.float64)
            for place in range(size):
                v = counts[met[place]]
                union = in_pairs[0][feature] + in_pairs[1][met[place]] - v
                product = plain[0][feature] * plain[1][met[place]]
                strengths[place] = v / (alpha * union + (1 - alpha) * product)
                counts[met[place]] = 0
            order = np.argsort(-strengths, kind="mergesort") if size > room else np.arange(size)
            for place in range(min(room, size)):
                columns[starts[feature] + place] = met[order[place]]
                values[starts[feature] + place] = strengths[order[place]]
            filled[feature] = min(room, size)


@numba.njit  # type: ignore[untyped-decorator]
def _close_gaps(starts, ends, columns, values):  # type: ignore[no-untyped-def]
    """Move the links of each feature from where it has room to where they follow one another.

    In place: there are a thousand links for each document of a large corpus, and a mask and copies take four times
    their memory.
    """
    for feature in range(len(starts) - 1):
        for place in range(ends[feature + 1] - ends[feature]):
            columns[ends[feature] + place] = columns[starts[feature] + place]
            values[ends[feature] + place] = values[starts[feature] + place]
