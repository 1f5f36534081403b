"""Bootstrap: how much a value would move with another draw of test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Samples drawn, and how many for more than _MANY_ROWS rows, where intervals are narrow and a sample is dear.
SAMPLES, SAMPLES_OF_MANY_ROWS = 1_000, 200
_MANY_ROWS = 200_000

#: Cells of the weight matrix [samples, rows] that are held at a time (128 MB).
_BLOCK = 16_000_000


class Interval(NamedTuple):
    """A 95 % percentile interval and the standard error, in the unit of the value."""

    low: float
    high: float
    se: float


def samples_for(rows: int) -> int:
    """How many samples are drawn of so many rows."""
    return SAMPLES_OF_MANY_ROWS if rows > _MANY_ROWS else SAMPLES


def intervals(
    numerators: Mapping[str, NDArray[np.float64]],
    denominators: Mapping[str, NDArray[np.float64]],
    seed: int = 0,
) -> dict[str, Interval]:
    """Interval of each named value, with all values resampled together: the same rows in every sample.

    A value is sum(numerator) / sum(denominator) over the rows, float64 [rows] each; a name without a denominator is a
    mean over the rows. The difference of two methods on the same rows has an interval too: hand in the differences of
    their numerators. The numbers depend on ``seed`` and the rows, not on which other values are asked for.
    """
    if not numerators:
        return {}
    columns = np.column_stack([*numerators.values(), *denominators.values()])
    rows = len(columns)
    if not rows:
        return {}
    samples = samples_for(rows)
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    sums = np.empty((samples, columns.shape[1]))
    step = max(1, _BLOCK // rows)
    for start in range(0, samples, step):
        # How often each row was drawn, one sample at a time so that the stream does not depend on the block.
        weights = np.empty((min(step, samples - start), rows))
        for sample in weights:
            sample[:] = np.bincount(random.randint(0, rows, rows), minlength=rows)
        sums[start : start + step] = weights @ columns
    denominator_of = {name: len(numerators) + position for position, name in enumerate(denominators)}
    found = {}
    for position, name in enumerate(numerators):
        divisor = sums[:, denominator_of[name]] if name in denominator_of else rows
        values = sums[:, position] / divisor
        low, high = np.percentile(values, [2.5, 97.5])
        found[name] = Interval(float(low), float(high), float(values.std(ddof=1)))
    return found
