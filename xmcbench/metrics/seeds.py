"""Seeds: conclusions about a method from several runs.

A run's value moves with its seed and with the draw of the test rows, and a comparison of methods must count both. The
score of row i in the run of seed s is taken as

    method + row(i) + seed(s) + row(i) x seed(s)

with random effects of variances V_row, V_seed and V_both. In the difference of two methods, each with the mean of its
n runs on the same N rows, what the two have in common of row(i) cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmcbench.errors import DataError
from xmcbench.metrics.flips import LEVEL, Verdict

#: Fractions that differ by no more than this are equal: they differ by rounding.
_ROUNDING = 1e-12

#: More degrees of freedom make no difference.
MANY_DEGREES = 1e6

#: Half the width of a 95% interval in standard errors, for a normal distribution.
NORMAL = 1.959963984540054


class Side(NamedTuple):
    """The runs of one side of a comparison.

    runs: float64 [n, rows]. by_row: their mean, float64 [rows]. varies: whether they differ in any row.
    between: the variance of their values, for one run; estimates V_seed + V_both / N.
    both: the variance of what is left when rows and runs are taken out, for one run; estimates V_both.
    """

    runs: NDArray[np.float64]
    by_row: NDArray[np.float64]
    varies: bool
    between: float = 0.0
    both: float = 0.0


def vary(runs: NDArray[np.float64]) -> bool:
    """Return whether the runs [n, rows] of a side differ in any row."""
    return len(runs) > 1 and bool((np.abs(runs - runs[0]) > _ROUNDING).any())


def measure(runs: NDArray[np.float64], weight: NDArray[np.float64]) -> Side:
    """Return the side of these runs, float64 [n, rows]. weight: as of ``verdict``."""
    by_row = runs.mean(axis=0) if len(runs) > 1 else runs[0]
    if not vary(runs):
        return Side(runs, by_row, False)
    number, rows = runs.shape
    values = runs.mean(axis=1)
    left = runs - by_row - np.outer(values - values.mean(), weight)
    both = float((left**2).sum()) / ((number - 1) * max(1, rows - 1))
    return Side(runs, by_row, True, float(values.var(ddof=1)), both)


def list_varying(first: Side, second: Side, weight: NDArray[np.float64], matched: bool) -> list[Side]:
    """Return the sides whose runs vary; matched runs are one side, of their differences."""
    sides = [measure(first.runs - second.runs, weight)] if matched else [first, second]
    return [side for side in sides if side.varies]


def verdict(
    first: NDArray[np.float64], second: NDArray[np.float64], weight: NDArray[np.float64], matched: bool
) -> Verdict:
    """Return the verdict on the difference of two methods, first minus second, from several runs of one or both.

    ``first`` [n, rows] and ``second`` [m, rows] are scores whose mean over the rows is the value of a run, float64;
    ``weight`` [rows], of mean 1, is what the value is a ratio to: ones, but for PSP. ``matched`` runs are compared seed
    by seed, n = m; otherwise a side whose runs are all alike has no variance between seeds. At least one side, of
    matched runs their difference, must ``vary``.
    """
    sides = measure(first, weight), measure(second, weight)
    delta, error = difference(sides[0].by_row - sides[1].by_row, list_varying(*sides, weight, matched), weight)
    half = error.critical()
    return Verdict(delta - half, delta + half, error.tail(abs(delta)))


def difference(
    by_row: NDArray[np.float64], sides: Sequence[Side], weight: NDArray[np.float64]
) -> tuple[float, BehrensFisher]:
    """Return the difference of two methods, first minus second, and the distribution of its error.

    by_row: the difference in each row, float64 [rows], mean over the runs of both methods. sides: those that vary.

    The difference has the variance

        of seeds   between / n + between' / m
        of rows    max(0, rows - both / n - both' / m) / N

    where "between" and "both" are those of each side's runs, and "rows" is the variance over the rows of the
    difference. The first holds V_seed and V_both / N, the second what else differs between rows. p and interval are
    those of the Behrens-Fisher distribution, with N - 1 degrees of freedom for the rows, and for the seeds
    those of sides of equal variance, 2 n - 2 for n = m.

    Equal methods are called different in at most 5% of cases, and smaller p-values are not too frequent either, as
    Holm's correction of several metrics needs. With few runs it is fewer: 1 to 4% for two matched runs, 2 to 5% for
    three. With Satterthwaite's degrees of freedom, p below 0.0025 would occur up to nine times too often there. Sides
    whose seeds matter unequally are not separated, as Welch's test would: with a standard deviation four times as large
    on one side, equal methods are called different in up to 9% of cases with three runs, 8% with five.
    """
    rows, delta = len(by_row), float(by_row.mean())
    both = sum(side.both / len(side.runs) for side in sides)
    of_seeds = sum(side.between / len(side.runs) for side in sides)
    if of_seeds <= _ROUNDING**2:
        # The runs differ, but their values happen to be equal: the least that the variance of these can be.
        of_seeds = both / rows
    numbers = [len(side.runs) for side in sides]
    degrees_of_seeds = sum(1 / number for number in numbers) ** 2 / sum(
        1 / (number**2 * (number - 1)) for number in numbers
    )
    left = by_row - delta * weight
    of_rows = max(0.0, float((left**2).sum()) / max(1, rows - 1) - both) / rows
    return delta, BehrensFisher(of_seeds, degrees_of_seeds, of_rows, max(1, rows - 1))


def half_width(values: Sequence[float], half_widths: Sequence[float]) -> float:
    """Return the half-width of a 95% interval over seeds and test rows of the mean of the runs' values.

    ``values`` are those of the runs, ``half_widths`` those of their intervals over test rows, all in one unit. The
    variance of rows is (mean half-width / 1.96)^2, that of seeds the variance of the values / runs, and the half-width
    follows from the Behrens-Fisher distribution. It is conservative: what a seed changes from row to row is in both. Of
    one run the half-width is its own, which says nothing of other seeds.
    """
    runs, mean, of_rows = len(values), fmean(values), (fmean(half_widths) / NORMAL) ** 2
    squares = sum((value - mean) ** 2 for value in values)
    of_seeds = squares / (runs - 1) / runs if runs > 1 else 0.0
    if of_seeds <= _ROUNDING**2:
        return fmean(half_widths)
    return BehrensFisher(of_seeds, runs - 1, of_rows).critical()


def _tanh_sinh() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return points in (0, 1), dense toward both ends, their distances to 1, and their weights in an integral."""
    step = 0.05
    places = step * np.arange(-70, 71)
    odds = np.exp(np.pi * np.sinh(places))
    below, above = 1 / (1 + 1 / odds), 1 / (1 + odds)
    return below, above, step * np.pi * np.cosh(places) * below * above


BELOW, ABOVE, WEIGHTS = _tanh_sinh()


@lru_cache(maxsize=64)  # thousands of errors have few numbers of degrees
def _beta_quantiles(degrees: float, other_degrees: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the quantiles of a beta variable with half these degrees, at ``BELOW``, and their distances to 1."""
    from scipy.special import betaincinv

    # The distance is a quantile itself, not a difference, where the other one is almost 1.
    share, rest = betaincinv(degrees / 2, other_degrees / 2, BELOW), betaincinv(other_degrees / 2, degrees / 2, ABOVE)
    return share, rest


class BehrensFisher:
    """The Behrens-Fisher distribution: of an error with two parts.

    Each part has a variance and the degrees of freedom of this variance.

    Given a beta variable B with half the degrees as its parameters, it is Student's t of d + d' degrees, times the root
    of (d v / B + d' v' / (1 - B)) / (d + d') (Ray and Pitman, 1961, "Exact distribution of the Fisher-Behrens-Welch
    statistic"). The mean over B is taken at its quantiles, by the tanh-sinh rule.

    Raises DataError for a variance that is not a number.
    """

    def __init__(
        self, variance: float, degrees: float, other_variance: float, other_degrees: float = MANY_DEGREES
    ) -> None:
        if math.isnan(variance + other_variance):
            raise DataError("a variance of a difference is not a number")
        self._degrees = degrees + other_degrees
        share, rest = _beta_quantiles(degrees, other_degrees)
        self._scale = np.sqrt((degrees * variance / share + other_degrees * other_variance / rest) / self._degrees)
        self._variance = variance + other_variance
        # Satterthwaite's degrees of freedom, with which Student's t is close to this distribution.
        self._close = self._variance**2 / (variance**2 / degrees + other_variance**2 / other_degrees)

    def tail(self, distance: float) -> float:
        """Return the probability that the error is at least ``distance`` away from 0, to either side."""
        from scipy.special import stdtr

        return float(2 * (WEIGHTS * stdtr(self._degrees, -distance / self._scale)).sum())

    def critical(self) -> float:
        """Return the distance that the error reaches in 5% of cases: half the width of a 95% interval.

        The tail falls ever more slowly, so that Newton's method finds it from below.
        """
        from scipy.special import gammaln, stdtrit

        half = (self._degrees + 1) / 2
        factor = 2 * math.exp(gammaln(half) - gammaln(half - 0.5)) / math.sqrt(self._degrees * math.pi)
        distance, step = float(stdtrit(self._close, 1 - LEVEL / 2)) * math.sqrt(self._variance), math.inf
        while abs(step) > 1e-8 * distance:  # its square is left
            places = distance / self._scale
            slope = factor * (WEIGHTS / self._scale * np.exp(-half * np.log1p(places**2 / self._degrees))).sum()
            step = (self.tail(distance) - LEVEL) / float(slope)
            distance = max(0.0, distance + step)
        return distance
