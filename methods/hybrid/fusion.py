"""Fusing rankings: a weighted sum of normalized scores or reciprocal ranks, and weights fitted on known pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from xmcbench import Texts, TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: What becomes of the scores of one ranking, query by query, before they are added up.
#:
#: ``range``     the last one is 0 and the first one 1
#: ``deviation`` the last one is 0, and their standard deviation 1; where all are equal, they are 1 above the last
#: ``shift``     the last one is 0, the unit stays
#: ``rank``      no score: 1 / (60 + rank), reciprocal rank fusion (Cormack et al., SIGIR 2009)
Normalization = Literal["range", "deviation", "shift", "rank"]
#: The constant of reciprocal rank fusion (Cormack et al., SIGIR 2009).
RANK_CONSTANT = 60


def normalize(ranking: TopK, how: Normalization, labels: int) -> np.ndarray:
    """Scores of a ranking [N, k] of ``labels`` labels as they are added up, float32, 0 without a prediction. A label
    that a ranking does not hold counts 0: in a full ranking the score of its last place; where it ended early, 0
    itself. An infinite score, which only the first one can be, is taken as far above the next as that is above 0, or 1.
    """
    there = ranking.indices >= 0
    if how == "rank":
        reciprocal = np.divide(there, RANK_CONSTANT + np.arange(1, ranking.k + 1))
        return np.asarray(reciprocal, np.float32)
    infinite = ranking.scores == np.inf
    scores = np.where(there & ~infinite, ranking.scores, 0).astype(np.float64)
    most = min(ranking.k, labels)
    full = there[:, most - 1] if most else np.zeros(len(ranking), bool)
    last = np.where(full, scores[:, most - 1] if most else 0, np.minimum(scores.min(axis=1, initial=0), 0))
    shifted = np.where(there & ~infinite, scores - last[:, None], 0)
    highest = shifted.max(axis=1, initial=0)
    shifted = np.where(infinite, np.where(highest > 0, 2 * highest, 1)[:, None], shifted)
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


def fuse(rankings: Sequence[TopK], weights: Sequence[float], how: Normalization, labels: int, k: int) -> TopK:
    """The k labels with the largest weighted sum over rankings of the same instances, ties by lower label id. A ranking
    whose weight is 0 brings no labels. One weight at least is larger."""
    return add_scores(
        [TopK(ranking.indices, normalize(ranking, how, labels)) for ranking in rankings], weights, labels, k
    )


def add_scores(rankings: Sequence[TopK], weights: Sequence[float], labels: int, k: int) -> TopK:
    """As ``fuse``, of scores that are normalized already."""
    from scipy.sparse import coo_matrix  # not needed to list methods

    rows, columns, values = [], [], []
    for ranking, weight in zip(rankings, weights, strict=True):
        there = (ranking.indices >= 0) & (weight > 0)
        rows.append(np.nonzero(there)[0])
        columns.append(ranking.indices[there])
        values.append(weight * ranking.scores[there].astype(np.float64))
    shape = (len(rankings[0]), labels)
    # Not a sum of matrices, which would lose the labels whose score is 0. In float64, the order of three parts or more
    # decides no tie.
    summed = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape).tocsr()
    return TopK.from_scores(summed.astype(np.float32), k)


#: What a weight is multiplied by in a step of the search, and the number of passes over all weights.
_FACTORS, _PASSES = (0.0, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0), 3
#: Places of a ranking that count.
_DEPTH = 10


def hold_out_rows(pairs: csr_matrix, share: float, most: int, seed: int) -> np.ndarray:
    """Instances with a pair that the weights are fitted on, int64 rising: a share of them, at most ``most``. Empty
    where it would take all, or leave fewer than two."""
    rows = np.flatnonzero(np.diff(pairs.indptr))
    number = min(int(share * len(rows)), most)
    if number < 1 or len(rows) - number < 2:
        return np.empty(0, np.int64)
    drawn = np.random.default_rng([seed, 7]).permutation(rows)[:number]
    return np.sort(drawn).astype(np.int64)


def find_own_labels(texts: Texts, labels: Texts) -> np.ndarray:
    """The label that each training instance is, by their ids, int64; -2 for none. Ids that are the numbers of the rows,
    of instances or of labels, are those of texts without ids, and do not tell."""
    if any(all(uid == str(row) for row, uid in enumerate(side.uids)) for side in (texts, labels)):
        return np.full(len(texts), -2)
    uids = {uid: number for number, uid in enumerate(labels.uids)}
    return np.array([uids.get(uid, -2) for uid in texts.uids])


def only_seen(ranking: TopK, own: np.ndarray, pairs: csr_matrix) -> TopK:
    """Drop the labels without a known pair, and the instance itself (``find_own_labels``). Instances of a label outside
    the subset are unknown. The ranking is normalized before, as for a prediction: scores stay."""
    seen = np.diff(pairs.tocsc().indptr) > 0
    kept = (ranking.indices >= 0) & seen[np.maximum(ranking.indices, 0)] & (ranking.indices != own[:, None])
    return TopK.ranked(np.where(kept, ranking.indices, -1), ranking.scores)


def fit_weights(rankings: Sequence[TopK], pairs: csr_matrix) -> tuple[list[float], float]:
    """Find weights that sum to 1, by coordinate search from equal ones, and the mean nDCG@10 that they reach. rankings:
    of the same instances, normalized; pairs: theirs, [N, L]. Equal weights win ties; the order of the parts can matter.
    """
    weights = [1.0] * len(rankings)
    best = _ndcg(rankings, weights, pairs)
    for _ in range(_PASSES):
        before = list(weights)
        for place in range(len(weights)):
            for factor in _FACTORS:
                # A part that was left out comes back with the largest weight, or a fraction of it.
                tried = [*weights[:place], (before[place] or max(before)) * factor, *weights[place + 1 :]]
                if not any(tried):
                    continue
                value = _ndcg(rankings, tried, pairs)
                if value > best + 1e-9:
                    best, weights = value, tried
        if weights == before:
            break
    total = sum(weights)
    return [weight / total for weight in weights], best


def _ndcg(rankings: Sequence[TopK], weights: Sequence[float], pairs: csr_matrix) -> float:
    found = add_scores(rankings, weights, pairs.shape[1], _DEPTH)
    gains = 1 / np.log2(np.arange(2, _DEPTH + 2))
    relevant = np.asarray(pairs[np.arange(len(found))[:, None], np.maximum(found.indices, 0)].todense())
    reached = (relevant * (found.indices >= 0) * gains).sum(axis=1)
    ideal = np.cumsum(gains)[np.minimum(np.diff(pairs.indptr), _DEPTH) - 1]
    return float((reached / ideal).mean())
