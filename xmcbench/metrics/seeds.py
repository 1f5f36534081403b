"""Seeds: what several runs of a method say about the method.

A run's value moves with its seed and with the draw of the test rows, and a comparison of methods must count both. The
score of row i in the run of seed s is taken as

    method + row(i) + seed(s) + row(i) x seed(s)

with random effects of variances V_row, V_seed and V_both. In the difference of two methods, each with the mean of its
n runs on the same N rows, what the two have in common of row(i) cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xmcbench.metrics.flips import Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Fractions that differ by no more than this are equal: they differ by rounding.
_ROUNDING = 1e-12

#: Half the width of a 95% interval in standard errors, for a normal distribution.
_NORMAL = 1.959963984540054


class _Runs(NamedTuple):
    """The runs of one side: how many, and the variances between them, each for one run.

    between: of their values; estimates V_seed + V_both / N.
    both: of what is left when rows and runs are taken out; estimates V_both.
    """

    number: int
    between: float
    both: float


def vary(runs: NDArray[np.float64]) -> bool:
    """Whether the runs [n, rows] of a side differ in any row."""
    return bool((np.abs(runs - runs[0]) > _ROUNDING).any())


def verdict(
    first: NDArray[np.float64], second: NDArray[np.float64], weight: NDArray[np.float64], matched: bool
) -> Verdict:
    """The verdict on the difference of two methods, first minus second, from several runs of one or both.

    ``first`` [n, rows] and ``second`` [m, rows] are scores whose mean over the rows is the value of a run, float64;
    ``weight`` [rows], of mean 1, is what the value is a ratio to: ones, but for PSP. ``matched`` runs are compared seed
    by seed, n = m; otherwise a side whose runs are all alike has no variance between seeds. At least one side, of
    matched runs their difference, must ``vary``.

    The difference has the variance

        of seeds   between / n + between' / m
        of rows    max(0, rows - both / n - both' / m) / N

    where "between" and "both" are those of each side's runs, and "rows" is the variance over the rows of the
    difference. The first holds V_seed and V_both / N, the second what else differs between rows. p and interval are
    those of Student's t, with degrees of freedom from both variances (``_degrees``): N - 1 for the rows, and for the
    seeds those of sides of equal variance, 2 n - 2 for n = m.

    Welch's test, which takes the degrees from the variances, would reject too seldom: a method against itself in 3.5%
    of cases with three runs a side. The price is paid where the seeds of one side matter far more. With a standard
    deviation four times as large, equal methods are called different in 8% of cases with three runs a side, and in 7%
    with five.
    """
    from scipy.special import stdtr, stdtrit

    by_row = first.mean(axis=0) - second.mean(axis=0)
    rows = len(by_row)
    delta = float(by_row.mean())
    sides = [_runs(each, weight) for each in ([first - second] if matched else [first, second]) if vary(each)]
    both = sum(side.both / side.number for side in sides)
    of_seeds = sum(side.between / side.number for side in sides)
    if of_seeds <= _ROUNDING**2:
        # The runs differ, but their values happen to be equal: the least that the variance of these can be.
        of_seeds = both / rows
    degrees_of_seeds = sum(1 / side.number for side in sides) ** 2 / sum(
        1 / (side.number**2 * (side.number - 1)) for side in sides
    )
    left = by_row - delta * weight
    of_rows = max(0.0, float((left**2).sum()) / max(1, rows - 1) - both) / rows
    degrees = _degrees(of_seeds, degrees_of_seeds, of_rows, max(1, rows - 1))
    error = math.sqrt(of_seeds + of_rows)
    half = float(stdtrit(degrees, 0.975)) * error
    return Verdict(delta - half, delta + half, 2 * float(stdtr(degrees, -abs(delta) / error)))


def _runs(runs: NDArray[np.float64], weight: NDArray[np.float64]) -> _Runs:
    number, rows = runs.shape
    values = runs.mean(axis=1)
    left = runs - runs.mean(axis=0) - np.outer(values - values.mean(), weight)
    both = float((left**2).sum()) / ((number - 1) * max(1, rows - 1))
    return _Runs(number, float(values.var(ddof=1)), both)


def _degrees(of_seeds: float, degrees_of_seeds: float, of_rows: float, degrees_of_rows: float) -> float:
    """The degrees of freedom of the sum of two variances.

    Satterthwaite's are 1 / (sum of share^2 / degrees), with each variance's share of the sum. With few runs these are
    too many: when the variance of the seeds comes out too small by chance, so does its share. The power 2 d / (d + 2)
    instead of 2, with the d degrees of the seeds, corrects this. With d = 2, three runs of one side, equal methods are
    called different in 3.7 to 5.8% of cases, depending on the share of the rows; with the power 2 in up to 7.9%. With
    d = 4 it is 4.5 to 5.1%. With many runs the power is 2.
    """
    power = 2 * degrees_of_seeds / (degrees_of_seeds + 2)
    share = of_seeds / (of_seeds + of_rows)
    return float(1 / (share**power / degrees_of_seeds + (1 - share) ** power / degrees_of_rows))


def half_width(values: Sequence[float], half_widths: Sequence[float]) -> float:
    """The half-width of a 95% interval over seeds and test rows of the mean of the runs' values.

    ``values`` are those of the runs, ``half_widths`` those of their intervals over test rows, all in one unit. The
    standard error is the root of (mean half-width / 1.96)^2 + (standard deviation of the values)^2 / runs, and the
    half-width follows from Student's t, with degrees of freedom as in ``verdict``. The standard error is conservative:
    what a seed changes from row to row is in both terms. Of one run the half-width is its own, which says nothing of
    other seeds.
    """
    from scipy.special import stdtrit

    runs = len(values)
    of_rows = (fmean(half_widths) / _NORMAL) ** 2
    of_seeds = variance(values) / runs if runs > 1 else 0.0
    if of_seeds <= _ROUNDING**2:
        return fmean(half_widths)
    degrees = _degrees(of_seeds, runs - 1, of_rows, math.inf)
    return float(stdtrit(degrees, 0.975)) * math.sqrt(of_rows + of_seeds)
