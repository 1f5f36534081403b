from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from xmcbench.metrics import bounded, flips


def verdict(difference, weight=None, seed=0):
    weights = {} if weight is None else {"x": weight}
    return flips.verdicts({"x": difference}, weights, seed)["x"]


def draw(rows, seed):
    """Differences with many zeros, and weights."""
    random = np.random.RandomState(seed)
    difference = np.where(random.random_sample(rows) < 0.5, random.normal(0.3, 1, rows), 0)
    return difference, 0.5 + random.random_sample(rows)


def try_every_sign(difference):
    sums = [np.dot(signs, difference) for signs in itertools.product((1, -1), repeat=len(difference))]
    return np.mean([abs(flipped) >= abs(difference.sum()) - 1e-12 for flipped in sums])


def test_p_is_that_of_drawn_flips():
    difference = np.random.RandomState(5).normal(0.4, 1, 15)
    p = verdict(difference).p
    assert p != verdict(difference, seed=1).p
    assert p * 10_001 == pytest.approx(round(p * 10_001))
    assert p == pytest.approx(try_every_sign(difference), abs=0.01)


def test_p_is_never_zero():
    assert verdict(np.ones(100)).p == 1 / 10_001


def test_flips_of_many_rows(monkeypatch):
    monkeypatch.setattr(flips, "_MANY_ROWS", 100)
    assert verdict(np.ones(100)).p == 1 / 10_001
    assert verdict(np.ones(101)).p == 1 / 2_001


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [15, 60, 300])
def test_the_interval_holds_what_the_test_does_not_reject(rows, weighted):
    """The same flips, asked about the difference less t: inside p is at least 0.05, outside it is less."""
    for seed in range(3):
        difference, weight = draw(rows, seed + rows)
        weight = weight if weighted else np.ones(rows)
        low, high, _ = verdict(difference, weight)
        assert low <= difference.sum() / weight.sum() <= high
        for t, inside in ((low - 1e-7, False), (low + 1e-7, True), (high - 1e-7, True), (high + 1e-7, False)):
            assert (verdict(difference - t * weight, weight).p >= 0.05) == inside


def test_without_weights_the_value_is_the_mean():
    difference, _ = draw(60, 3)
    assert verdict(difference) == pytest.approx(verdict(difference, np.ones(60)), rel=1e-12)


