"""Intervals: the variation of a value with other draws of test rows.

They are BCa intervals (Efron, 1987, "Better Bootstrap Confidence Intervals"; DiCiccio and Efron, 1996, "Bootstrap
Confidence Intervals"): percentiles of the bootstrap values, like percentile intervals, but the two percentiles are
corrected for the median bias of these values and for a standard error that changes with the value. The correction is of
the order of 1 / sqrt(rows), and matters where hits are rare.

Of more than ``MANY_ROWS`` rows no samples are drawn. The bootstrap values are then normal but for their skewness, and
BCa intervals have a closed form, which is equal up to terms of the order of 1 / rows (Hall, 1988, "Theoretical
Comparison of Bootstrap Confidence Intervals"). It lacks the noise of a thousand samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Samples drawn.
SAMPLES = 1_000
#: Rows up to which samples are drawn; intervals of more rows have a closed form.
MANY_ROWS = 10_000

#: Values that differ by less than this share of their scale are equal: they differ by rounding.
_ROUNDING = 1e-12

_NORMAL = NormalDist()


class Interval(NamedTuple):
    """A 95% BCa interval, which contains the value, and the standard error; all in the unit of the value."""

    low: float
    high: float
    se: float


def intervals(
    numerators: Mapping[str, NDArray[np.float64]],
    denominators: Mapping[str, NDArray[np.float64]],
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the interval of each named value, with all values resampled together: the same rows in every sample.

    A value is sum(numerator) / sum(denominator) over the rows, float64 [rows] each; a name without a denominator is a
    mean over the rows. Denominators are positive. The numbers depend on ``seed`` and the rows, not on which other
    values are asked for; those of more than ``MANY_ROWS`` rows on the rows alone. Where no sample gives another value,
    as with one row, low and high are the value.
    """
    rows = len(next(iter(numerators.values()), ()))
    if not rows:
        return {}
    if rows > MANY_ROWS:
        return {name: _compute(numerator, denominators.get(name)) for name, numerator in numerators.items()}
    columns = np.column_stack([*numerators.values(), *denominators.values()])
    sums = _weights(rows, seed).astype(np.float64) @ columns
    sums_of_denominators = dict(zip(denominators, sums[:, len(numerators) :].T, strict=True))
    found = {}
    for position, (name, numerator) in enumerate(numerators.items()):
        values = sums[:, position] / sums_of_denominators.get(name, rows)
        found[name] = _interval(values, numerator, denominators.get(name, np.ones(rows)))
    return found


@lru_cache(maxsize=16)  # other filters, groups of labels and results have as many rows
def _weights(rows: int, seed: int) -> NDArray[np.uint8]:
    """Return the number of times that each row is drawn in each sample, uint8 [samples, rows]."""
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    weights = np.empty((SAMPLES, rows), np.uint8)  # a row is drawn once on average
    for sample in weights:
        sample[:] = np.bincount(random.randint(0, rows, rows), minlength=rows)
    return weights


def _interval(
    values: NDArray[np.float64], numerator: NDArray[np.float64], denominator: NDArray[np.float64]
) -> Interval:
    """Return the interval of sum(numerator) / sum(denominator), float64 [rows], from its bootstrap values [samples]."""
    value, influence, rounding = _influence(numerator, denominator)
    # A bootstrap value that equals the value counts half as below it. Values of few hits are often equal.
    equal = np.abs(values - value) <= rounding
    below = float(np.mean(np.where(equal, 0.5, values < value)))
    half_a_sample = 0.5 / len(values)
    bias = _NORMAL.inv_cdf(min(max(below, half_a_sample), 1 - half_a_sample))
    acceleration = _acceleration(influence, rounding)
    low, high = np.percentile(values, [100 * _correct(level, bias, acceleration) for level in (0.025, 0.975)])
    return Interval(min(float(low), value), max(float(high), value), float(values.std(ddof=1)))


def _compute(numerator: NDArray[np.float64], denominator: NDArray[np.float64] | None) -> Interval:
    """Return the interval of sum(numerator) / sum(denominator), float64 [rows], or of the mean, without samples."""
    value, influence, rounding = _influence(numerator, denominator)
    se = float(np.sqrt((influence**2).sum()))
    if se <= rounding:
        return Interval(value, value, 0.0)
    z = _NORMAL.inv_cdf(0.975)
    shift = _acceleration(influence, rounding) * (2 * z**2 + 1)
    return Interval(min(value, value + se * (shift - z)), max(value, value + se * (shift + z)), se)


def _influence(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64] | None
) -> tuple[float, NDArray[np.float64], float]:
    """Return the value, what each row adds to it, and the difference up to which values are equal."""
    divisor = float(len(numerator) if denominator is None else denominator.sum())
    value = float(numerator.sum()) / divisor
    influence = (numerator - (value if denominator is None else value * denominator)) / divisor
    return value, influence, _ROUNDING * float(np.abs(numerator).sum()) / divisor


def _acceleration(influence: NDArray[np.float64], rounding: float) -> float:
    """Return a sixth of the skewness of the influences, which says how the standard error changes with the value."""
    scale = float(np.sqrt((influence**2).sum()))
    if scale <= rounding:
        return 0.0
    normal = influence / scale
    return float((normal * normal * normal).sum()) / 6  # a power would take ten times as long


def _correct(level: float, bias: float, acceleration: float) -> float:
    """Return the level of the percentile that BCa takes instead of ``level``."""
    # The denominator is positive: the acceleration is at most 1/6, and the bias at most 3.3 with 1,000 samples.
    shifted = bias + _NORMAL.inv_cdf(level)
    return _NORMAL.cdf(bias + shifted / (1 - acceleration * shifted))
