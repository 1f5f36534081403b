"""Metrics beyond the protocol, from the same ranks of true pairs. They are computed when asked for, and no record or
board has them.

As in ``xmcbench.metrics.protocol``, averages are over the rows with a true label, T is the set of true labels of a row,
and ranks end at 100. k is any number from 1 to 100.

* F1@k         2 hits / (k + |T|), hits at ranks up to k: the mean over rows of the harmonic mean of P@k and R@k.
* micro-R@k    hits of all rows / true pairs. micro-F1@k: 2 hits / (k rows + true pairs). micro-P@k is P@k.
* macro-R@k    hits of a label / its true pairs, mean over the labels with a true pair.
* coverage@k   share of the labels with a true pair that have a hit (Schultheis et al., NeurIPS 2023, "Generalized test
  utilities for long-tail performance in extreme multi-label classification").
* R-precision  hits at ranks up to |T|, divided by |T|; true labels beyond rank 100 are missed.
* MRR          1 / rank of the first hit; 0 without one among the first 100.
* hit@k        share of the rows with a hit.
* PSR@k, psnDCG@k  as ``psrecall`` and ``psndcg`` of pyxclib (github.com/kunaldahiya/pyxclib,
  xclib/evaluation/xc_metrics.py at 07eefca), ratios of sums over rows. A row adds w(hits) / |T|, or its discounted sum
  of w(hits) divided by that of min(k, |T|) ideal hits without weights, where w is the inverse propensity; the
  denominator is the same of the list that has the largest w first.

Metrics that need a threshold on scores, and precision of labels, need predictions: see `xmcbench explain METHOD` and
its `--threshold-from`.

A package adds a metric by an entry point of the group ``xmcbench.metrics``: a function of the ranks, uint8 [P], and the
``TruePairs``, that returns a fraction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray

from xmcbench.errors import PluginError, UnknownName, UsageError
from xmcbench.metrics.evaluation import Evaluation
from xmcbench.metrics.protocol import DEPTH, METRICS
from xmcbench.metrics.ranks import TruePairs

#: The entry-point group of metrics.
GROUP = "xmcbench.metrics"
_NAME = re.compile(r"([A-Za-z0-9-]+)@([1-9][0-9]*)")


@dataclass(frozen=True, eq=False)
class _Ranking:
    """The ranks of the true pairs, int [P], of one ranking. weights: inverse propensities of their labels [P]."""

    ranks: NDArray[np.integer]
    pairs: TruePairs
    weights: NDArray[np.float64]

    @cached_property
    def true(self) -> NDArray[np.int64]:
        """Number of true labels of every row with one, int64 [scored]."""
        return self.per_row(np.ones(len(self.pairs))).astype(np.int64)

    @cached_property
    def support(self) -> NDArray[np.float64]:
        """Number of true pairs of every label with one, float64."""
        return self.per_label(np.ones(len(self.pairs)))

    def per_row(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values of the pairs, float64 [P], over each row with a true label."""
        sums = np.bincount(self.pairs.rows, values, self.pairs.instances)
        return np.asarray(sums[self.pairs.lengths > 0], np.float64)

    def per_label(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values of the pairs, float64 [P], over each label with a true pair."""
        return np.asarray(np.bincount(self.pairs.labels, values)[np.bincount(self.pairs.labels) > 0], np.float64)

    def hits(self, k: int | NDArray[np.int64]) -> NDArray[np.float64]:
        """Tell of every pair whether its rank is k at most, 1 or 0, float64 [P]."""
        return ((self.ranks > 0) & (self.ranks <= k)).astype(np.float64)

    def best(self) -> _Ranking:
        """Return the ranking that has the true labels with the largest weights first."""
        ranks = np.empty(len(self.pairs), np.int64)
        order = np.lexsort((-self.weights, self.pairs.rows))
        starts = np.searchsorted(self.pairs.rows, self.pairs.rows)
        ranks[order] = np.arange(len(order)) - starts[order] + 1
        return _Ranking(ranks, self.pairs, self.weights)


def _r_precision(found: _Ranking) -> float:
    return float((found.per_row(found.hits(found.pairs.lengths[found.pairs.rows])) / found.true).mean())


def _reciprocal_rank(found: _Ranking) -> float:
    first = np.full(found.pairs.instances, np.inf)
    hit = found.ranks > 0
    np.minimum.at(first, found.pairs.rows[hit], found.ranks[hit])
    return float((1 / first).sum() / len(found.true))


def _propensity_recall(found: _Ranking, k: int) -> float:
    sums = [(of.per_row(of.hits(k) * of.weights) / of.true).sum() for of in (found, found.best())]
    return float(sums[0] / sums[1])


def _propensity_ndcg(found: _Ranking, k: int) -> float:
    ideal = np.cumsum(1 / np.log2(np.arange(k) + 2))[np.minimum(found.true, k) - 1]
    sums = []
    for ranking in (found, found.best()):
        gains = ranking.hits(k) * ranking.weights / np.log2(np.maximum(ranking.ranks.astype(np.float64), 1) + 1)
        sums.append((ranking.per_row(gains) / ideal).sum())
    return float(sums[0] / sums[1])


#: Metrics with a depth, and those without one.
_AT: dict[str, Callable[[_Ranking, int], float]] = {
    "F1": lambda found, k: float((2 * found.per_row(found.hits(k)) / (k + found.true)).mean()),
    "micro-R": lambda found, k: float(found.hits(k).mean()),
    "micro-F1": lambda found, k: float(2 * found.hits(k).sum() / (k * len(found.true) + len(found.pairs))),
    "macro-R": lambda found, k: float((found.per_label(found.hits(k)) / found.support).mean()),
    "coverage": lambda found, k: float((found.per_label(found.hits(k)) > 0).mean()),
    "hit": lambda found, k: float((found.per_row(found.hits(k)) > 0).mean()),
    "PSR": _propensity_recall,
    "psnDCG": _propensity_ndcg,
}
_WHOLE: dict[str, Callable[[_Ranking], float]] = {"R-precision": _r_precision, "MRR": _reciprocal_rank}
_WEIGHTED = ("PSR", "psnDCG")


def check_names(names: Sequence[str]) -> None:
    """Raise UnknownName for a metric that does not exist, UsageError for a depth beyond the stored ranks."""
    for name in names:
        matched = _NAME.fullmatch(name)
        if name in METRICS or name in _WHOLE or name in _plugins():
            continue
        if matched is None or matched[1] not in _AT:
            known = [*METRICS, *(f"{family}@5" for family in _AT), *_WHOLE, *_plugins()]
            raise UnknownName("metric", name, known)
        if int(matched[2]) > DEPTH:
            raise UsageError(f"{name} is deeper than the ranks", f"{DEPTH} predictions of an instance are scored")


def compute(
    names: Sequence[str],
    ranks: NDArray[np.uint8],
    pairs: TruePairs,
    inverse_propensity: NDArray[np.float64] | None = None,
) -> dict[str, float | None]:
    """Return metrics by name, of the protocol or beyond it, from the ranks of the true pairs, uint8 [P].

    None for a metric that needs ``inverse_propensity`` [L] without it, and where no row has a true label. Raises what
    ``check_names`` raises, and PluginError for a metric of a package that fails.
    """
    check_names(names)
    if not len(pairs):
        return dict.fromkeys(names)
    is_weighted = inverse_propensity is not None
    weights = np.asarray(inverse_propensity, np.float64)[pairs.labels] if is_weighted else np.ones(len(pairs))
    found, protocol = _Ranking(ranks, pairs, weights), {}
    if any(name in METRICS for name in names):
        protocol = Evaluation(pairs, inverse_propensity)(ranks).values
    return {name: protocol.get(name) if name in METRICS else _value(name, found, is_weighted) for name in names}


def _value(name: str, found: _Ranking, is_weighted: bool) -> float | None:
    if name in _WHOLE:
        return _WHOLE[name](found)
    matched = _NAME.fullmatch(name)
    if matched and matched[1] in _AT:
        return None if matched[1] in _WEIGHTED and not is_weighted else _AT[matched[1]](found, int(matched[2]))
    try:
        value = float(_plugins()[name](found.ranks, found.pairs))
    except Exception as error:  # a package of somebody else can raise anything
        raise PluginError(f"the metric {name} failed: {type(error).__name__}: {error}") from error
    if not math.isfinite(value):
        raise PluginError(f"the metric {name} gives {value}", "it must return a number")
    return value


def _plugins() -> dict[str, Callable[[NDArray[np.integer], TruePairs], float]]:
    found = {}
    for point in entry_points(group=GROUP):
        try:
            found[point.name] = point.load()
        except Exception as error:
            said = f"the metric {point.name} cannot be imported: {error}"
            raise PluginError(said, "uninstall its package") from error
    return found