@given(
    st.lists(st.sampled_from([-1.0, -1 / 3, 0.0, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=24),
    st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_p_and_interval_never_contradict_each_other(difference, seed):
    difference = np.array(difference)
    low, high, p = verdict(difference, 1 + np.arange(len(difference)) / 3, seed)
    assert (p < 0.05) == (not low <= 0 <= high)
    assert 0 < p <= 1
    opposite = verdict(-difference, 1 + np.arange(len(difference)) / 3, seed)
    assert opposite == pytest.approx((-high, -low, p))


def test_one_in_twenty_flips_is_not_below_the_level():
    """Of 20 flips one as far, itself, is p = 0.05, which does not reject: 0 is in the interval."""
    sums = np.concatenate([[10.0], np.linspace(-9, 9, 19)])
    weights = np.concatenate([[20.0], np.linspace(-1, 1, 19)])
    at_level = flips._verdict(sums, weights, 0.0, 0.0)
    assert at_level.p == 1 / 20
    assert at_level.low == -np.inf
    below = flips._verdict(np.append(sums, 0.5), np.append(weights, 0.5), 0.0, 0.0)
    assert below.p == 1 / 21
    assert below.low > 0


def test_no_difference_is_certain():
    for rows in (30, 400):
        found = verdict(np.zeros(rows))
        assert found == (0.0, 0.0, 1.0)
        assert str(found.low) == str(found.high) == "0.0"


def test_rounding_does_not_make_a_difference():
    """0.1 + 0.2 is not 0.3; a flip that gives the same sum but for that counts as equally far."""
    difference = np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3])
    assert verdict(difference).p == 1.0
    assert verdict(np.tile(difference, 5)).p == 1.0
    few = np.array([0.1, 0.2, 0.3, 0.3, -0.1, 0.2])
    assert verdict(few).p == pytest.approx(try_every_sign(few), abs=0.01)


def test_every_sign_flipped_by_chance_is_as_far_from_everything():
    """A drawn flip of all rows, or of none, has no difference in weights; with 15 rows and few flips it is certain."""
    difference, weight = draw(15, 1)
    columns = np.column_stack([difference, weight])
    sums = np.vstack([columns.sum(axis=0), flips._flip(columns, 0)[1:40], -columns.sum(axis=0)])
    found = flips._verdict(sums[:, 0], sums[:, 1], 1e-12, 1e-12)
    assert np.isfinite(found).all()  # two of 41 are needed, and two are everywhere
    more = np.vstack([sums, columns.sum(axis=0)])
    assert flips._verdict(more[:, 0], more[:, 1], 1e-12, 1e-12).low == -np.inf


def test_memory_and_company_do_not_change_the_numbers(monkeypatch):
    named = {name: draw(400, name)[0] for name in range(5)}
    weights = {3: draw(400, 3)[1]}
    whole = flips.verdicts(named, weights)
    alone = flips.verdicts({3: named[3]}, weights)[3]
    assert alone == pytest.approx(whole[3], rel=1e-12)
    assert alone.p == whole[3].p
    monkeypatch.setattr(flips, "_BLOCK", 3 * 400)
    for name, found in flips.verdicts(named, weights).items():
        assert found == pytest.approx(whole[name], rel=1e-12)
        assert found.p == whole[name].p


def test_nothing_to_test():
    assert flips.verdicts({}, {}) == {}
    assert flips.verdicts({"x": np.empty(0)}, {}) == {}


def test_ties_are_called_different_as_often_as_promised():
    """1,000 pairs of runs of equal skill: 4 to 6% have a p-value below 0.05, and as many an interval without zero."""
    random = np.random.RandomState(11)
    hard = random.beta(1, 2, (400, 1))  # rows differ, and both runs meet the same ones
    first, second = (random.binomial(5, hard, (400, 1_000)) / 5 for _ in range(2))
    found = flips.verdicts(dict(enumerate((first - second).T)), {}).values()
    rejected = [verdict.p < 0.05 for verdict in found]
    assert 0.04 <= np.mean(rejected) <= 0.06
    assert rejected == [not verdict.low <= 0 <= verdict.high for verdict in found]


def test_the_interval_covers_a_difference_as_often_as_promised():
    """1,000 pairs in which the first run finds one in ten of what the second one misses."""
    random = np.random.RandomState(4)
    second = random.binomial(1, 0.4, (1_000, 1_000))
    gained = (second == 0) & (random.random_sample(second.shape) < 0.1)
    found = flips.verdicts(dict(enumerate(gained.T.astype(float))), {}).values()
    assert 0.935 <= np.mean([verdict.low <= 0.06 <= verdict.high for verdict in found]) <= 0.965


@pytest.mark.parametrize("rows", [15, 31, 32, 33, 64, 65])
def test_every_row_is_flipped_in_half_of_the_flips(rows):
    signs = flips._flip(np.eye(rows), 0)
    assert (signs[0] == 1).all()
    assert {*np.unique(signs)} == {-1.0, 1.0}
    assert np.abs((signs < 0).mean(axis=0) - 0.5).max() < 0.03
    assert len(np.unique(signs, axis=0)) > 0.8 * min(len(signs), 2 ** (rows - 1))


def test_the_size_of_a_block_changes_nothing(monkeypatch):
    columns = np.random.RandomState(0).rand(40, 2)
    whole = flips._flip(columns, 3)
    for block in (1, 39, 40, 40 * 999):
        monkeypatch.setattr(flips, "_BLOCK", block)
        assert flips._flip(columns, 3) == pytest.approx(whole, rel=1e-12)


def bounded_verdict(difference, weight=None, seed=0):
    weights = {} if weight is None else {"x": weight}
    return bounded.verdicts({"x": np.asarray(difference, float)}, weights, seed)["x"]


@pytest.mark.parametrize(("wins", "losses"), [(1, 0), (5, 0), (6, 0), (9, 1), (12, 3), (20, 20), (30, 12)])
@pytest.mark.parametrize("ties", [0, 40])
def test_of_wins_and_losses_it_is_the_exact_sign_test(wins, losses, ties):
    found = bounded_verdict([1] * wins + [-1] * losses + [0] * ties)
    assert found.p == pytest.approx(stats.binomtest(wins, wins + losses).pvalue, abs=0.015)


def test_without_a_difference_the_interval_is_that_of_no_event_in_so_many_rows():
    """An event of which no row has one is rarer than 1 - 2.5%^(1/N), by Clopper and Pearson."""
    for rows in (10, 30, 199):
        low, high, p = bounded_verdict(np.zeros(rows))
        assert p == 1
        assert (low, high) == pytest.approx((-(1 - 0.025 ** (1 / rows)), 1 - 0.025 ** (1 / rows)), rel=0.08)


@given(
    st.lists(st.sampled_from([-1.0, -1 / 3, 0.0, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=24),
    st.integers(0, 3),
)
@settings(max_examples=50, deadline=None)
def test_p_and_interval_of_bounded_differences_never_contradict_each_other(difference, seed):
    difference = np.array(difference)
    weight = 1 + np.arange(len(difference)) / 3
    low, high, p = bounded_verdict(difference * weight, weight, seed)
    assert (p < 0.05) == (not low <= 0 <= high)
    assert 0 < p <= 1
    assert -1 <= low < high <= 1
    assert bounded_verdict(-difference * weight, weight, seed) == pytest.approx((-high, -low, p))


def test_weights_are_those_of_a_ratio():
    random = np.random.RandomState(0)
    weight = random.exponential(1, 60) + 0.1
    equal = bounded_verdict(0.2 * weight, weight)
    assert equal.low < 0.2 < equal.high
    # With equal weights, the ratio is the mean.
    difference = random.choice([-1.0, 0.0, 1.0], 60)
    assert bounded_verdict(3 * difference, np.full(60, 3.0)) == pytest.approx(bounded_verdict(difference), rel=1e-12)


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
        np.mean([bounded_verdict.p < 0.05 for bounded_verdict in test.verdicts(named, {}).values()])
        for test in (bounded, flips)
    ]
    assert rejected[0] <= 0.05
    if rows == 30:
        assert rejected[1] > 0.15
