"""Metrics: numbers from stored predictions. The protocol is written down in ``xmcbench.metrics.protocol``.

    scores = evaluate(predictions, truth, removed=filter_pairs, inverse_propensity=weights)
    scores.values["P@1"], scores.intervals()["P@1"].se

    differences = compare([scores], [others])
    differences["P@1"].delta, differences["P@1"].p

Only numpy is imported until a function needs scipy.
"""

from __future__ import annotations

from xmcbench.metrics import filters, invariants
from xmcbench.metrics.bootstrap import Interval
from xmcbench.metrics.corrections import holm
from xmcbench.metrics.evaluation import Scores, evaluate, evaluate_ranks
from xmcbench.metrics.paired import Difference, compare
from xmcbench.metrics.propensity import inverse_propensity, label_frequency
from xmcbench.metrics.protocol import DEPTH, METRICS, SUMMARY, VERSION, Metric
from xmcbench.metrics.ranks import true_ranks
from xmcbench.metrics.seeds import half_width
from xmcbench.metrics.true_pairs import TruePairs
from xmcbench.metrics.views import label_views

__all__ = [
    "DEPTH",
    "METRICS",
    "SUMMARY",
    "VERSION",
    "Difference",
    "Interval",
    "Metric",
    "Scores",
    "TruePairs",
    "compare",
    "evaluate",
    "evaluate_ranks",
    "filters",
    "half_width",
    "holm",
    "invariants",
    "inverse_propensity",
    "label_frequency",
    "label_views",
    "true_ranks",
]
