"""Where the classifiers of a level start from: linear SVMs on the vectors as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK, usable_cores
from xmcbench.methods.label_tree.tree import Level, quiet_pecos

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def bootstrapped(vectors: np.ndarray, level: Level, guessed: TopK | None, cost: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights float32 [K, d] and bias float32 [K] of a linear SVM for each cluster of a level.

    vectors: float32 [N, d]. A cluster is trained on the instances of the clusters beside it, and on those that
    were ``guessed`` to be in the one above; None on the first level.
    """
    with quiet_pecos():
        from pecos.xmc import MLModel, MLProblem

        true = level.labels.astype(np.float32).tocsc()
        true.data[:] = 1
        problem = MLProblem(
            np.ascontiguousarray(vectors, np.float32),
            true,
            C=level.children.T.tocsc().astype(np.float32),
            M=_instances(level, guessed).tocsc(),
            threads=usable_cores(),
        )
        model = MLModel.train(problem, threshold=0.0, Cp=cost, Cn=cost, threads=usable_cores())
    weights = np.asarray(model.W.toarray(), np.float32).T
    return np.ascontiguousarray(weights[:, :-1]), np.ascontiguousarray(weights[:, -1])


def _instances(level: Level, guessed: TopK | None) -> csr_matrix:
    """Which instances train the clusters below each cluster of the level above: binary CSR [N, clusters above]."""
    found = level.labels @ level.children.T
    if guessed is not None:
        found = found + guessed.pairs(level.children.shape[0])
    found = found.tocsr().astype(np.float32)
    found.data[:] = 1
    return found
