"""Drawing a smaller data set from a larger one: some of its labels, and the instances that have one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.data.card import Card
from xmcbench.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def draw_labels(labels: int, card: Card) -> np.ndarray:
    """The label ids that ``card.derive`` keeps of ``labels`` labels, ascending: int64 [card.derive.labels].

    They are the head of a permutation by numpy's RandomState, whose stream is frozen (NEP 19): the same on every
    machine and with every numpy, and a smaller draw lies inside a larger one of the same seed.
    """
    if card.derive is None or not 0 < card.derive.labels <= labels:
        asked = card.derive.labels if card.derive else 0
        raise DataError(f"{card.name} takes {asked} labels of {labels}", "[derive] labels: from 1 to all of them")
    order = np.random.RandomState(card.derive.seed).permutation(labels)
    return np.sort(order[: card.derive.labels])


def restrict(pairs: csr_matrix, labels: np.ndarray) -> tuple[np.ndarray, csr_matrix]:
    """The rows of ``pairs`` [N, L] with one of ``labels`` (ascending ids), and their pairs [rows, len(labels)].

    Labels are numbered anew in their order.
    """
    columns = pairs[:, labels].tocsr()
    rows = np.flatnonzero(np.diff(columns.indptr))
    kept = columns[rows]
    kept.sort_indices()
    return rows, kept
