"""Ties: the rows of a table that a paired test does not separate from the best one.

The tests are those of ``xmcbench.metrics.paired``, on the same test rows and seeds, in closed form: a table of twenty
rows takes a fraction of a second. Where ``paired`` randomizes, the difference of the means is taken as normal, which it
is at the 200 rows and more of a table; with fewer rows the test is that of ``paired`` itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, sqrt

import numpy as np

from xmcbench.metrics import paired, seeds
from xmcbench.metrics.bounded import FEW_ROWS
from xmcbench.metrics.evaluation import Scores
from xmcbench.metrics.flips import LEVEL, Verdict
from xmcbench.metrics.seeds import NORMAL


@dataclass(frozen=True, eq=False)
class Contender:
    """A row of a table: an evaluation per run, and the subset of pairs of the run, None without one.

    deterministic: whether another run could only repeat the first.
    """

    runs: Sequence[Scores]
    subsets: Sequence[str | None]
    deterministic: bool

    @lru_cache(maxsize=32)  # noqa: B019 - the best row of a table meets all others
    def side(self, metric: str) -> seeds.Side:
        """Return the runs in a metric."""
        return seeds.measure(np.stack([run.contributions(metric) for run in self.runs]), self.runs[0].weights(metric))


def find_ties(contenders: Mapping[str, Contender], metrics: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return, by metric, the names of the rows that are not significantly below the best one, without that one.

    A row is tied if its p-value, by Holm's correction over the column, is not below 0.05.
    """
    return {metric: _find_tied(contenders, metric) for metric in metrics}


def _find_tied(contenders: Mapping[str, Contender], metric: str) -> frozenset[str]:
    values = {name: np.mean([run.values[metric] for run in row.runs]) for name, row in contenders.items()}
    if not values:
        return frozenset()
    best = max(values, key=lambda name: values[name])
    p = {name: p_value(contenders[best], contender, metric) for name, contender in contenders.items() if name != best}
    return frozenset(name for name, adjusted in paired.holm(p).items() if adjusted >= LEVEL)


def p_value(first: Contender, second: Contender, metric: str) -> float:
    """Return the two-sided p-value of no difference of two rows in a metric. Raises what ``paired.compare`` raises."""
    if first.runs[0].scored < FEW_ROWS:
        return _exact(first, second, metric).p
    delta, error = _test(first, second, metric)
    return error.tail(abs(delta))


def difference(first: Contender, second: Contender, metric: str) -> Verdict:
    """Return the interval and the p-value of the difference of two rows in a metric, first minus second."""
    if first.runs[0].scored < FEW_ROWS:
        found = _exact(first, second, metric)
        return Verdict(found.low, found.high, found.p)
    delta, error = _test(first, second, metric)
    half = error.critical()
    return Verdict(delta - half, delta + half, error.tail(abs(delta)))


def _is_matched(first: Contender, second: Contender) -> bool:
    return first.subsets == second.subsets and None not in first.subsets


def _exact(first: Contender, second: Contender, metric: str) -> paired.Difference:
    deterministic = (first.deterministic, second.deterministic)
    matched = _is_matched(first, second)
    return paired.compare(first.runs, second.runs, matched=matched, deterministic=deterministic)[metric]


def _test(first: Contender, second: Contender, metric: str) -> tuple[float, seeds.BehrensFisher | _Normal]:
    """Return the difference of two rows and the distribution of its error."""
    one, other, weight = first.side(metric), second.side(metric), first.runs[0].weights(metric)
    varying = seeds.list_varying(one, other, weight, _is_matched(first, second))
    by_row = one.by_row - other.by_row
    if varying and all(side.deterministic or len(side.runs) > 1 for side in (first, second)):
        return seeds.difference(by_row, varying, weight)
    rows, delta = len(by_row), float(by_row.mean())
    left = by_row - delta * weight
    return delta, _Normal(sqrt(float(left @ left) / (rows - 1) / rows))


@dataclass(frozen=True)
class _Normal:
    """The normal distribution of an error with this standard error."""

    error: float

    def tail(self, distance: float) -> float:
        """Return the probability that the error is at least ``distance`` away from 0, to either side."""
        return erfc(distance / self.error / sqrt(2)) if self.error else float(distance == 0)

    def critical(self) -> float:
        """Return half the width of a 95% interval."""
        return NORMAL * self.error
