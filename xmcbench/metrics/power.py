"""Power: the test rows and runs that show a difference of two methods, from the variances of stored runs.

The variances are those of ``xmcbench.metrics.seeds``: V_row between the rows of the difference, V_seed and V_both of
each side that depends on the seed. With n runs on each such side and N rows, a difference has the variance

    sum over sides of (V_seed + V_both / N) / n  +  V_row / N

and the test is that of ``paired.compare``. Its power is the probability that a noncentral t lies beyond the critical
value for these variances, with Satterthwaite's degrees of freedom. That is up to 4 points too high for two runs of one
side, and 2 for three, since the critical value, too, moves with the variances that are found.

Of fewer than 200 rows the test of ``bounded`` must show the difference too. The row that it adds has an exponentially
distributed weight of 1 / N on average: where the rows do not vary, a difference t is shown if (1 + t)^-N < 2.5%. Where
they do, the squares of this t and of the critical difference of Student's test are added. The power is right to some
points then, and rather too low.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from xmcbench.errors import DataError
from xmcbench.metrics.bounded import FEW_ROWS
from xmcbench.metrics.flips import LEVEL
from xmcbench.metrics.seeds import ABOVE, BELOW, MANY_DEGREES, WEIGHTS, BehrensFisher, list_varying, measure

#: The default power.
POWER = 0.8

#: No search goes beyond these.
MOST_ROWS, MOST_RUNS = 1_000_000_000, 10_000


@dataclass(frozen=True)
class Spread:
    """The variances of a difference, of one row and one run, as squares of fractions.

    row: between rows. sides: (V_seed, V_both) of each side that depends on the seed; matched runs are one side. rows:
    how many the variances are estimated from.
    """

    row: float
    sides: tuple[tuple[float, float], ...]
    rows: int

    @property
    def least_runs(self) -> int:
        """The least runs of a side from which the test can be made: two where a side depends on the seed."""
        return 2 if self.sides else 1

    def error(self, rows: int, runs: int) -> float:
        """Return the standard error of the difference."""
        return math.sqrt(self._of_seeds(rows, runs) + self.row / rows)

    def power(self, difference: float, rows: int, runs: int) -> float:
        """Return the probability that a true difference, as a fraction, is called significant at the 5% level.

        runs: of each side that depends on the seed; others need one. Raises DataError for fewer rows than two, or fewer
        runs than ``least_runs``.
        """
        if rows < 2 or runs < self.least_runs:
            raise DataError(f"{rows} rows and {runs} runs are too few for a test")
        return self._beyond(difference, rows, runs, self._critical(rows, runs))

    def rows_needed(self, difference: float, runs: int, power: float = POWER) -> int | None:
        """Return the fewest rows that show a difference with this power; None where no number of rows does."""
        return _fewest(lambda rows: self.power(difference, rows, runs) >= power, 2, MOST_ROWS)

    def runs_needed(self, difference: float, rows: int, power: float = POWER) -> int | None:
        """Return the fewest runs of a side that show a difference with this power; None if no number does."""
        most = MOST_RUNS if self.sides else 1
        return _fewest(lambda runs: self.power(difference, rows, runs) >= power, self.least_runs, most)

    def detectable(self, rows: int, runs: int, power: float = POWER) -> float | None:
        """Return the smallest difference that so many rows and runs show with this power, as a fraction.

        None where they show none, up to 1. Raises what ``power`` raises.
        """
        if self.power(1.0, rows, runs) < power:
            return None
        critical = self._critical(rows, runs)
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self._beyond(middle, rows, runs, critical) >= power else (middle, high)
        return high

    def _beyond(self, difference: float, rows: int, runs: int, critical: float) -> float:
        """Return the probability that the difference that is found lies beyond the critical one, to either side.

        The tails of the noncentral t are integrated here: scipy's are NaN far out in some versions, and right to six
        digits in others. Raises DataError where the probability is not a number.
        """
        from scipy.special import ndtr

        error = self.error(rows, runs)
        if not error:
            return float(abs(difference) > self._critical_of_few(rows, runs, np.zeros(1))[0])
        found = _error_quantiles(min(self._degrees(rows, runs), MANY_DEGREES))
        beyond = np.maximum(critical * found, self._critical_of_few(rows, runs, found)) / error
        shift = abs(difference) / error
        probability = float((WEIGHTS * (ndtr(shift - beyond) + ndtr(-shift - beyond))).sum())
        if math.isnan(probability):
            raise DataError(f"the power for {rows:,} rows and {runs} runs is not a number")
        return min(1.0, probability)

    def _critical(self, rows: int, runs: int) -> float:
        """Return the smallest significant difference, with these variances."""
        from scipy.special import stdtrit

        of_seeds = self._of_seeds(rows, runs)
        if not of_seeds:
            return float(stdtrit(rows - 1, 1 - LEVEL / 2)) * self.error(rows, runs)
        return BehrensFisher(of_seeds, len(self.sides) * (runs - 1), self.row / rows, rows - 1).critical()

    def _critical_of_few(self, rows: int, runs: int, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smallest difference that the test of few rows finds; 0 for many.

        found: errors that are found, over the true one.
        """
        from scipy.special import stdtrit

        if rows >= FEW_ROWS:
            return np.zeros(1)
        of_rows = (self.row + sum(both for _, both in self.sides) / runs) / rows
        without_variance = (2 / LEVEL) ** (1 / rows) - 1
        student = float(stdtrit(rows - 1, 1 - LEVEL / 2)) * math.sqrt(of_rows)
        return np.asarray(np.hypot(student * found, without_variance))

    def _of_seeds(self, rows: int, runs: int) -> float:
        return sum(of_seed + both / rows for of_seed, both in self.sides) / runs

    def _degrees(self, rows: int, runs: int) -> float:
        of_seeds = self._of_seeds(rows, runs)
        if not of_seeds:
            return rows - 1
        share = of_seeds / (of_seeds + self.row / rows)
        return 1 / (share**2 / (len(self.sides) * (runs - 1)) + (1 - share) ** 2 / (rows - 1))


