"""A bilinear model x^T W y with few entries in W: trained by dual coordinate descent, scored. Imports numba.

A pair of a document and a label is a vector with an entry x_f y_g for each entry (f, g) of W that both reach, and a
bias. These vectors are never stored: the entries that a document reaches are put in lists, one for each label feature,
and a label reads the lists of its features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


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
        """Train as an L2-loss linear SVM on the candidates: min |w|^2 / 2 + cost sum max(0, 1 - s)^2.

        documents: CSR [N, features]. candidates: CSR [N, L], whose structure says which labels each document is
        trained on. true: bool [candidates.nnz]. Stops after ``iterations`` passes, or after one over all candidates in
        which no projected gradient exceeded ``tolerance``. Returns the passes and the largest projected gradient of
        the last one.

        Dual coordinate descent (Hsieh et al., ICML 2008), document by document in random order. A candidate that sits
        at the bound with a gradient that keeps it there is left out of the next pass, then of the next three, seven,
        ..., but of none that the tolerance could end.
        """
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
        )
        return found

    def _room(self, documents: csr_matrix) -> int:
        """The most entries of W that a document reaches."""
        reached = np.concatenate([[0], np.cumsum(self._sizes[documents.indices])])
        return int(np.diff(reached[documents.indptr]).max(initial=0))


@numba.njit  # type: ignore[untyped-decorator]
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


@numba.njit  # type: ignore[untyped-decorator]
def _leave(document, row, pattern, heads):  # type: ignore[no-untyped-def]
    starts, features, _ = document
    pattern_starts, pattern_columns = pattern
    for place in range(starts[row], starts[row + 1]):
        for entry in range(pattern_starts[features[place]], pattern_starts[features[place] + 1]):
            heads[pattern_columns[entry]] = -1


@numba.njit  # type: ignore[untyped-decorator]
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


@numba.njit  # type: ignore[untyped-decorator]
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
                for each in range(size):
                    score += weights[own_entries[each]] * own_values[each]
                    square += own_values[each] * own_values[each]
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
                for each in range(size):
                    weights[own_entries[each]] += step * own_values[each]
            _leave(documents, row, pattern, heads)
        done += 1
        if worst <= tolerance:
            if left_out == 0:
                break
            rest[:] = 0
    return done, worst


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _score(documents, pattern, labels, candidates, weights, features, room, found):  # type: ignore[no-untyped-def]
    starts, columns = candidates
    workers = numba.get_num_threads()
    for worker in numba.prange(workers):
        heads, following = np.full(features, -1, np.int32), np.empty(room, np.int32)
        entries, values = np.empty(room, np.int64), np.empty(room, np.float32)
        own_entries, own_values = np.empty(room, np.int64), np.empty(room, np.float32)
        for row in range(worker, len(starts) - 1, workers):
            _reach(documents, row, pattern, heads, following, entries, values)
            for place in range(starts[row], starts[row + 1]):
                size = _read(labels, columns[place], heads, following, entries, values, own_entries, own_values)
                score = float(weights[len(weights) - 1])
                for each in range(size):
                    score += weights[own_entries[each]] * own_values[each]
                found[place] = score
            _leave(documents, row, pattern, heads)
