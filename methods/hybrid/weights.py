"""Weights of a fusion, fitted on known pairs of instances that the parts have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK
from xmcbench.methods.hybrid.fusion import added

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import Texts

#: What a weight is multiplied by in a step of the search, and the number of passes over all weights.
_FACTORS, _PASSES = (0.0, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0), 3
#: Places of a ranking that count.
_DEPTH = 10


def held_out_rows(pairs: csr_matrix, share: float, most: int, seed: int) -> np.ndarray:
    """Instances with a pair that the weights are fitted on, int64 rising: a share of them, at most ``most``.

    Empty where it would take all, or leave fewer than two.
    """
    rows = np.flatnonzero(np.diff(pairs.indptr))
    number = min(int(share * len(rows)), most)
    if number < 1 or len(rows) - number < 2:
        return np.empty(0, np.int64)
    drawn = np.random.default_rng([seed, 7]).permutation(rows)[:number]
    return np.sort(drawn).astype(np.int64)


def only_seen(ranking: TopK, texts: Texts, labels: Texts, pairs: csr_matrix) -> TopK:
    """A ranking without the labels that have no known pair, and without the instance itself where it is a label.

    A label outside the subset is left out because its instances are unknown. Label ids that are only numbers do not
    tell which label is the instance. Scores stay: the ranking is normalized before, as it is for a prediction.
    """
    seen = np.diff(pairs.tocsc().indptr) > 0
    uids = {uid: number for number, uid in enumerate(labels.uids)}
    if all(uid == str(number) for uid, number in uids.items()):
        uids = {}
    own = np.array([uids.get(uid, -2) for uid in texts.uids])
    kept = (ranking.indices >= 0) & seen[np.maximum(ranking.indices, 0)] & (ranking.indices != own[:, None])
    return TopK.ranked(np.where(kept, ranking.indices, -1), ranking.scores)


def fitted_weights(rankings: Sequence[TopK], pairs: csr_matrix) -> tuple[list[float], float]:
    """Weights that sum to 1, by coordinate search from equal ones, and the mean nDCG@10 that they reach.

    rankings: of the same instances, with normalized scores; pairs: theirs, [N, L]. Equal weights win ties. A search by
    coordinates can end in another optimum for another order of the parts.
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
    found = added(rankings, weights, pairs.shape[1], _DEPTH)
    gains = 1 / np.log2(np.arange(2, _DEPTH + 2))
    relevant = np.asarray(pairs[np.arange(len(found))[:, None], np.maximum(found.indices, 0)].todense())
    reached = (relevant * (found.indices >= 0) * gains).sum(axis=1)
    ideal = np.cumsum(gains)[np.minimum(np.diff(pairs.indptr), _DEPTH) - 1]
    return float((reached / ideal).mean())
