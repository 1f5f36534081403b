"""Slices: a planted effect is named first, and without one nothing is named more often than the level allows."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from xmcbench.errors import DataError
from xmcbench.metrics.slices import LEAST_ROWS, contrasts


def partitions(rows, random, attributes=4, groups=10):
    """Slices as an explanation has them: every attribute divides the rows into tenths."""
    slices = {}
    for attribute in range(attributes):
        place = random.permutation(rows) % groups
        slices |= {f"{attribute}: {group}": place == group for group in range(groups)}
    return slices


def differences(rows, random, changed=0.05):
    """P@1 of two equal methods that disagree on some of the rows: TF-IDF and BM25 do on a tenth of LF-Debian-20K."""
    return random.choice([-1.0, 0.0, 1.0], rows, p=[changed / 2, 1 - changed, changed / 2])


def test_a_planted_effect_of_five_points_on_a_tenth_is_named_first():
    """In nine of ten trials at least: chance adds up to 2 points to the slice itself, here and in stored results."""
    named = significant = 0
    for trial in range(10):
        random = np.random.RandomState(trial)
        slices = partitions(10_000, random)
        delta = differences(10_000, random)
        delta[np.flatnonzero(slices["2: 3"])[:50]] += 1  # 50 of 1,000 rows are 5 points
        found = contrasts(delta, slices, permutations=1_999)
        named += next(iter(found)) == "2: 3"
        significant += found["2: 3"].adjusted < 0.05
    assert named >= 9
    assert significant >= 9


@pytest.mark.parametrize("spread", ["even", "uneven"])
def test_without_an_effect_the_family_wise_error_is_at_most_five_percent(spread):
    """Also where one method is better everywhere, and where rows of one slice vary four times as much as others."""
    errors, trials = 0, 300
    for trial in range(trials):
        random = np.random.RandomState(1_000 + trial)
        slices = partitions(600, random, attributes=2)
        delta = differences(600, random, 0.1)
        if spread == "uneven":
            wild = slices["0: 0"]
            delta[wild] = differences(int(wild.sum()), random, 0.4)
        found = contrasts(delta + 0.03, slices, permutations=999)  # the least p of 20 slices is 2%
        errors += min(verdict.adjusted for verdict in found.values()) < 0.05
    # 2.5% is two standard errors of a rate of 5% over 300 trials.
    assert errors / trials <= 0.05 + 0.025


def test_the_statistic_is_welchs():
    random = np.random.RandomState(0)
    delta = random.normal(size=200)
    members = np.arange(200) < 60
    (found,) = contrasts(delta, {"first": members}, permutations=99).values()
    expected = ttest_ind(delta[members], delta[~members], equal_var=False)
    assert found.t == pytest.approx(expected.statistic, rel=1e-9)
    assert (found.rows, found.inside) == (60, pytest.approx(delta[members].mean()))
    assert found.outside == pytest.approx(delta[~members].mean())


def test_p_is_that_of_the_t_test_where_that_holds():
    random = np.random.RandomState(1)
    delta = random.normal(size=400)
    delta[:100] += 0.3
    members = np.arange(400) < 100
    (found,) = contrasts(delta, {"first": members}).values()
    assert found.p == pytest.approx(ttest_ind(delta[members], delta[~members], equal_var=False).pvalue, abs=0.004)


@pytest.mark.parametrize(("rows", "inside"), [(100, 30), (1_000, 100), (1_000, 450), (300, 50)])
@pytest.mark.parametrize(("high", "low"), [(1.0, 0.0), (1.0, -1.0), (0.3, 0.1)])
def test_a_slice_that_is_all_the_difference_is_the_clearest(rows, inside, high, low):
    """Without variation inside or outside, p was 1 or the least p, depending on rounding."""
    members = np.arange(rows) < inside
    differences = np.where(members, high, low)
    found = contrasts(differences, {"all": members}, permutations=199)["all"]
    assert found.p == pytest.approx(1 / 200)
    assert np.isfinite(found.t)
    assert np.sign(found.t) == 1


def test_small_slices_are_left_out_and_equal_rows_have_no_contrast():
    members = np.arange(100) < LEAST_ROWS - 1
    assert contrasts(np.ones(100), {"small": members, "large": ~members}) == {}
    (found,) = contrasts(np.ones(100), {"half": np.arange(100) < 50}, permutations=99).values()
    assert (found.t, found.p, found.adjusted) == (0.0, 1.0, 1.0)


def test_a_slice_of_other_rows_is_refused():
    with pytest.raises(DataError, match="'x' is of"):
        contrasts(np.ones(50), {"x": np.ones(49, bool)})


def test_the_order_is_by_evidence():
    delta = np.zeros(400)
    delta[:50], delta[100:150] = 1, -0.5
    slices = {"none": np.arange(400) >= 200, "some": np.arange(400) % 200 >= 100, "clear": np.arange(400) < 50}
    found = contrasts(delta, slices, permutations=199)
    assert next(iter(found)) == "clear"
    assert [verdict.p for verdict in found.values()] == sorted(verdict.p for verdict in found.values())


def test_a_ratio_that_is_the_same_everywhere_is_in_no_slice():
    """A method that gains a twentieth of what is attainable gains more where more is: of PSP@k that is no effect."""
    errors, trials = 0, 300
    for trial in range(trials):
        random = np.random.RandomState(2_000 + trial)
        slices = partitions(600, random, attributes=2)
        weights = np.where(slices["0: 0"], 4.0, 1.0) * (0.5 + random.random_sample(600))
        weights /= weights.mean()
        delta = weights * (differences(600, random, 0.1) + 0.3)
        found = contrasts(delta, slices, weights=weights, permutations=999)  # the least p of 20 slices is 2%
        errors += min(verdict.adjusted for verdict in found.values()) < 0.05
    assert errors / trials <= 0.05 + 0.025


def test_of_a_ratio_both_sides_are_ratios():
    random = np.random.RandomState(3)
    weights, members = 0.5 + random.random_sample(200), np.arange(200) < 60
    weights /= weights.mean()
    delta = weights * random.normal(0.1, 1, 200)
    (found,) = contrasts(delta, {"first": members}, weights=weights, permutations=99).values()
    assert found.inside == pytest.approx(delta[members].sum() / weights[members].sum())
    assert found.outside == pytest.approx(delta[~members].sum() / weights[~members].sum())
    left = delta - delta.mean() * weights
    assert found.t == pytest.approx(ttest_ind(left[members], left[~members], equal_var=False).statistic, rel=1e-9)


def test_a_slice_of_the_least_rows_is_tested_inside_and_outside():
    members = np.arange(100) < LEAST_ROWS
    differences = np.random.RandomState(0).rand(100)
    smaller = np.arange(100) < LEAST_ROWS - 1
    found = contrasts(differences, {"in": members, "out": ~members, "few": smaller, "most": ~smaller}, permutations=99)
    assert {*found} == {"in", "out"}


@pytest.mark.parametrize(("rows", "permutations"), [(2_000, 10_000), (100_001, 2_000)])
def test_the_least_p_is_that_of_the_permutations(rows, permutations):
    members = np.arange(rows) < rows // 2
    differences = members + np.random.RandomState(0).rand(rows)
    assert contrasts(differences, {"all": members})["all"].p == pytest.approx(1 / (permutations + 1), rel=1e-9)


def test_small_differences_count_as_large_ones_do():
    random = np.random.RandomState(0)
    members = np.arange(200) < 60
    differences = random.rand(200) + 0.3 * members
    large, small = (contrasts(scale * differences, {"a": members}, permutations=199)["a"] for scale in (1, 1e-5))
    assert (small.p, small.t) == (large.p, pytest.approx(large.t))
    assert abs(large.t) > 2


def test_p_by_hand_where_many_permutations_give_the_statistic():
    """One row of 40 differs. Wherever it is, the statistic is the same but for its sign."""
    members = np.arange(40) < 20
    differences = (np.arange(40) == 0).astype(float)
    assert contrasts(differences, {"half": members}, permutations=199)["half"].p == 1.0


def test_p_depends_on_the_seed_alone_and_not_on_blocks(monkeypatch):
    random = np.random.RandomState(0)
    members = random.rand(300) < 0.3
    differences = random.normal(0, 1, 300)
    whole = [contrasts(differences, {"a": members}, seed=seed, permutations=499)["a"].p for seed in (0, 1, 2)]
    assert len({*whole}) > 1
    monkeypatch.setattr("xmcbench.metrics.slices._BLOCK", 300 * 7)
    assert [contrasts(differences, {"a": members}, seed=seed, permutations=499)["a"].p for seed in (0, 1, 2)] == whole
    drawn = np.random.RandomState(1)
    left = differences - differences.mean()
    dealt = [left, *(drawn.permutation(left) for _ in range(499))]
    t = [ttest_ind(deal[members], deal[~members], equal_var=False).statistic for deal in dealt]
    assert whole[1] == np.mean(np.abs(t) >= abs(t[0]) * (1 - 1e-9))
