"""Evaluation: every metric of the protocol, from the ranks of the true pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import bootstrap
from xmcbench.metrics.bootstrap import Interval
from xmcbench.metrics.protocol import DEPTH, METRICS
from xmcbench.metrics.ranks import TruePairs, top_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Scores:
    """The metrics of one list of predictions.

    values: metric -> fraction in [0, 1], in the order of ``protocol.METRICS``; empty when no row was scored.
    scored: test rows with a true label, over which values are averaged.
    unlabeled: test rows without one, left out.
    per_instance: metric -> float64 [scored], in the order of the rows. The value is their mean; for PSP@k these are the
        inverse propensities of the hits, and the value is their sum over the sum of ``attainable``.
    attainable: PSP@k -> float64 [scored], the largest sum of inverse propensities that any k predictions reach.
    """

    values: dict[str, float]
    scored: int
    unlabeled: int
    per_instance: dict[str, NDArray[np.float64]]
    attainable: dict[str, NDArray[np.float64]]

    def contributions(self, metric: str) -> NDArray[np.float64]:
        """Return the part of each scored row in the value, float64 [scored]; the mean is the value, up to rounding."""
        found = self.per_instance[metric]
        return found / self.attainable[metric].mean() if metric in self.attainable else found

    def weights(self, metric: str) -> NDArray[np.float64]:
        """Return the weight of each scored row, float64 [scored], mean 1: larger where more PSP@k is attainable."""
        best = self.attainable.get(metric)
        return np.ones(self.scored) if best is None else best / best.mean()

    def intervals(self, seed: int = 0) -> dict[str, Interval]:
        """Return the bootstrap interval of every value: metric -> (low, high, se)."""
        return bootstrap.intervals(self.per_instance, self.attainable, seed)


class Evaluation:
    """The evaluation of any number of rankings of the same test rows, which share the computations on the true pairs.

    PSP is left out without ``inverse_propensity`` [L]. Raises DataError when the propensities do not fit the pairs.
    """

    def __init__(self, pairs: TruePairs, inverse_propensity: NDArray[np.float64] | None = None) -> None:
        self.pairs = pairs
        labeled = np.flatnonzero(pairs.lengths)
        self._scored, self._true_labels = len(labeled), pairs.lengths[labeled]
        # From here on a row is its place among the rows that are scored.
        place = np.zeros(pairs.instances, np.int64)
        place[labeled] = np.arange(self._scored)
        self._rows = place[pairs.rows]
        self._weights: NDArray[np.float64] | None = None
        self._attainable: dict[str, NDArray[np.float64]] = {}
        if inverse_propensity is not None:
            _check_propensities(pairs, inverse_propensity)
            self._weights = np.asarray(inverse_propensity, np.float64)[pairs.labels]
            best = top_sums(self._rows, self._weights, self._scored, _depths("PSP"))
            self._attainable = {f"PSP@{k}": column for k, column in best.items()}

    def __call__(self, ranks: NDArray[np.uint8]) -> Scores:
        """Score the ranks of the true pairs, uint8 [P] as of ``true_ranks``. Raises DataError when they do not fit."""
        _check_ranks(ranks, self.pairs)
        hit = np.flatnonzero(ranks)
        hit_rows, hit_ranks = self._rows[hit], ranks[hit].astype(np.int64)
        per_instance = _plain_metrics(hit_rows, hit_ranks, self._true_labels)
        if self._weights is not None:
            found = _gains(hit_rows, hit_ranks, self._weights[hit], self._scored, _depths("PSP"))
            per_instance |= {f"PSP@{k}": column for k, column in found.items()}
        attainable, values = self._attainable, {}
        if self._scored:
            for name, column in per_instance.items():
                values[name] = float(column.sum() / (attainable[name].sum() if name in attainable else self._scored))
        return Scores(values, self._scored, self.pairs.instances - self._scored, per_instance, attainable)


def _plain_metrics(
    rows: NDArray[np.int64], ranks: NDArray[np.int64], true_labels: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Return P, R and nDCG of each row, from the rows and ranks of the hits and the number of true labels [scored]."""
    scored = len(true_labels)
    counts = _gains(rows, ranks, np.ones(len(ranks)), scored, sorted({*_depths("P"), *_depths("R")}))
    discounts = 1 / np.log2(np.arange(DEPTH) + 2)  # of the ranks 1, 2, ...
    gains = _gains(rows, ranks, discounts[ranks - 1], scored, _depths("nDCG"))
    ideal = np.cumsum(discounts)
    per_instance = {f"P@{k}": counts[k] / k for k in _depths("P")}
    per_instance |= {f"R@{k}": counts[k] / true_labels for k in _depths("R")}
    per_instance |= {f"nDCG@{k}": gains[k] / ideal[np.minimum(k, true_labels) - 1] for k in _depths("nDCG")}
    return per_instance


def _gains(
    rows: NDArray[np.int64], ranks: NDArray[np.int64], gains: NDArray[np.float64], scored: int, depths: list[int]
) -> dict[int, NDArray[np.float64]]:
    """Return the sum of the gains of the hits at ranks 1 to k, float64 [scored], for every k in ``depths``."""
    # Of no hits at all, bincount would count in integers.
    return {k: np.bincount(rows[ranks <= k], gains[ranks <= k], scored).astype(np.float64, copy=False) for k in depths}


def _depths(family: str) -> list[int]:
    return [metric.k for metric in METRICS.values() if metric.family == family]


def _check_ranks(ranks: NDArray[np.uint8], pairs: TruePairs) -> None:
    if ranks.shape != pairs.rows.shape:
        raise DataError(
            f"there are {len(pairs)} true pairs, but ranks of the shape {ranks.shape}", "ranks of another test set?"
        )
    if ranks.size and ranks.max() > DEPTH:
        raise DataError(f"a true pair has rank {ranks.max()}, but only {DEPTH} predictions of a row are scored")


def _check_propensities(pairs: TruePairs, inverse_propensity: NDArray[np.float64]) -> None:
    if len(pairs) and pairs.labels.max() >= len(inverse_propensity):
        raise DataError(
            f"there are {len(inverse_propensity)} propensities, but a true pair has label {pairs.labels.max()}"
        )
    if not (np.isfinite(inverse_propensity) & (np.asarray(inverse_propensity) > 0)).all():
        raise DataError("an inverse propensity is not a positive number", "compute them from the full training matrix")
