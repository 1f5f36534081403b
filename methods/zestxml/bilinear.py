"""A bilinear model x^T W y with few entries in W: which, their training, and scores. Imports numba: import it late.

A pair of a document and a label is a vector with an entry x_f y_g per entry (f, g) of W that both reach, and a
bias. These vectors are never stored: the entries that a document reaches are put in lists, one per label feature,
and a label reads the lists of its features.
"""

from __future__ import annotations

import numba
import numpy as np
from scipy.sparse import csr_matrix

from xmcbench.methods.kernels import kernel


def one_shot(X: csr_matrix, Y: csr_matrix, pairs: csr_matrix, count: int, alpha: float) -> csr_matrix:
    """Return the strongest links between document features and label features: CSR float32 [features, features]. X: CSR
    [N, features], documents with a pair. Y: CSR [L, features], labels. pairs: binary CSR [N, L]. The strength of the
    link (f, g) is v / (alpha (c_f + c_g - v) + (1 - alpha) n_f n_g): v pairs have f in the document and g in the label,
    c_f and c_g have one of them, and n_f and n_g are rows of X and Y with one. Kept are the ``count`` strongest links
    of each document feature and each label feature, ties by the lower feature number."""
    X, Y, pairs = _binary(X), _binary(Y), _binary(pairs)
    in_pairs = X.T @ np.diff(pairs.indptr), Y.T @ np.bincount(pairs.indices, minlength=pairs.shape[1])
    plain = np.diff(X.T.tocsr().indptr), np.diff(Y.T.tocsr().indptr)
    links = _strongest(X, (pairs @ Y).tocsr(), in_pairs, plain, count, alpha)
    back = _strongest(Y, (pairs.T.tocsr() @ X).tocsr(), in_pairs[::-1], plain[::-1], count, alpha)
    return links.maximum(back.T.tocsr())


def _binary(matrix: csr_matrix) -> csr_matrix:
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
    """Return the strengths of the ``count`` strongest links of each feature of the near side: CSR float32 [F, G]. near:
    binary CSR [n, F]. far: CSR [n, G], how many pairs of a near item have each far feature."""
    by_feature = near.T.tocsr()
    # A feature has no more links than entries of ``far`` that it meets.
    room = np.minimum(np.minimum(by_feature @ np.diff(far.indptr), far.shape[1]), count).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(room)])
    columns, values, filled = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32), np.zeros_like(room)
    _fill(
        (by_feature.indptr, by_feature.indices),
        (far.indptr, far.indices, far.data),
        tuple(array.astype(np.float64) for array in in_pairs),
        tuple(array.astype(np.float64) for array in plain),
        alpha,
        starts,
        columns,
        values,
        filled,
        numba.get_num_threads(),
    )
    ends = np.concatenate([[0], np.cumsum(filled)])
    _close_gaps(starts, ends, columns, values)
    links = csr_matrix((values[: ends[-1]], columns[: ends[-1]], ends), shape=(len(room), far.shape[1]))
    links.sort_indices()
    return links


@kernel(parallel=True)
def _fill(by_feature, far, in_pairs, plain, alpha, starts, columns, values, filled, workers):  # type: ignore[no-untyped-def]
    feature_starts, items = by_feature
    far_starts, far_features, far_counts = far
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


@kernel()
def _close_gaps(starts, ends, columns, values):  # type: ignore[no-untyped-def]
    """Move the links of each feature to where they follow one another, in place: a mask and copies take four times
    their memory, with a thousand links per document of a large corpus."""
    for feature in range(len(starts) - 1):
        for place in range(ends[feature + 1] - ends[feature]):
            columns[ends[feature] + place] = columns[starts[feature] + place]
            values[ends[feature] + place] = values[starts[feature] + place]


