"""Ties: the rows of a table that a paired test does not separate from the best one.

The tests are those of ``xmcbench.metrics.paired``, on the same test rows and few-shot subsets, in closed form: a table
of twenty rows takes a fraction of a second. Where ``paired`` randomizes, the difference of the means is taken as
normal, which it is where many rows differ. Where few do, and with fewer than 200 rows, the test is that of ``paired``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import erfc, sqrt

import numpy as np

from xmcbench.metrics import flips, paired, seeds
from xmcbench.metrics.bounded import FEW_ROWS
from xmcbench.metrics.evaluation import Scores
from xmcbench.metrics.flips import LEVEL, Verdict
from xmcbench.metrics.seeds import NORMAL

#: Where fewer rows differ, the mean of their differences is not normal.
_FEW_DIFFERENCES = 100


@dataclass(frozen=True, eq=False)
class Contender:
    """A row of a table: an evaluation per run, and the few-shot subset of the run, None without one.

    deterministic: whether another run could only repeat the first.
    """

    runs: Sequence[Scores]
    subsets: Sequence[str | None]
    deterministic: bool

    def on(self, subsets: Container[str | None]) -> Contender:
        """Return the runs on these subsets."""
        kept = [place for place, subset in enumerate(self.subsets) if subset in subsets]
        if len(kept) == len(self.runs):
            return self
        return replace(self, runs=[self.runs[place] for place in kept], subsets=[self.subsets[place] for place in kept])

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
    return _verdict(first, second, metric, only_p=True)[1].p


def difference(first: Contender, second: Contender, metric: str) -> tuple[float, Verdict]:
    """Return the difference of two rows in a metric, first minus second, with its interval and p-value."""
    return _verdict(first, second, metric, only_p=False)


def _verdict(first: Contender, second: Contender, metric: str, *, only_p: bool) -> tuple[float, Verdict]:
    """Return a difference and the verdict on it.

    only_p: the interval may be any, which takes less time.
    """
    if first.runs[0].scored < FEW_ROWS:
        found = _exact(first, second)[metric]
        return found.delta, Verdict(found.low, found.high, found.p)
    first, second = _on_common_subsets(first, second)
    one, other, weight = first.side(metric), second.side(metric), first.runs[0].weights(metric)
    varying = seeds.list_varying(one, other, weight, _is_matched(first, second))
    by_row = one.by_row - other.by_row
    delta = float(by_row.mean())
    error: seeds.BehrensFisher | _Normal
    if varying and all(side.deterministic or len(side.runs) > 1 for side in (first, second)):
        _, error = seeds.difference(by_row, varying, weight)
    elif 0 < np.count_nonzero(by_row) < _FEW_DIFFERENCES:
        if only_p:  # rows without a difference matter to the interval alone
            return delta, flips.verdicts({metric: by_row[by_row != 0]}, {})[metric]
        return delta, flips.verdicts({metric: by_row}, {metric: weight})[metric]
    else:
        rows = len(by_row)
        left = by_row - delta * weight
        error = _Normal(sqrt(float(left @ left) / (rows - 1) / rows))
    half = 0.0 if only_p else error.critical()
    return delta, Verdict(delta - half, delta + half, error.tail(abs(delta)))


def _on_common_subsets(first: Contender, second: Contender) -> tuple[Contender, Contender]:
    """Return the runs of two rows that are compared: those on few-shot subsets that both have, where there are any."""
    subsets = paired.common_subsets(first.subsets, second.subsets, (first.deterministic, second.deterministic))
    return (first.on(subsets), second.on(subsets)) if subsets else (first, second)


def _is_matched(first: Contender, second: Contender) -> bool:
    return first.subsets == second.subsets and None not in first.subsets


@lru_cache(maxsize=128)  # all metrics are compared at once
def _exact(first: Contender, second: Contender) -> dict[str, paired.Difference]:
    first, second = _on_common_subsets(first, second)
    deterministic = (first.deterministic, second.deterministic)
    return paired.compare(first.runs, second.runs, matched=_is_matched(first, second), deterministic=deterministic)


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
