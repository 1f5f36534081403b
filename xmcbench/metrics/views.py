"""Views: the metrics of one group of labels, such as those that the few-shot subset shows no pair of.

A view restricts the true pairs to the labels of its group and leaves the predictions alone: labels outside the group
still take up ranks. Rows without a true label in the group are left out of its averages.

    pairs = TruePairs.of(truth)
    ranks = true_ranks(predictions.indices, pairs, removed)
    for group, members in label_views(label_frequency(training), label_frequency(subset)).items():
        view, kept = pairs.restrict(members)
        scores = evaluate_ranks(ranks[kept], view)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def label_views(frequency: NDArray[np.int64], known: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """The members, bool [L], of each group of labels: seen, unseen; head, middle, tail.

    ``frequency`` int [L] counts the pairs of every label in the full training matrix, ``known`` int [L] those of the
    subset that the method may see (zeros in the zero-shot setting). Raises DataError when the lengths differ.
    """
    if frequency.shape != known.shape:
        raise DataError(f"{len(frequency)} label frequencies, but {len(known)} in the subset")
    return {**_by_subset(known), **_by_frequency(frequency)}


def _by_subset(known: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    return {"seen": known > 0, "unseen": known == 0}


def _by_frequency(frequency: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Labels in falling frequency, ties by the lower id, cut where one and two thirds of the pairs are reached.

    The label that crosses a line belongs to the group before it. Labels without a pair are in the tail.
    """
    order = np.argsort(-frequency, kind="stable")
    before = np.empty(len(frequency), np.int64)
    before[order] = np.cumsum(frequency[order]) - frequency[order]
    head = 3 * before < frequency.sum()
    tail = 3 * before >= 2 * frequency.sum()
    return {"head": head, "middle": ~head & ~tail, "tail": tail}
