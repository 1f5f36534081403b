"""Sign flips: a randomization test of a difference over test rows, and the interval that belongs to it.

If neither side were better, the two scores of a row could as well be exchanged. So the sign of each row's difference is
flipped at random, and the sum is compared with the observed one. The interval inverts this test: it holds every true
difference that the same flips do not reject at the 5% level. Interval and p-value can therefore not contradict each
other: p < 0.05 exactly where 0 is outside the interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Flips drawn, and how many for more than _MANY_ROWS rows.
FLIPS, FLIPS_OF_MANY_ROWS = 10_000, 2_000
_MANY_ROWS = 200_000

#: Tests are two-sided, at this level.
LEVEL = 0.05
#: The level of the interval is 1 - 1 / _ONE_IN.
_ONE_IN = 20

#: Cells of the matrix of signs [flips, rows] that are held at a time, few enough for the caches.
_BLOCK = 1_000_000

#: Sums that differ by less than this share of the largest possible one are equal: they differ by rounding.
_ROUNDING = 1e-12


class Verdict(NamedTuple):
    """The 95% interval of a difference, in its unit, and the two-sided p-value of no difference."""

    low: float
    high: float
    p: float


def verdicts(
    differences: Mapping[str, NDArray[np.float64]], weights: Mapping[str, NDArray[np.float64]], seed: int = 0
) -> dict[str, Verdict]:
    """Return the verdict on each named difference, float64 [rows]. Its value is sum(difference) / sum(weight).

    A name without weights (positive, float64 [rows]) is a mean over the rows. All names are flipped together. The
    numbers depend on ``seed`` and the rows, not on which other names are asked for.

    p = (1 + flips at least as far from zero) / (1 + flips), which is never too small where signs are as likely as not
    (Phipson and Smyth, 2010). Without a difference in any row p is 1, and low and high are 0. Where no difference could
    be rejected, as with five rows, they are infinite. Of few rows, ``bounded`` also holds where signs are not.
    """
    if not differences:
        return {}
    columns = np.column_stack([*differences.values(), *weights.values()])
    if not len(columns):
        return {}
    # The last column is the weight of a mean. Rows without any difference are flipped too: they matter when the test is
    # of a difference other than 0.
    columns = np.column_stack([columns, np.ones(len(columns))])
    sums = _flip(columns, seed)
    room = _ROUNDING * np.abs(columns).sum(axis=0)
    place = {name: len(differences) + position for position, name in enumerate(weights)}
    found = {}
    for position, name in enumerate(differences):
        weight = place.get(name, -1)
        found[name] = _verdict(sums[:, position], sums[:, weight], room[position], room[weight])
    return found


def _verdict(sums: NDArray[np.float64], weights: NDArray[np.float64], room: float, weight_room: float) -> Verdict:
    """Return the verdict from flipped sums of differences and weights, float64 [flips]; the first flip changes no sign.

    A flip is at least as far from a true difference t as the observation where |sum - t weight| is at least the same of
    the first flip. As no flip makes the weights sum to more, these t are an interval around the observed difference.
    The number of these intervals that hold t is the number of flips that count for p at t.
    """
    less, more = weights[0] - weights, weights[0] + weights
    # A flip of every sign, or of none, is as far as the observation from every t.
    every_t = np.minimum(less, more) <= weight_room
    less[every_t] = more[every_t] = 1
    ends = np.array([_snap(sums[0] - sums, room) / less, _snap(sums[0] + sums, room) / more])
    lows = np.sort(np.where(every_t, -np.inf, ends.min(axis=0)))
    highs = np.sort(np.where(every_t, np.inf, ends.max(axis=0)))
    # As the observed difference is in every interval, those without 0 all lie above it or all below it.
    without_zero = int((lows > 0).sum() + (highs < 0).sum())
    # A t is in the 95% interval as long as p at t is no less than 0.05.
    needed = -(-len(sums) // _ONE_IN)
    return Verdict(
        low=float(lows[needed - 1]) + 0.0,  # no -0.0
        high=float(highs[-needed]) + 0.0,
        p=(len(sums) - without_zero) / len(sums),
    )


def _snap(values: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Return the values, with 0 for values that differ from 0 by rounding only."""
    return np.where(np.abs(values) <= room, 0.0, values)


def _flip(columns: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the sums of columns [rows, columns] with flipped signs, float64 [flips, columns]; no flip is first."""
    rows = len(columns)
    flips = FLIPS_OF_MANY_ROWS if rows > _MANY_ROWS else FLIPS
    total = columns.sum(axis=0)
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    sums = np.empty((1 + flips, columns.shape[1]))
    sums[0] = total
    bytes_a_flip = 4 * -(-rows // 32)  # whole words, or the stream would depend on the block
    step = max(1, _BLOCK // rows)
    for start in range(0, flips, step):
        drawn = min(step, flips - start)
        bits = np.frombuffer(random.bytes(drawn * bytes_a_flip), np.uint8).reshape(drawn, bytes_a_flip)
        kept = np.unpackbits(bits, axis=1, count=rows).astype(np.float64)
        # The sum with signs is twice the sum of what kept its sign, less the sum of all.
        sums[1 + start : 1 + start + drawn] = 2 * (kept @ columns) - total
    return sums
