"""Neighbors that vote with their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import TopK


def voted(nearest: TopK, pairs: csr_matrix, power: float) -> csr_matrix:
    """The share of the neighbors that has each label, by similarity^power: CSR float64 [N, L].

    nearest: for each of N texts its neighbors among the rows of ``pairs``, a binary CSR matrix, and their similarities;
    negative ones count as 0. A neighbor without a pair votes for nothing, and its share is lost.
    """
    from scipy.sparse import csr_matrix

    # A missing neighbor scores -inf.
    weights = np.maximum(nearest.scores.astype(np.float64), 0) ** power
    total = weights.sum(axis=1, keepdims=True)
    np.divide(weights, total, out=weights, where=total > 0)
    kept = weights > 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    shares = csr_matrix((weights[kept], nearest.indices[kept], starts), shape=(len(nearest), pairs.shape[0]))
    return shares @ pairs