def spread(
    first: NDArray[np.float64], second: NDArray[np.float64], weight: NDArray[np.float64], matched: bool = False
) -> Spread:
    """Return the variances of the difference of two methods, from their runs: float64 [n, rows] and [m, rows].

    Scores and weight are those of ``seeds.verdict``. A side with one run, or whose runs are all alike, counts as one
    that does not depend on the seed; the caller has to know whether that is so. matched: the runs of the two sides
    belong together in order. Raises DataError for fewer than two rows, and for scores that are not finite.
    """
    rows = first.shape[1]
    if rows < 2:
        raise DataError("the variance between rows needs two of them")
    by_row = first.mean(axis=0) - second.mean(axis=0)
    if not np.isfinite(by_row).all():
        raise DataError("scores that are not finite numbers have no variance")
    runs = list_varying(measure(first, weight), measure(second, weight), weight, matched)
    left = by_row - by_row.mean() * weight
    row = float((left**2).sum()) / (rows - 1) - sum(side.both / len(side.runs) for side in runs)
    sides = tuple((max(0.0, side.between - side.both / rows), side.both) for side in runs)
    return Spread(max(0.0, row), sides, rows)


@lru_cache(maxsize=1)
def _error_quantiles(degrees: float) -> NDArray[np.float64]:
    """Return the quantiles of a standard error that is found, over the true one, at ``BELOW``."""
    from scipy.special import gammainccinv, gammaincinv

    # Near 1 a quantile is found by what is left.
    half = degrees / 2
    squares = np.where(BELOW < 0.5, gammaincinv(half, BELOW), gammainccinv(half, ABOVE)) / half
    return np.asarray(np.sqrt(squares))


def _fewest(enough: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the smallest number from ``least`` to ``most`` that is enough, if more is always enough too."""
    if not enough(most):
        return None
    low, high = least - 1, least
    while not enough(high):  # near the answer first: far from it the distribution of t is slow to compute
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
