from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from xmcbench.metrics import bounded, flips


def verdict(difference, weight=None, seed=0):
    weights = {} if weight is None else {"x": weight}
    return bounded.verdicts({"x": np.asarray(difference, float)}, weights, seed)["x"]


@pytest.mark.parametrize(("wins", "losses"), [(1, 0), (5, 0), (6, 0), (9, 1), (12, 3), (20, 20), (30, 12)])
@pytest.mark.parametrize("ties", [0, 40])
def test_of_wins_and_losses_it_is_the_exact_sign_test(wins, losses, ties):
    found = verdict([1] * wins + [-1] * losses + [0] * ties)
    assert found.p == pytest.approx(stats.binomtest(wins, wins + losses).pvalue, abs=0.015)


def test_without_a_difference_the_interval_is_that_of_no_event_in_so_many_rows():
    """An event of which no row has one is rarer than 1 - 2.5%^(1/N), by Clopper and Pearson."""
    for rows in (10, 30, 199):
        low, high, p = verdict(np.zeros(rows))
        assert p == 1
        assert (low, high) == pytest.approx((-(1 - 0.025 ** (1 / rows)), 1 - 0.025 ** (1 / rows)), rel=0.08)


@given(
    st.lists(st.sampled_from([-1.0, -1 / 3, 0.0, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=24),
    st.integers(0, 3),
)
@settings(max_examples=50, deadline=None)
def test_p_and_interval_never_contradict_each_other(difference, seed):
    difference = np.array(difference)
    weight = 1 + np.arange(len(difference)) / 3
    low, high, p = verdict(difference * weight, weight, seed)
    assert (p < 0.05) == (not low <= 0 <= high)
    assert 0 < p <= 1
    assert -1 <= low < high <= 1
    assert verdict(-difference * weight, weight, seed) == pytest.approx((-high, -low, p))


def test_weights_are_those_of_a_ratio():
    random = np.random.RandomState(0)
    weight = random.exponential(1, 60) + 0.1
    equal = verdict(0.2 * weight, weight)
    assert equal.low < 0.2 < equal.high
    # With equal weights, the ratio is the mean.
    difference = random.choice([-1.0, 0.0, 1.0], 60)
    assert verdict(3 * difference, np.full(60, 3.0)) == pytest.approx(verdict(difference), rel=1e-12)


def test_company_does_not_change_the_numbers():
    named = {name: np.random.RandomState(name).choice([-1.0, 0.0, 1.0], 50) for name in range(5)}
    weights = {3: np.arange(1.0, 51.0)}
    whole = bounded.verdicts(named, weights, seed=4)
    assert whole[3] == bounded.verdicts({3: named[3]}, weights, seed=4)[3]
    assert whole[3] != bounded.verdicts({3: named[3]}, weights, seed=5)[3]
    assert bounded.verdicts({}, {}) == {}


@pytest.mark.parametrize("rows", [10, 30])
def test_skewed_differences_of_mean_0_are_not_called_different(rows, monkeypatch):
    """Of one method a large gain on one row in twenty, of the other a small one on one in four."""
    monkeypatch.setattr(flips, "FLIPS", 999)
    drawn = np.random.RandomState(0).choice([1, -0.2, 0], (300, rows), p=[0.05, 0.25, 0.7])
    named = dict(enumerate(drawn))
    rejected = [
        np.mean([verdict.p < 0.05 for verdict in test.verdicts(named, {}).values()]) for test in (bounded, flips)
    ]
    assert rejected[0] <= 0.05
    if rows == 30:
        assert rejected[1] > 0.15
