"""Linear SVMs for the clusters of a level of a tree. Imports numba: import it late."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numba
import numpy as np

from xmcbench import usable_cores
from xmcbench.methods.distributed.threads import in_threads

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

#: Passes of coordinate descent at most, and the projected gradient at which it stops: those of PECOS.
_PASSES, _TOLERANCE = 100, 0.1


def linear_svms(
    X: csr_matrix,
    positives: csc_matrix,
    members: csc_matrix,
    instances: csc_matrix,
    *,
    cost: float,
    threshold: float,
    seed: int,
) -> csr_matrix:
    """Return a linear SVM with L2 loss for each cluster of a level: CSR float32 [K, features + 1], the bias last.

    X: CSR float32 [N, features]. positives: CSC [N, K], the instances of each cluster. members: CSC [K, P], the
    clusters below each of the level above. instances: CSC [N, P], the instances that train the clusters below it. Each
    SVM minimizes |w|^2 / 2 + cost sum max(0, 1 - y w x)^2 by dual coordinate descent (Hsieh et al., ICML 2008); weights
    of an absolute value below the threshold are dropped. A cluster that all of its instances have gets the margin 1.

    One seed for each cluster makes the result independent of the number of threads.
    """
    from scipy.sparse import csr_matrix

    cores = usable_cores()
    rows, columns, weights = [], [], []
    for parent in range(members.shape[1]):
        clusters = members.indices[members.indptr[parent] : members.indptr[parent + 1]]
        trained = np.sort(instances.indices[instances.indptr[parent] : instances.indptr[parent + 1]])
        below = X[trained]
        features, local = np.unique(below.indices, return_inverse=True)
        signs = np.full((len(clusters), len(trained)), -1.0)
        for place, cluster in enumerate(clusters):
            own = positives.indices[positives.indptr[cluster] : positives.indptr[cluster + 1]]
            signs[place, np.isin(trained, own, assume_unique=True)] = 1.0
        found = np.zeros((len(clusters), len(features) + 1), np.float32)
        task = (below.indptr, local, below.data), signs, cost, seed + clusters.astype(np.int64), found
        list(in_threads(partial(_descend, *task, cores), range(cores), cores))
        children, kept = np.nonzero(np.abs(found) >= threshold if threshold else found)
        rows.append(clusters[children])
        columns.append(np.append(features, X.shape[1])[kept])
        weights.append(found[children, kept])
    shape = (members.shape[0], X.shape[1] + 1)
    whole = csr_matrix((np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    whole.sort_indices()
    return whole


# Threads of our own and not numba's: a kernel for those takes four times as long to compile.
@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _descend(vectors, signs, cost, seeds, weights, step, first):  # type: ignore[no-untyped-def]
    starts, features, values = vectors
    instances, bias = len(starts) - 1, weights.shape[1] - 1
    squares = np.ones(instances)  # of the bias
    for row in range(instances):
        for place in range(starts[row], starts[row + 1]):
            squares[row] += values[place] * values[place]
    diagonal = 0.5 / cost
    for cluster in range(first, len(weights), step):
        own = signs[cluster]
        if own.min() > 0:
            weights[cluster, bias] = 1.0
            continue
        np.random.seed(seeds[cluster])  # numba's own generator: NumPy's global one is not touched
        alphas, found = np.zeros(instances), np.zeros(bias + 1)
        for _ in range(_PASSES):
            worst = 0.0
            for row in np.random.permutation(instances):
                score = found[bias]
                for place in range(starts[row], starts[row + 1]):
                    score += found[features[place]] * values[place]
                gradient = own[row] * score - 1 + diagonal * alphas[row]
                if alphas[row] == 0 and gradient >= 0:
                    continue
                worst = max(worst, abs(gradient))
                new = max(alphas[row] - gradient / (squares[row] + diagonal), 0.0)
                step = (new - alphas[row]) * own[row]
                alphas[row] = new
                found[bias] += step
                for place in range(starts[row], starts[row + 1]):
                    found[features[place]] += step * values[place]
            if worst <= _TOLERANCE:
                break
        weights[cluster] = found
