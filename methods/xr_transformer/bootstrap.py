"""Where the classifiers of a level start from: linear SVMs on the vectors as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.methods.label_tree.tree import Level

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import TopK


def bootstrapped(
    vectors: np.ndarray, level: Level, guessed: TopK | None, cost: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights float32 [K, d] and bias float32 [K] of a linear SVM for each cluster of a level.

    vectors: float32 [N, d]. A cluster is trained on the instances of the clusters beside it, and on those that
    were ``guessed`` to be in the one above; None on the first level.
    """
    from scipy.sparse import csr_matrix

    from xmcbench.methods.label_tree.svm import linear_svms

    svms = linear_svms(
        csr_matrix(vectors),
        level.labels.tocsc(),
        level.children.T.tocsc(),
        _instances(level, guessed).tocsc(),
        cost=cost,
        threshold=0.0,
        seed=seed,
    ).toarray()
    return np.ascontiguousarray(svms[:, :-1]), np.ascontiguousarray(svms[:, -1])


def _instances(level: Level, guessed: TopK | None) -> csr_matrix:
    """Which instances train the clusters below each cluster of the level above: binary CSR [N, clusters above]."""
    found = level.labels @ level.children.T
    if guessed is not None:
        found = found + guessed.pairs(level.children.shape[0])
    found = found.tocsr().astype(np.float32)
    found.data[:] = 1
    return found
