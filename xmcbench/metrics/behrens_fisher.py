"""The Behrens-Fisher distribution: the sum of two independent Student's t, each times a standard error of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tests are two-sided, at this level.
LEVEL = 0.05

#: More degrees of freedom make no difference.
MANY_DEGREES = 1e6


def _tanh_sinh() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Points in (0, 1), dense toward both ends: those from 0, what is left to 1, and their weights in an integral."""
    step = 0.05
    places = step * np.arange(-70, 71)
    odds = np.exp(np.pi * np.sinh(places))
    below, above = 1 / (1 + 1 / odds), 1 / (1 + odds)
    return below, above, step * np.pi * np.cosh(places) * below * above


BELOW, ABOVE, WEIGHTS = _tanh_sinh()


class BehrensFisher:
    """The distribution of an error with two parts: of each its variance, and the degrees of freedom of that.

    Given a beta variable B with half the degrees as its parameters, it is Student's t of d + d' degrees, times the root
    of (d v / B + d' v' / (1 - B)) / (d + d') (Ray and Pitman, 1961, "Exact distribution of the Fisher-Behrens-Welch
    statistic"). The mean over B is taken at its quantiles, by the tanh-sinh rule.

    Raises DataError for a variance that is not a number.
    """

    def __init__(
        self, variance: float, degrees: float, other_variance: float, other_degrees: float = MANY_DEGREES
    ) -> None:
        from scipy.special import betaincinv, stdtrit

        if math.isnan(variance + other_variance):
            raise DataError("a variance of a difference is not a number")
        self._degrees = degrees + other_degrees
        # The rest 1 - B is a quantile of its own, not a difference, where B is almost 1.
        share, rest = (
            betaincinv(degrees / 2, other_degrees / 2, BELOW),
            betaincinv(other_degrees / 2, degrees / 2, ABOVE),
        )
        self._scale = np.sqrt((degrees * variance / share + other_degrees * other_variance / rest) / self._degrees)
        # Beyond any critical value: as if both parts had the fewer degrees, and no part could make up for the other.
        self._farthest = 2 * float(stdtrit(min(degrees, other_degrees), 0.975)) * (variance**0.5 + other_variance**0.5)

    def tail(self, distance: float) -> float:
        """The probability that the error is at least ``distance`` away from 0, to either side."""
        from scipy.special import stdtr

        return float(2 * (WEIGHTS * stdtr(self._degrees, -distance / self._scale)).sum())

    def critical(self) -> float:
        """The distance that the error reaches in 5% of cases: half the width of a 95% interval."""
        from scipy.optimize import brentq

        return float(brentq(lambda distance: self.tail(distance) - LEVEL, 0, self._farthest, rtol=1e-12))
