"""From the ranks of the true pairs to the figures of a record.

Its source is recorded with the figures (``metrics_digest``): if it changes, they are computed again from the ranks.
"""

from __future__ import annotations

import msgspec
import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import Evaluation, Scores, invariants, inverse_propensity, label_groups
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.records import Ranks, Truth
from xmcbench.records.record import Figures, FilteredFigures


def figures(ranks: Ranks, truth: Truth, propensity: tuple[float, float]) -> dict[str, FilteredFigures]:
    """Return filter -> all figures, with intervals and by group of labels.

    propensity: the constants A and B of the dataset. Raises MethodError if an invariant of the protocol is
    violated, DataError if there is no row to score.
    """
    weights = weigh_labels(truth, propensity)
    whole = Evaluation(truth.pairs, weights)
    groups = {}
    for group, members in label_groups(truth.frequency, ranks.seen.astype(np.int64)).items():
        pairs, inside = truth.pairs.restrict(members)
        if len(pairs):
            groups[group] = Evaluation(pairs, weights), inside
    found = {}
    for name, under_filter in ranks.by_filter.items():
        scores = whole(under_filter)
        views = {group: figures_of(evaluate(under_filter[inside])) for group, (evaluate, inside) in groups.items()}
        found[name] = FilteredFigures(**msgspec.structs.asdict(figures_of(scores)), views=views)
    return found


def weigh_labels(truth: Truth, constants: tuple[float, float]) -> np.ndarray | None:
    """Return the inverse propensities of labels, float64 [L].

    None for a training set that is too small, for which PSP is left out.
    """
    if truth.instances < MIN_INSTANCES:
        return None
    return inverse_propensity(truth.frequency, truth.instances, *constants)


def check_scored(scores: Scores) -> None:
    """Raise DataError if no instance was scored."""
    if not scores.scored:
        raise DataError(
            "no test instance has a label, so there is nothing to score", "check the labels of the test set"
        )


def figures_of(scores: Scores) -> Figures:
    """Return an evaluation as a part of a record, with its intervals. Raises as ``figures`` does."""
    check_scored(scores)
    invariants.check(scores.values)
    return Figures(
        values=scores.values,
        intervals={name: (interval.low, interval.high) for name, interval in scores.intervals().items()},
        scored=scores.scored,
        unlabeled=scores.unlabeled,
    )
