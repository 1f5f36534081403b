from __future__ import annotations

import math

import pytest

from xmcbench.errors import MethodError
from xmcbench.metrics import METRICS, invariants

PRECISION = {"P@1": 0.4, "P@3": 0.3, "P@5": 0.2}
RECALL = {"R@1": 0.2, "R@3": 0.3, "R@5": 0.3, "R@10": 0.5, "R@100": 0.9}
GAIN = {"nDCG@1": 0.4, "nDCG@3": 0.45, "nDCG@5": 0.41}
PROPENSITY_SCORED = {"PSP@1": 0.3, "PSP@3": 0.2, "PSP@5": 0.25}
VALUES = PRECISION | RECALL | GAIN | PROPENSITY_SCORED


def test_sound_values_pass():
    assert set(VALUES) == set(METRICS)
    invariants.check(VALUES)
    invariants.check({})
    invariants.check({"R@5": 0.3, "P@1": 0.2})
    invariants.check({**VALUES, "P@3": 0.4 / 3})  # no further hit: the product is equal


@pytest.mark.parametrize(
    ("corrupted", "named"),
    [
        ({"R@10": 0.29}, r"R@k never falls in k: 0\.3 for R@5, 0\.29 for R@10"),
        ({"R@100": 0.1}, "R@k never falls"),
        ({"nDCG@1": 0.41}, "P@1 = nDCG@1"),
        ({"P@3": 0.1}, "k P@k never falls"),
        ({"P@5": 0.1}, "k P@k never falls"),
        ({"PSP@3": 1.01}, r"lies in \[0, 1\]: PSP@3 = 1\.01"),
        ({"P@1": -0.1, "nDCG@1": -0.1}, r"lies in \[0, 1\]: P@1"),
        ({"nDCG@5": math.nan}, "every metric is finite: nDCG@5 = nan"),
        ({"R@100": math.inf}, "every metric is finite"),
        ({"F1@5": 0.3}, "one of the protocol's: there is no F1@5"),
    ],
)
def test_a_corrupted_value_is_named(corrupted, named):
    with pytest.raises(MethodError, match=named):
        invariants.check({**VALUES, **corrupted})


def test_a_difference_as_small_as_rounding_is_allowed():
    at_most = invariants._TOLERANCE
    invariants.check({"P@1": at_most, "nDCG@1": 0.0})
    invariants.check({"R@1": at_most, "R@3": 0.0})
    invariants.check({"P@1": -at_most, "R@1": 1 + at_most})
    for beyond in ({"P@1": 2 * at_most, "nDCG@1": 0.0}, {"R@1": 2 * at_most, "R@3": 0.0}, {"P@1": -2 * at_most}):
        with pytest.raises(MethodError, match="invariant"):
            invariants.check(beyond)
