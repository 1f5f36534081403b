"""Sampling a dataset from another: some of its labels, or some of its training instances for testing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def draw(total: int, wanted: int, seed: int, name: str, what: str) -> np.ndarray:
    """``wanted`` of the numbers 0..total-1, ascending: int64 [wanted].

    They are the first elements of a permutation by numpy's RandomState, whose stream is frozen (NEP 19): equal on every
    machine and with every numpy. A smaller sample is a subset of a larger one of the same seed. ``name`` and ``what``
    (labels, training instances) are for the error: DataError unless 0 < wanted <= total.
    """
    if not 0 < wanted <= total:
        raise DataError(
            f"{name} takes {wanted} {what} of {total}", "[derive] in its card must take from 1 to all of them"
        )
    order = np.random.RandomState(seed).permutation(total)
    return np.sort(order[:wanted])


def restrict(pairs: csr_matrix, labels: np.ndarray) -> tuple[np.ndarray, csr_matrix]:
    """The rows of ``pairs`` [N, L] with one of ``labels`` (ascending ids), and their pairs [rows, len(labels)].

    Labels are renumbered in order.
    """
    columns = pairs[:, labels].tocsr()
    rows = np.flatnonzero(np.diff(columns.indptr))
    kept = columns[rows]
    kept.sort_indices()
    return rows, kept
