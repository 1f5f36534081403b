"""From predictions to the ranks of the true pairs, and from ranks to every figure of a record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import (
    Scores,
    TruePairs,
    evaluate_ranks,
    invariants,
    inverse_propensity_of,
    label_frequency,
    label_views,
    true_ranks,
)
from xmcbench.metrics.propensity import MIN_INSTANCES
from xmcbench.records import Ranks, Truth
from xmcbench.records.record import Figures, FilteredFigures

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data import Dataset
    from xmcbench.topk import TopK


def rank(parts: Iterable[TopK], dataset: Dataset, truth: Truth, known: csr_matrix | None) -> tuple[Ranks, int]:
    """The ranks of the true pairs among predictions [n_test, k], under every filter the dataset has.

    parts: the predictions, some rows after the others. known: the pairs that the method was given, which say which
    labels were seen. Also returns the number of rows without a prediction.
    """
    removed = {name: dataset.filter(name) for name in dataset.filters}
    found: dict[str, list[np.ndarray]] = {name: [np.empty(0, np.uint8)] for name in removed}
    first = empty = 0
    for part in parts:
        last = first + len(part)
        begin, end = np.searchsorted(truth.pairs.rows, (first, last))
        pairs = TruePairs(truth.pairs.rows[begin:end] - first, truth.pairs.labels[begin:end], len(part))
        for name, each in removed.items():
            found[name].append(true_ranks(part.indices, pairs, None if each is None else each[first:last]))
        empty += int((part.indices[:, 0] < 0).sum())  # best first: a row without a first prediction has none
        first = last
    seen = label_frequency(known) > 0 if known is not None else np.zeros(len(truth.frequency), bool)
    return Ranks({name: np.concatenate(ranks) for name, ranks in found.items()}, seen), empty


def figures(ranks: Ranks, truth: Truth, propensity: tuple[float, float]) -> dict[str, FilteredFigures]:
    """Filter -> all figures, with intervals and by group of labels.

    propensity: the constants A and B of the dataset. Raises MethodError if an invariant of the protocol is
    violated, DataError if there is no row to score.
    """
    weights = None
    if truth.instances >= MIN_INSTANCES:  # else PSP is left out
        weights = inverse_propensity_of(truth.frequency, truth.instances, *propensity)
    groups = label_views(truth.frequency, ranks.seen.astype(np.int64))
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
