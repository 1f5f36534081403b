"""Bootstrap: the variation of a value with other draws of test rows.

The intervals are BCa intervals (Efron, 1987, "Better Bootstrap Confidence Intervals"; DiCiccio and Efron, 1996,
"Bootstrap Confidence Intervals"). They are percentiles of the bootstrap values, like percentile intervals, but the two
percentiles are corrected for the median bias of these values and for a standard error that changes with the value. The
correction is of the order of 1 / sqrt(rows), and matters where hits are rare.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Samples drawn, and the number for more than _MANY_ROWS rows, where intervals are narrow and samples expensive.
SAMPLES, SAMPLES_OF_MANY_ROWS = 1_000, 200
_MANY_ROWS = 200_000

#: Cells of the weight matrix [samples, rows] that are held at a time (128 MB).
_BLOCK = 16_000_000
#: Bytes of weights that are kept for the next values of as many rows: those of other filters, other results.
_KEPT = 160_000_000

#: Values that differ by less than this share of their scale are equal: they differ by rounding.
_ROUNDING = 1e-12

_NORMAL = NormalDist()

#: (rows, seed) -> weights, uint8 [samples, rows], the last used at the end.
_kept: OrderedDict[tuple[int, int], NDArray[np.uint8]] = OrderedDict()


class Interval(NamedTuple):
    """A 95% BCa interval, which contains the value, and the standard error; all in the unit of the value."""

    low: float
    high: float
    se: float


def samples_for(rows: int) -> int:
    """Return the number of samples that are drawn of so many rows."""
    return SAMPLES_OF_MANY_ROWS if rows > _MANY_ROWS else SAMPLES


def intervals(
    numerators: Mapping[str, NDArray[np.float64]],
    denominators: Mapping[str, NDArray[np.float64]],
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the interval of each named value, with all values resampled together: the same rows in every sample.

    A value is sum(numerator) / sum(denominator) over the rows, float64 [rows] each; a name without a denominator is a
    mean over the rows. Denominators are positive. The numbers depend on ``seed`` and the rows, not on which other
    values are asked for. Where no sample gives another value, as with one row, low and high are the value.
    """
    if not numerators:
        return {}
    columns = np.column_stack([*numerators.values(), *denominators.values()])
    rows = len(columns)
    if not rows:
        return {}
    sums = _resample(columns, seed)
    sums_of_denominators = dict(zip(denominators, sums[:, len(numerators) :].T, strict=True))
    found = {}
    for position, (name, numerator) in enumerate(numerators.items()):
        values = sums[:, position] / sums_of_denominators.get(name, rows)
        found[name] = _interval(values, numerator, denominators.get(name, np.ones(rows)))
    return found


def _resample(columns: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return sums over resampled rows, float64 [samples, columns], of the columns [rows, columns]."""
    sums = np.empty((samples_for(len(columns)), columns.shape[1]))
    start = 0
    for weights in _weights(len(columns), seed):
        sums[start : start + len(weights)] = weights.astype(np.float64) @ columns
        start += len(weights)
    return sums


def _weights(rows: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the number of times that each row is drawn in each sample, uint8 [samples, rows], in blocks."""
    samples, step = samples_for(rows), max(1, _BLOCK // rows)
    if samples * rows > _KEPT:
        yield from _draw(rows, seed, samples, step)
        return
    found = _kept.pop((rows, seed), None)
    if found is None:
        found = np.concatenate([*_draw(rows, seed, samples, step)])
    _kept[rows, seed] = found
    while sum(weights.nbytes for weights in _kept.values()) > _KEPT:
        _kept.popitem(last=False)
    for start in range(0, samples, step):
        yield found[start : start + step]


def _draw(rows: int, seed: int, samples: int, step: int) -> Iterator[NDArray[np.uint8]]:
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    for start in range(0, samples, step):
        # One sample at a time, so that the stream does not depend on the block. A row is drawn once on average.
        weights = np.empty((min(step, samples - start), rows), np.uint8)
        for sample in weights:
            sample[:] = np.bincount(random.randint(0, rows, rows), minlength=rows)
        yield weights


def _interval(
    values: NDArray[np.float64], numerator: NDArray[np.float64], denominator: NDArray[np.float64]
) -> Interval:
    """Return the interval of sum(numerator) / sum(denominator), float64 [rows], from its bootstrap values [samples]."""
    divisor = float(denominator.sum())
    value = float(numerator.sum()) / divisor
    rounding = _ROUNDING * float(np.abs(numerator).sum()) / divisor
    # A bootstrap value that equals the value counts half as below it. Values of few hits are often equal.
    equal = np.abs(values - value) <= rounding
    below = float(np.mean(np.where(equal, 0.5, values < value)))
    half_a_sample = 0.5 / len(values)
    bias = _NORMAL.inv_cdf(min(max(below, half_a_sample), 1 - half_a_sample))
    # What each row adds to the value. The skewness of these influences says how the standard error changes with it.
    influence = (numerator - value * denominator) / divisor
    scale = float(np.sqrt((influence**2).sum()))
    acceleration = float(((influence / scale) ** 3).sum()) / 6 if scale > rounding else 0.0
    low, high = np.percentile(values, [100 * _correct(level, bias, acceleration) for level in (0.025, 0.975)])
    return Interval(min(float(low), value), max(float(high), value), float(values.std(ddof=1)))


def _correct(level: float, bias: float, acceleration: float) -> float:
    """Return the level of the percentile that BCa takes instead of ``level``."""
    # The denominator is positive: the acceleration is at most 1/6, and the bias at most 3.3 with 1,000 samples.
    shifted = bias + _NORMAL.inv_cdf(level)
    return _NORMAL.cdf(bias + shifted / (1 - acceleration * shifted))
