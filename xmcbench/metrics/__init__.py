"""Metrics: numbers from stored predictions. The protocol is written down in ``xmcbench.metrics.protocol``.

    pairs = TruePairs.of(truth)
    scores = Evaluation(pairs, weights)(true_ranks(predictions.indices, pairs, filter_pairs))
    scores.values["P@1"], scores.intervals()["P@1"].se

    differences = compare([scores], [others])
    differences["P@1"].delta, differences["P@1"].p

Only numpy is imported until a function needs scipy.
"""

from __future__ import annotations

from xmcbench.metrics import invariants
from xmcbench.metrics.bootstrap import Interval
from xmcbench.metrics.evaluation import Evaluation, Scores
from xmcbench.metrics.labels import inverse_propensity, label_frequency, label_groups
from xmcbench.metrics.paired import Difference, compare, holm
from xmcbench.metrics.protocol import DEPTH, METRICS, VERSION, Metric
from xmcbench.metrics.ranks import TruePairs, true_ranks
from xmcbench.metrics.seeds import half_width

__all__ = [
    "DEPTH",
    "METRICS",
    "VERSION",
    "Difference",
    "Evaluation",
    "Interval",
    "Metric",
    "Scores",
    "TruePairs",
    "compare",
    "half_width",
    "holm",
    "invariants",
    "inverse_propensity",
    "label_frequency",
    "label_groups",
    "true_ranks",
]
