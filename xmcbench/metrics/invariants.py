"""Invariants of the metrics of any predictions, checked before a record is written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from xmcbench.errors import MethodError
from xmcbench.metrics.protocol import METRICS

#: Room for the rounding of a stored value.
_TOLERANCE = 1e-9


def check(values: Mapping[str, float]) -> None:
    """Raise MethodError, naming the violated invariant, unless these values can be the metrics of some predictions.

    ``values``: metric -> fraction. Metrics that are not there are not checked; a name outside the protocol is an error.
    """
    for name, value in values.items():
        if name not in METRICS:
            raise _violation("every metric is one of the protocol's", f"there is no {name}")
        if not math.isfinite(value):
            raise _violation("every metric is finite", f"{name} = {value}")
        if not -_TOLERANCE <= value <= 1 + _TOLERANCE:
            raise _violation("every metric lies in [0, 1]", f"{name} = {value}")
    if "P@1" in values and "nDCG@1" in values and abs(values["P@1"] - values["nDCG@1"]) > _TOLERANCE:
        raise _violation("P@1 = nDCG@1", f"P@1 = {values['P@1']}, nDCG@1 = {values['nDCG@1']}")
    _never_falls("R@k never falls in k", {name: value for name, value in values.items() if METRICS[name].family == "R"})
    _never_falls(
        "k P@k never falls in k",
        {name: METRICS[name].k * value for name, value in values.items() if METRICS[name].family == "P"},
    )


def _never_falls(invariant: str, values: Mapping[str, float]) -> None:
    in_order = sorted(values, key=lambda name: METRICS[name].k)
    for lower, upper in itertools.pairwise(in_order):
        if values[upper] < values[lower] - _TOLERANCE:
            raise _violation(invariant, f"{values[lower]} for {lower}, {values[upper]} for {upper}")


def _violation(invariant: str, seen: str) -> MethodError:
    return MethodError(
        f"metric invariant violated: {invariant}: {seen}",
        "predictions that name a label twice, or a damaged record? score the predictions again",
    )
