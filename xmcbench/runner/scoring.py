"""From predictions to the ranks of the true pairs, and from ranks to every figure of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import (
    Scores,
    bootstrap,
    evaluate_ranks,
    invariants,
    inverse_propensity_of,
    label_frequency,
    label_views,
    true_ranks,
)
from xmcbench.records import Ranks, Truth
from xmcbench.records.record import PROPENSITY_INSTANCES, Figures, FilteredFigures

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data import Dataset
    from xmcbench.topk import TopK


def rank(predictions: TopK, dataset: Dataset, truth: Truth, known: csr_matrix | None) -> Ranks:
    """The ranks of the true pairs among predictions [n_test, k], under every filter the dataset has.

    known: the pairs that the method was given, which say which labels were seen.
    """
    ranks: dict[str, np.ndarray] = {
        name: true_ranks(predictions.indices, truth.pairs, dataset.filter(name)) for name in dataset.filters
    }
    seen = label_frequency(known) > 0 if known is not None else np.zeros(len(truth.frequency), bool)
    return Ranks(ranks, seen)


def figures(ranks: Ranks, truth: Truth, propensity: tuple[float, float]) -> dict[str, FilteredFigures]:
    """Filter -> all figures, with intervals and by group of labels.

    propensity: the constants A and B of the dataset. Raises MethodError if an invariant of the protocol is
    violated, DataError if there is no row to score.
    """
    weights = None
    if truth.instances >= PROPENSITY_INSTANCES:  # else PSP is left out
        weights = inverse_propensity_of(truth.frequency, truth.instances, *propensity)
    groups = {"": np.ones(len(truth.frequency), bool), **label_views(truth.frequency, ranks.seen.astype(np.int64))}
    alike = _alike(ranks.by_filter)
    found: dict[str, dict[str, Figures]] = {name: {} for name in alike}
    for group, members in groups.items():
        pairs, inside = truth.pairs.restrict(members)
        if group and not len(pairs):
            continue
        if group and inside.all():  # such as `unseen` in the zero-shot setting
            scored = {name: found[name][""] for name in alike}
        else:
            under = {name: ranks.by_filter[name][inside] for name in dict.fromkeys(alike.values())}
            scored = _figures({name: evaluate_ranks(each, pairs, weights) for name, each in under.items()})
        for name, first in alike.items():
            found[name][group] = scored[first]
    return {
        name: FilteredFigures(**msgspec.structs.asdict(views.pop("")), views=views) for name, views in found.items()
    }


def figures_of(scores: Scores) -> Figures:
    """An evaluation as a part of a record, with its intervals. Raises what ``figures`` raises."""
    return _figures({"": scores})[""]


def _figures(scores: Mapping[str, Scores]) -> dict[str, Figures]:
    """Evaluations of the same rows, with their intervals.

    All are resampled together: drawing the rows takes most of the time, and each value is what it would be alone.
    """
    for each in scores.values():
        if not each.scored:
            raise DataError(
                "no test instance has a label, so there is nothing to score", "check target_ind of the test set"
            )
        invariants.check(each.values)
    intervals = bootstrap.intervals(
        {f"{metric} {name}": column for name, each in scores.items() for metric, column in each.per_instance.items()},
        {f"{metric} {name}": column for name, each in scores.items() for metric, column in each.attainable.items()},
    )
    return {
        name: Figures(
            values=each.values,
            intervals={metric: intervals[f"{metric} {name}"][:2] for metric in each.values},
            scored=each.scored,
            unlabeled=each.unlabelled,
        )
        for name, each in scores.items()
    }


def _alike(by_filter: Mapping[str, np.ndarray]) -> dict[str, str]:
    """For each filter the first one under which the ranks are the same."""
    names = list(by_filter)
    return {name: next(each for each in names if np.array_equal(by_filter[each], by_filter[name])) for name in names}
