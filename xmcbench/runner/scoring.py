"""Every number of a record that follows from its predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import (
    Scores,
    TruePairs,
    evaluate_ranks,
    invariants,
    inverse_propensity,
    label_frequency,
    label_views,
    true_ranks,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data import Dataset
    from xmcbench.topk import TopK


def score(predictions: TopK, dataset: Dataset, pairs: csr_matrix | None) -> dict[str, Any]:
    """Metrics of predictions [n_test, k] under every filter the data set has, with intervals and views.

    ``pairs`` are those the method was handed: they say which labels were seen. Raises MethodError when an invariant
    of the protocol does not hold.
    """
    truth, training = TruePairs.of(dataset.test_pairs()), dataset.train_pairs()
    weights = inverse_propensity(training, *dataset.propensity)
    known = label_frequency(pairs) if pairs is not None else np.zeros(training.shape[1], np.int64)
    groups = label_views(label_frequency(training), known)
    result: dict[str, Any] = {}
    for name in dataset.filters:
        ranks = true_ranks(predictions.indices, truth, dataset.filter(name))
        views = {}
        for group, members in groups.items():
            view, kept = truth.restrict(members)
            if len(view):
                views[group] = as_json(evaluate_ranks(ranks[kept], view))
        result[name] = {**as_json(evaluate_ranks(ranks, truth, weights)), "views": views}
    return result


def as_json(scores: Scores) -> dict[str, Any]:
    """Values, 95% intervals and counts, as JSON values.

    Raises MethodError when an invariant does not hold, DataError when there was no row to score.
    """
    if not scores.scored:
        raise DataError("no test instance has a label: there is nothing to score", "look at target_ind of the test set")
    invariants.check(scores.values)
    return {
        "values": scores.values,
        "intervals": {name: [each.low, each.high] for name, each in scores.intervals().items()},
        "scored": scores.scored,
        "unlabelled": scores.unlabelled,
    }
