"""Evaluation: every metric of the protocol for one list of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError, MethodError
from xmcbench.metrics import bootstrap, filters, ranking
from xmcbench.metrics.bootstrap import Interval
from xmcbench.metrics.protocol import DEPTH, METRICS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from xmcbench.topk import TopK


@dataclass(frozen=True, eq=False)
class Scores:
    """The metrics of one list of predictions.

    values: metric -> fraction in [0, 1], in the order of ``protocol.METRICS``; empty when no row was scored.
    scored: test rows with a true label, over which values are averaged.
    unlabelled: test rows without one, left out.
    per_instance: metric -> float64 [scored], in the order of the rows. The value is their mean; for PSP@k these are the
        inverse propensities of the hits, and the value is their sum over the sum of ``attainable``.
    attainable: PSP@k -> float64 [scored], the largest sum of inverse propensities that any k predictions reach.
    """

    values: dict[str, float]
    scored: int
    unlabelled: int
    per_instance: dict[str, NDArray[np.float64]]
    attainable: dict[str, NDArray[np.float64]]

    def intervals(self, seed: int = 0) -> dict[str, Interval]:
        """Bootstrap interval of every value: metric -> (low, high, se)."""
        return bootstrap.intervals(self.per_instance, self.attainable, seed)


def evaluate(
    predictions: TopK,
    truth: csr_matrix,
    *,
    removed: csr_matrix | None = None,
    inverse_propensity: NDArray[np.float64] | None = None,
) -> Scores:
    """Score predictions [N, k] against the true pairs [N, L] by the protocol in ``xmcbench.metrics.protocol``.

    ``removed`` [N, L] is a filter; fetch 100 + ``filters.longest(removed)`` predictions for it. PSP is left out without
    ``inverse_propensity`` [L], which the function of that name computes. Raises MethodError when the predictions do not
    fit the truth, DataError when the other two do not.
    """
    _check_shapes(predictions.indices, truth, removed, inverse_propensity)
    top = predictions.indices if removed is None else filters.remove(predictions.indices, removed)
    rows, labels = ranking.pairs(truth)
    true_labels = np.bincount(rows, minlength=truth.shape[0])
    labelled = np.flatnonzero(true_labels)
    scored = len(labelled)
    hits = ranking.find(top[:, :DEPTH], rows, labels)

    # From here on a row is its place among the rows that are scored.
    place = np.zeros(truth.shape[0], np.int64)
    place[labelled] = np.arange(scored)
    rows, true_labels = place[rows], true_labels[labelled]
    per_instance = _unweighted(rows[hits.pair], hits.rank, true_labels)
    attainable = {}
    if inverse_propensity is not None:
        weights = np.asarray(inverse_propensity, np.float64)[labels]
        depths = _depths("PSP")
        found = _gains(rows[hits.pair], hits.rank, weights[hits.pair], scored, depths)
        best = ranking.top_sums(rows, weights, scored, depths)
        per_instance |= {f"PSP@{k}": found[k] for k in depths}
        attainable = {f"PSP@{k}": best[k] for k in depths}

    values = {}
    if scored:
        for name, column in per_instance.items():
            values[name] = float(column.sum() / (attainable[name].sum() if name in attainable else scored))
    return Scores(values, scored, truth.shape[0] - scored, per_instance, attainable)


def _unweighted(
    rows: NDArray[np.int64], ranks: NDArray[np.int64], true_labels: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """P, R and nDCG of each row, from the rows and ranks of the hits and the number of true labels [scored]."""
    scored = len(true_labels)
    counts = _gains(rows, ranks, np.ones(len(ranks)), scored, sorted({*_depths("P"), *_depths("R")}))
    discounts = 1 / np.log2(np.arange(DEPTH) + 2)
    gains = _gains(rows, ranks, discounts[ranks], scored, _depths("nDCG"))
    ideal = np.cumsum(discounts)
    per_instance = {f"P@{k}": counts[k] / k for k in _depths("P")}
    per_instance |= {f"R@{k}": counts[k] / true_labels for k in _depths("R")}
    per_instance |= {f"nDCG@{k}": gains[k] / ideal[np.minimum(k, true_labels) - 1] for k in _depths("nDCG")}
    return per_instance


def _gains(
    rows: NDArray[np.int64], ranks: NDArray[np.int64], gains: NDArray[np.float64], scored: int, depths: list[int]
) -> dict[int, NDArray[np.float64]]:
    """The sum of the gains of the hits within the first k ranks, float64 [scored], for every k in ``depths``."""
    # Of no hits at all, bincount would count in integers.
    return {k: np.bincount(rows[ranks < k], gains[ranks < k], scored).astype(np.float64, copy=False) for k in depths}


def _depths(family: str) -> list[int]:
    return [metric.k for metric in METRICS.values() if metric.family == family]


def _check_shapes(
    indices: NDArray[np.int32],
    truth: csr_matrix,
    removed: csr_matrix | None,
    inverse_propensity: NDArray[np.float64] | None,
) -> None:
    instances, labels = truth.shape
    if indices.ndim != 2 or len(indices) != instances:
        raise MethodError(
            f"predictions have the shape {indices.shape}, the truth has {instances} rows",
            "predict(raw_X, k) returns one row of labels for each instance",
        )
    if indices.size and indices.max() >= labels:
        raise MethodError(f"label {indices.max()} is predicted, but there are only {labels} labels", "ids start at 0")
    if removed is not None and removed.shape != truth.shape:
        raise DataError(
            f"the filter has the shape {removed.shape}, the truth {truth.shape}", "filter of another split?"
        )
    if inverse_propensity is None:
        return
    if np.shape(inverse_propensity) != (labels,):
        raise DataError(f"there are {labels} labels, but propensities of the shape {np.shape(inverse_propensity)}")
    if not (np.isfinite(inverse_propensity) & (np.asarray(inverse_propensity) > 0)).all():
        raise DataError("an inverse propensity is not a positive number", "compute them from the full training matrix")
