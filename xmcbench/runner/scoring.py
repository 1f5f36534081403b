"""From the ranks of the true pairs to every figure of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import (
    Scores,
    evaluate_ranks,
    invariants,
    inverse_propensity_of,
    label_groups,
)
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.records import Ranks, Truth
from xmcbench.records.record import Figures, FilteredFigures

if TYPE_CHECKING:
    pass


def figures(ranks: Ranks, truth: Truth, propensity: tuple[float, float]) -> dict[str, FilteredFigures]:
    """Filter -> all figures, with intervals and by group of labels.

    propensity: the constants A and B of the dataset. Raises MethodError if an invariant of the protocol is
    violated, DataError if there is no row to score.
    """
    weights = None
    if truth.instances >= MIN_INSTANCES:  # else PSP is left out
        weights = inverse_propensity_of(truth.frequency, truth.instances, *propensity)
    groups = label_groups(truth.frequency, ranks.seen.astype(np.int64))
    found = {}
    for name, under_filter in ranks.by_filter.items():
        scores = evaluate_ranks(under_filter, truth.pairs, weights)
        views = {}
        for group, members in groups.items():
            pairs, inside = truth.pairs.restrict(members)
            if len(pairs):
                views[group] = figures_of(evaluate_ranks(under_filter[inside], pairs, weights))
        whole = figures_of(scores)
        found[name] = FilteredFigures(
            values=whole.values,
            intervals=whole.intervals,
            scored=whole.scored,
            unlabeled=whole.unlabeled,
            views=views,
        )
    return found


def check_scored(scores: Scores) -> None:
    """Raise DataError if no instance was scored."""
    if not scores.scored:
        raise DataError(
            "no test instance has a label, so there is nothing to score", "check the labels of the test set"
        )


def figures_of(scores: Scores) -> Figures:
    """An evaluation as a part of a record, with its intervals. Raises what ``figures`` raises."""
    check_scored(scores)
    invariants.check(scores.values)
    return Figures(
        values=scores.values,
        intervals={name: (each.low, each.high) for name, each in scores.intervals().items()},
        scored=scores.scored,
        unlabeled=scores.unlabeled,
    )
