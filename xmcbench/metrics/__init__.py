"""Metrics: numbers from stored predictions. The protocol is written down in ``xmcbench.metrics.protocol``.

    scores = evaluate(predictions, truth, removed=filter_pairs, inverse_propensity=weights)
    scores.values["P@1"], scores.intervals()["P@1"].se

Only numpy is imported until a function needs scipy.
"""

from __future__ import annotations

from xmcbench.metrics import filters, invariants
from xmcbench.metrics.bootstrap import Interval
from xmcbench.metrics.evaluation import Scores, evaluate, evaluate_ranks
from xmcbench.metrics.propensity import inverse_propensity, label_frequency
from xmcbench.metrics.protocol import DEPTH, METRICS, SUMMARY, VERSION, Metric
from xmcbench.metrics.ranks import true_ranks
from xmcbench.metrics.true_pairs import TruePairs
from xmcbench.metrics.views import label_views

__all__ = [
    "DEPTH",
    "METRICS",
    "SUMMARY",
    "VERSION",
    "Interval",
    "Metric",
    "Scores",
    "TruePairs",
    "evaluate",
    "evaluate_ranks",
    "filters",
    "invariants",
    "inverse_propensity",
    "label_frequency",
    "label_views",
    "true_ranks",
]
