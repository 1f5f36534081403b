"""Propensities: how likely a true pair was to be recorded, given how frequent its label is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Training instances that propensities need: below, ln N < 1 would make rare labels weigh less.
MIN_INSTANCES = 3


def label_frequency(training: csr_matrix) -> NDArray[np.int64]:
    """Pairs of every label, int64 [L], in a matrix of pairs [N, L]."""
    _, labels = ranking.pairs(training)
    return np.bincount(labels, minlength=training.shape[1])


def inverse_propensity(training: csr_matrix, a: float, b: float) -> NDArray[np.float64]:
    """Inverse propensity of every label, float64 [L]: 1 + C (n + B)^-A, C = (ln N - 1)(B + 1)^A.

    ``training`` [N, L] is the full training matrix, ``a`` and ``b`` are the dataset's constants (Jain et al., KDD
    2016). Raises what ``inverse_propensity_of`` raises.
    """
    return inverse_propensity_of(label_frequency(training), training.shape[0], a, b)


def inverse_propensity_of(frequency: NDArray[np.int64], instances: int, a: float, b: float) -> NDArray[np.float64]:
    """The same from the pairs of every label, int [L], and the number of training instances.

    Raises DataError for constants that are not positive and for fewer than ``MIN_INSTANCES`` training instances.
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
