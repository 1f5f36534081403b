"""Labels: how frequent they are, their propensities, and the groups for which metrics are also computed.

A propensity says how likely a true pair was to be recorded, given how frequent its label is. The metrics of a group are
those of the true pairs of its labels; the predictions stay as they are: labels outside the group still take up ranks.
Rows without a true label in the group are left out of its averages.

    pairs = TruePairs.of(truth)
    ranks = true_ranks(predictions.indices, pairs, removed)
    for group, members in label_groups(label_frequency(training), label_frequency(subset)).items():
        of_group, kept = pairs.restrict(members)
        scores = Evaluation(of_group)(ranks[kept])
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics.ranks import pairs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Training instances that propensities need: below, ln N < 1 would make rare labels weigh less.
MIN_INSTANCES = 3


def label_frequency(training: csr_matrix) -> NDArray[np.int64]:
    """Return the number of pairs of every label, int64 [L], in a matrix of pairs [N, L]."""
    _, labels = pairs_of(training)
    return np.bincount(labels, minlength=training.shape[1])


def inverse_propensity(frequency: NDArray[np.int64], instances: int, a: float, b: float) -> NDArray[np.float64]:
    """Return the inverse propensity of every label, float64 [L]: 1 + C (n + B)^-A, C = (ln N - 1)(B + 1)^A.

    ``frequency`` int [L] counts the pairs n of every label in the full training matrix of N = ``instances`` rows; ``a``
    and ``b`` are the dataset's constants (Jain et al., KDD 2016). Raises DataError for constants that are not positive
    and for fewer than ``MIN_INSTANCES`` training instances.
    """
    if not (math.isfinite(a) and math.isfinite(b) and a > 0 and b > 0):
        raise DataError(
            f"the propensity constants A = {a} and B = {b} are not both positive",
            "look at the data card; most use 0.55, 1.5",
        )
    if instances < MIN_INSTANCES:
        raise DataError(f"propensities need at least {MIN_INSTANCES} training instances, there are {instances}")
    c = (math.log(instances) - 1) * (b + 1) ** a
    weights: NDArray[np.float64] = 1 + c * (frequency + b) ** -a
    return weights


def label_groups(frequency: NDArray[np.int64], known: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Return the members, bool [L], of each group of labels: seen, unseen; head, middle, tail.

    The last three are labels in falling frequency, ties by the lower id, cut where one and two thirds of the pairs are
    reached. The label that crosses a line belongs to the group before it. Labels without a pair are in the tail.

    ``frequency`` int [L] counts the pairs of every label in the full training matrix, ``known`` int [L] those of the
    subset that the method may see (zeros in the zero-shot setting). Raises DataError when the lengths differ.
    """
    if frequency.shape != known.shape:
        raise DataError(f"{len(frequency)} label frequencies, but {len(known)} in the subset")
    order = np.argsort(-frequency, kind="stable")
    before = np.empty(len(frequency), np.int64)
    before[order] = np.cumsum(frequency[order]) - frequency[order]
    head = 3 * before < frequency.sum()
    tail = 3 * before >= 2 * frequency.sum()
    return {"seen": known > 0, "unseen": known == 0, "head": head, "middle": ~head & ~tail, "tail": tail}
