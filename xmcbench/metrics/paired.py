"""Paired comparison: two methods on the same test rows, metric by metric, always first minus second.

The test depends on the runs:

* One run on each side, or several that are all alike: a randomization test over the test rows, and the interval that
  belongs to it (``xmcbench.metrics.flips``). Of fewer than 200 rows it is a test that holds however skewed the
  differences are (``xmcbench.metrics.bounded``).
* Several runs on a side: a test over seeds and rows (``xmcbench.metrics.seeds``). Another seed gives a stochastic
  method another value; a test over rows alone would call this a difference of methods. Of fewer than 200 rows, a
  difference is significant only if the test over rows alone finds it, too.
* A single run of a stochastic side: how much its seed matters is unknown. The test is over rows alone, of the means of
  the runs, and its verdict is about these runs and not about the methods. The result says so.

Rows stay paired in all of them. That makes small differences visible, because most of the variance of a metric is
between rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import bounded, flips, seeds
from xmcbench.metrics.evaluation import Scores


class Difference(NamedTuple):
    """First minus second, as a fraction, of one metric.

    first, second: the values, means over the runs.
    low, high: the 95% interval of the difference; it contains ``delta`` and lies in [-1, 1].
    p: two-sided p-value of no difference; below 0.05 exactly where 0 is outside the interval.
    over_seeds: whether seeds were tested over, not only test rows.
    about_runs: whether the verdict is about these runs and says nothing of others of the same methods.
    """

    first: float
    second: float
    delta: float
    low: float
    high: float
    p: float
    over_seeds: bool
    about_runs: bool


def compare(
    first: Sequence[Scores],
    second: Sequence[Scores],
    *,
    matched: bool = False,
    deterministic: tuple[bool, bool] = (False, False),
    seed: int = 0,
) -> dict[str, Difference]:
    """Return the difference of two methods on the same test rows: metric -> difference.

    first, second: one evaluation per run of a side, of the same test rows and metrics.
    matched: whether the runs of the two sides belong together in order, as when they saw the same few-shot subset; then
        differences are taken run by run.
    deterministic: whether another run of a side could only repeat the first, as of a method without randomness in a
        setting without a random subset. It matters for a side with one run; several runs show themselves what varies.
    seed: of the test over rows.

    Raises DataError when there is no run, when the evaluations are not of the same rows and metrics, and when matched
    sides have different numbers of runs. PSP is compared by its numerators; what is attainable depends on the true
    pairs alone and is the same for all.
    """
    _check(first, second, matched)
    unknown = not all(fixed or len(side) > 1 for fixed, side in zip(deterministic, (first, second), strict=True))
    are_few = first[0].scored < bounded.FEW_ROWS
    by_row, over_seeds = {}, {}
    for name in first[0].values:
        one, other = (np.stack([run.contributions(name) for run in side]) for side in (first, second))
        varies = seeds.vary(one - other) if matched else seeds.vary(one) or seeds.vary(other)
        if varies and not unknown:
            over_seeds[name] = seeds.verdict(one, other, first[0].weights(name), matched)
        if are_few or name not in over_seeds:
            by_row[name] = one.mean(axis=0) - other.mean(axis=0)
    weighted = {name: first[0].weights(name) for name in by_row if name in first[0].attainable}
    over_rows = (bounded if are_few else flips).verdicts(by_row, weighted, seed)
    found = {}
    for name in first[0].values:
        mine, theirs = (float(np.mean([run.values[name] for run in side])) for side in (first, second))
        lows, highs, p = zip(*(verdicts[name] for verdicts in (over_seeds, over_rows) if name in verdicts), strict=True)
        low, high = max(-1.0, min(*lows, mine - theirs)), min(1.0, max(*highs, mine - theirs))
        found[name] = Difference(mine, theirs, mine - theirs, low, high, max(p), name in over_seeds, unknown)
    return found


def common_subsets(
    first: Sequence[str | None], second: Sequence[str | None], deterministic: tuple[bool, bool]
) -> frozenset[str | None]:
    """Return the few-shot subsets whose runs of two sides are compared; none where all runs are.

    first, second: the subset of each run, None for one that depends on none. A run without a partner would only add
    variance. A side that no seed would change is whole.
    """
    return frozenset() if any(deterministic) else frozenset({*first} & {*second} - {None})


def _check(first: Sequence[Scores], second: Sequence[Scores], matched: bool) -> None:
    if not first or not second:
        raise DataError("a side without a run cannot be compared")
    if matched and len(first) != len(second):
        raise DataError(
            f"{len(first)} and {len(second)} runs cannot be matched", "matched sides have a run for each common seed"
        )
    for run in (*first, *second):
        if (run.scored, run.unlabeled) != (first[0].scored, first[0].unlabeled):
            raise DataError(
                f"{first[0].scored} and {run.scored} scored rows cannot be paired",
                "two evaluations of one test set can",
            )
        if run.values.keys() != first[0].values.keys():
            raise DataError("the evaluations are of different metrics", "score both with or without propensities")


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's adjusted p-values (Holm, 1979), by name in the order of ``p``.

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on. They never fall, and are at most 1.
    Below 0.05, a test is significant at the 5% level, with all tests taken together.
    """
    adjusted: dict[str, float] = {}
    highest = 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        highest = max(highest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p}