class Bilinear:
    """The model. weights: float32 [entries of the pattern + 1], the bias last."""

    def __init__(self, pattern: csr_matrix, labels: csr_matrix) -> None:
        """pattern: CSR [features, features], whose entries may differ from zero. labels: CSR [L, features]."""
        self._pattern = pattern.indptr, pattern.indices
        self._sizes = np.diff(pattern.indptr)
        self._labels = labels.indptr, labels.indices, labels.data
        self._features = labels.shape[1]
        self.weights = np.zeros(pattern.nnz + 1, np.float32)

    def fit(
        self,
        documents: csr_matrix,
        candidates: csr_matrix,
        true: np.ndarray,
        *,
        cost: float,
        iterations: int,
        tolerance: float,
        seed: int,
    ) -> tuple[int, float]:
        """Train as an L2-loss linear SVM on the candidates: min |w|^2 / 2 + cost sum max(0, 1 - s)^2. documents: CSR
        [N, features]. candidates: CSR [N, L] by structure. true: bool [candidates.nnz]. Ends after ``iterations``
        passes, or one over all candidates without a projected gradient above ``tolerance``. Returns the passes and the
        last one's largest projected gradient. Dual coordinate descent (Hsieh et al., ICML 2008), document by document
        in random order. A candidate held at the bound by its gradient is left out of the next pass, then of three,
        seven, ..., but of none that the tolerance could end."""
        passes, worst = _descend(
            (documents.indptr, documents.indices, documents.data),
            self._pattern,
            self._labels,
            (candidates.indptr, candidates.indices),
            np.where(true, 1.0, -1.0),
            self.weights,
            self._features,
            self._room(documents),
            cost,
            iterations,
            tolerance,
            seed,
        )
        return int(passes), float(worst)

    def scores(self, documents: csr_matrix, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The score of each document i with the labels ``columns[starts[i]:starts[i + 1]]``: float64 [len(columns)]."""
        found = np.empty(len(columns), np.float64)
        _score(
            (documents.indptr, documents.indices, documents.data),
            self._pattern,
            self._labels,
            (starts, columns),
            self.weights,
            self._features,
            self._room(documents),
            found,
            numba.get_num_threads(),
        )
        return found

    def _room(self, documents: csr_matrix) -> int:
        """The most entries of W that a document reaches."""
        reached = np.concatenate([[0], np.cumsum(self._sizes[documents.indices])])
        return int(np.diff(reached[documents.indptr]).max(initial=0))


@kernel()
def _reach(document, row, pattern, heads, following, entries, values):  # type: ignore[no-untyped-def]
    """Put what a document reaches in lists: ``heads[g]`` is the first place, ``following`` the next one, -1 the end."""
    starts, features, weights = document
    pattern_starts, pattern_columns = pattern
    size = 0
    for place in range(starts[row], starts[row + 1]):
        for entry in range(pattern_starts[features[place]], pattern_starts[features[place] + 1]):
            column = pattern_columns[entry]
            entries[size], values[size] = entry, weights[place]
            following[size] = heads[column]
            heads[column] = size
            size += 1


@kernel()
def _leave(document, row, pattern, heads):  # type: ignore[no-untyped-def]
    starts, features, _ = document
    pattern_starts, pattern_columns = pattern
    for place in range(starts[row], starts[row + 1]):
        for entry in range(pattern_starts[features[place]], pattern_starts[features[place] + 1]):
            heads[pattern_columns[entry]] = -1


@kernel()
def _read(labels, label, heads, following, entries, values, own_entries, own_values):  # type: ignore[no-untyped-def]
    """The vector of the pair: its size; ``own_entries`` and ``own_values`` take it."""
    starts, features, weights = labels
    size = 0
    for place in range(starts[label], starts[label + 1]):
        found = heads[features[place]]
        while found >= 0:
            own_entries[size], own_values[size] = entries[found], values[found] * weights[place]
            size += 1
            found = following[found]
    return size


@kernel()
def _descend(  # type: ignore[no-untyped-def]
    documents, pattern, labels, candidates, signs, weights, features, room, cost, iterations, tolerance, seed
):
    np.random.seed(seed)  # numba's own generator: NumPy's global one is not touched
    starts, columns = candidates
    heads, following = np.full(features, -1, np.int32), np.empty(room, np.int32)
    entries, values = np.empty(room, np.int64), np.empty(room, np.float32)
    own_entries, own_values = np.empty(room, np.int64), np.empty(room, np.float32)
    alphas, diagonal, bias = np.zeros(len(columns)), 0.5 / cost, len(weights) - 1
    rest, pause = np.zeros(len(columns), np.int16), np.zeros(len(columns), np.int16)
    worst, done = 0.0, 0
    while done < iterations:
        worst, left_out = 0.0, 0
        for row in np.random.permutation(len(starts) - 1):
            _reach(documents, row, pattern, heads, following, entries, values)
            for place in range(starts[row], starts[row + 1]):
                if rest[place] > 0:
                    rest[place] -= 1
                    left_out += 1
                    continue
                size = _read(labels, columns[place], heads, following, entries, values, own_entries, own_values)
                score, square = float(weights[bias]), 1.0
                for entry in range(size):
                    score += weights[own_entries[entry]] * own_values[entry]
                    square += own_values[entry] * own_values[entry]
                gradient = signs[place] * score - 1 + diagonal * alphas[place]
                if alphas[place] == 0 and gradient >= 0:
                    pause[place] = min(2 * pause[place] + 1, 1000)
                    rest[place] = pause[place]
                    continue
                pause[place] = 0
                worst = max(worst, abs(gradient))
                new = max(alphas[place] - gradient / (square + diagonal), 0.0)
                step = (new - alphas[place]) * signs[place]
                alphas[place] = new
                weights[bias] += step
                for entry in range(size):
                    weights[own_entries[entry]] += step * own_values[entry]
            _leave(documents, row, pattern, heads)
        done += 1
        if worst <= tolerance:
            if left_out == 0:
                break
            rest[:] = 0
    return done, worst


@kernel(parallel=True)
def _score(documents, pattern, labels, candidates, weights, features, room, found, workers):  # type: ignore[no-untyped-def]
    starts, columns = candidates
    for worker in numba.prange(workers):
        heads, following = np.full(features, -1, np.int32), np.empty(room, np.int32)
        entries, values = np.empty(room, np.int64), np.empty(room, np.float32)
        own_entries, own_values = np.empty(room, np.int64), np.empty(room, np.float32)
        for row in range(worker, len(starts) - 1, workers):
            _reach(documents, row, pattern, heads, following, entries, values)
            for place in range(starts[row], starts[row + 1]):
                size = _read(labels, columns[place], heads, following, entries, values, own_entries, own_values)
                score = float(weights[len(weights) - 1])
                for entry in range(size):
                    score += weights[own_entries[entry]] * own_values[entry]
                found[place] = score
            _leave(documents, row, pattern, heads)
