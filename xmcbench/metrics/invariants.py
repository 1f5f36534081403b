"""Invariants of the metrics of any predictions, checked before a record is written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from xmcbench.errors import MethodError
from xmcbench.metrics.protocol import METRICS

#: Room for the rounding of a stored value.
_TOLERANCE = 1e-9
#: The metrics that never fall in k, and k P@k, which never does either: (invariant, metric -> its factor, by k).
_RISING = (
    ("R@k never falls in k", {name: 1 for name, metric in METRICS.items() if metric.family == "R"}),
    ("k P@k never falls in k", {name: metric.k for name, metric in METRICS.items() if metric.family == "P"}),
)


def check(values: Mapping[str, float]) -> None:
    """Raise MethodError, naming the violated invariant, unless these values can be the metrics of some predictions.

    ``values``: metric -> fraction. Metrics that are not there are not checked; a name outside the protocol is an error.
    """
    for name, value in values.items():
        if name not in METRICS:
            raise _violation("every metric is one of the protocol's", f"there is no {name}")
        if not -_TOLERANCE <= value <= 1 + _TOLERANCE:
            invariant = "lies in [0, 1]" if math.isfinite(value) else "is finite"
            raise _violation(f"every metric {invariant}", f"{name} = {value}")
    if "P@1" in values and "nDCG@1" in values and abs(values["P@1"] - values["nDCG@1"]) > _TOLERANCE:
        raise _violation("P@1 = nDCG@1", f"P@1 = {values['P@1']}, nDCG@1 = {values['nDCG@1']}")
    for invariant, factors in _RISING:
        present = [(name, factor * values[name]) for name, factor in factors.items() if name in values]
        for (lower, low), (upper, high) in itertools.pairwise(present):
            if high < low - _TOLERANCE:
                raise _violation(invariant, f"{low} for {lower}, {high} for {upper}")


def _violation(invariant: str, seen: str) -> MethodError:
    return MethodError(
        f"metric invariant violated: {invariant}: {seen}",
        "predictions that name a label twice, or a damaged record? score the predictions again",
    )
