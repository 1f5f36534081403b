"""Fusing rankings: a weighted sum of normalized scores, or of reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from xmcbench import TopK

#: What becomes of the scores of one ranking, query by query, before they are added up.
#:
#: ``range``     the last one is 0 and the first one 1
#: ``deviation`` the last one is 0, and their standard deviation 1; where all are equal, they are 1 above the last
#: ``shift``     the last one is 0, the unit stays
#: ``rank``      no score: 1 / (60 + rank), reciprocal rank fusion (Cormack et al., SIGIR 2009)
Normalization = Literal["range", "deviation", "shift", "rank"]
#: The constant of reciprocal rank fusion (Cormack et al., SIGIR 2009).
RANK_CONSTANT = 60


def normalized(ranking: TopK, how: Normalization, labels: int) -> np.ndarray:
    """The scores of a ranking [N, k] of ``labels`` labels as they are added up, float32, 0 without a prediction.

    A label that a ranking does not hold counts 0. That is what it has at most where the ranking is full, with k labels
    or all there are: the score of its last place. Where the ranking ended early, the method gives the others nothing:
    its 0 is the last score.
    """
    there = ranking.indices >= 0
    if how == "rank":
        reciprocal = np.divide(there, RANK_CONSTANT + np.arange(1, ranking.k + 1))
        return np.asarray(reciprocal, np.float32)
    scores = np.where(there, ranking.scores, 0).astype(np.float64)
    most = min(ranking.k, labels)
    full = there[:, most - 1] if most else np.zeros(len(ranking), bool)
    last = np.where(full, scores[:, most - 1] if most else 0, np.minimum(scores.min(axis=1, initial=0), 0))
    shifted = np.where(there, scores - last[:, None], 0)
    if how == "range":
        unit = shifted.max(axis=1, initial=0)
    elif how == "deviation":
        count = np.maximum(there.sum(axis=1), 1)
        mean = shifted.sum(axis=1) / count
        unit = np.sqrt(np.square(np.where(there, shifted - mean[:, None], 0)).sum(axis=1) / count)
        # A single prediction, or equal ones, would keep the scores of its method.
        unit = np.where(unit > 0, unit, shifted.max(axis=1, initial=0))
    else:
        unit = np.ones(len(ranking))
    return np.asarray(shifted / np.where(unit > 0, unit, 1)[:, None], np.float32)


def fused(rankings: Sequence[TopK], weights: Sequence[float], how: Normalization, labels: int, k: int) -> TopK:
    """The k labels with the largest weighted sum over rankings of the same instances, ties by lower label id.

    A ranking whose weight is 0 brings no labels. One weight at least is larger.
    """
    return added([TopK(each.indices, normalized(each, how, labels)) for each in rankings], weights, labels, k)


def added(rankings: Sequence[TopK], weights: Sequence[float], labels: int, k: int) -> TopK:
    """As ``fused``, of scores that are normalized already."""
    from scipy.sparse import coo_matrix  # not needed to list methods

    rows, columns, values = [], [], []
    for ranking, weight in zip(rankings, weights, strict=True):
        there = (ranking.indices >= 0) & (weight > 0)
        rows.append(np.nonzero(there)[0])
        columns.append(ranking.indices[there])
        values.append(weight * ranking.scores[there])
    shape = (len(rankings[0]), labels)
    # Not a sum of matrices, which would lose the labels whose score is 0.
    summed = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape).tocsr()
    return TopK.from_scores(summed, k)
