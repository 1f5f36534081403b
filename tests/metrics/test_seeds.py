from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from xmcbench.metrics import flips, half_width, seeds
from xmcbench.metrics.paired import holm
from xmcbench.metrics.seeds import BehrensFisher

ROWS = 500
ONES = np.ones(ROWS)


def equal_variance_degrees(numbers):
    """Satterthwaite's degrees of freedom of a sum of variances v / n, with the same v for all."""
    return sum(1 / n for n in numbers) ** 2 / sum((1 / n) ** 2 / (n - 1) for n in numbers)


def literal(first, second, weight, matched):
    """The test as its docstring words it, one row and one run at a time.

    Returns the difference, and the variance and degrees of freedom of the seeds and of the rows.
    """
    rows = len(weight)

    def mean_squares(runs):
        values = [sum(run) / rows for run in runs]
        middle = sum(values) / len(runs)
        between = sum((value - middle) ** 2 for value in values) / (len(runs) - 1)
        both = 0.0
        for run, value in zip(runs, values, strict=True):
            for row in range(rows):
                of_row = sum(other[row] for other in runs) / len(runs)
                both += (run[row] - of_row - (value - middle) * weight[row]) ** 2
        return len(runs), between, both / ((len(runs) - 1) * (rows - 1))

    sides = [[a - b for a, b in zip(first, second, strict=True)]] if matched else [first, second]
    found = [mean_squares(side) for side in sides if any((run != side[0]).any() for run in side)]
    of_seeds = sum(between / n for n, between, _ in found)
    freedom = equal_variance_degrees([n for n, _, _ in found])
    both = sum(value / n for n, _, value in found)
    by_row = sum(first) / len(first) - sum(second) / len(second)
    delta = sum(by_row) / rows
    between_rows = sum((by_row[row] - delta * weight[row]) ** 2 for row in range(rows)) / (rows - 1)
    of_rows = (between_rows - both) / rows if between_rows > both else 0.0
    return delta, of_seeds, freedom, of_rows, rows - 1


def two_tails(distance, of_seeds, freedom, of_rows, others):
    """The probability that the sum of two Student's t, times their standard errors, is that far out: a convolution."""
    if not of_rows:
        return 2 * stats.t.sf(distance / math.sqrt(of_seeds), freedom)
    turns = np.linspace(-np.pi / 2, np.pi / 2, 200_002)[1:-1]  # t = tan(turn), so that the tails are in a finite range
    density = stats.t.pdf(np.tan(turns), others) / np.cos(turns) ** 2
    beyond = stats.t.sf((distance - math.sqrt(of_rows) * np.tan(turns)) / math.sqrt(of_seeds), freedom)
    return 2 * trapezoid(density * beyond, turns)


def hits(random, chance, effects, rows=ROWS):
    """Runs [n, rows] of a method that finds row i with the given log-odds, moved by each seed's effect."""
    odds = chance[None, :rows] + np.asarray(effects)[:, None]
    return (random.random_sample(odds.shape) < 1 / (1 + np.exp(-odds))).astype(float)


@pytest.mark.parametrize("matched", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("other", ["itself", "another", "deterministic"])
def test_equals_the_test_written_out(matched, spread, weighted, other):
    random = np.random.RandomState(3)
    rows = 40
    chance = random.normal(-0.5, 2, rows)
    numbers = (3, 3) if matched else (3, 5)
    first = hits(random, chance, random.normal(0, spread, numbers[0]), rows)
    chance = random.normal(-0.5, 2, rows) if other == "another" else chance
    second = hits(random, chance, random.normal(0, spread, numbers[1]), rows)
    if other == "deterministic":
        second = np.repeat(second[:1], numbers[1], axis=0)
    weight = 0.5 + random.random_sample(rows) if weighted else np.ones(rows)
    weight /= weight.mean()
    low, high, p = seeds.verdict(first, second, weight, matched)
    delta, *variances = literal(first, second, weight, matched)
    assert (low + high) / 2 == pytest.approx(delta, rel=1e-9)
    assert two_tails((high - low) / 2, *variances) == pytest.approx(0.05, rel=1e-4)
    assert p == pytest.approx(two_tails(abs(delta), *variances), rel=1e-4)
    assert (p < 0.05) == (not low <= 0 <= high)


def test_where_rows_do_not_differ_it_is_students_test():
    """With the difference of the same size in every row, only the values of the runs are left."""
    random = np.random.RandomState(1)
    common = random.random_sample(ROWS)
    first, second = (common + random.normal(0, 0.1, (3, 1)) for _ in range(2))
    for matched, test in ((False, stats.ttest_ind), (True, stats.ttest_rel)):
        low, high, p = seeds.verdict(first, second, ONES, matched)
        expected = test(first.mean(axis=1), second.mean(axis=1))
        assert p == pytest.approx(expected.pvalue)
        assert (low, high) == pytest.approx(tuple(expected.confidence_interval()))


def test_sides_of_different_numbers_of_runs_keep_their_own_variances():
    random = np.random.RandomState(1)
    common = random.random_sample(ROWS)
    first, second = (common + random.normal(0, 0.1, (n, 1)) for n in (2, 6))
    t = stats.ttest_ind(first.mean(axis=1), second.mean(axis=1), equal_var=False).statistic
    expected = 2 * stats.t.sf(abs(t), equal_variance_degrees([2, 6]))
    assert seeds.verdict(first, second, ONES, False).p == pytest.approx(expected)
    assert seeds.verdict(second, first, ONES, False).p == pytest.approx(expected)


def test_where_seeds_hardly_matter_it_is_the_test_over_rows():
    random = np.random.RandomState(2)
    difference = random.normal(0.1, 1, ROWS)
    first, second = (mean + random.normal(0, 1e-4, (3, 1)) for mean in (difference, np.zeros(ROWS)))
    expected = stats.ttest_1samp(difference, 0)
    low, high, p = seeds.verdict(first, second, ONES, False)
    assert p == pytest.approx(expected.pvalue, rel=0.01)
    assert (low, high) == pytest.approx(tuple(expected.confidence_interval()), rel=0.01)


def test_matched_seeds_share_what_moves_both():
    """A subset that is hard for both methods moves both: only the differences run by run leave it out."""
    random = np.random.RandomState(5)
    chance, subsets = random.normal(-0.5, 2, ROWS), random.normal(0, 1, 5)
    first, second = hits(random, chance, subsets + 0.4), hits(random, chance, subsets)
    assert seeds.verdict(first, second, ONES, True).p < 0.05 < seeds.verdict(first, second, ONES, False).p


def test_runs_that_differ_but_reach_one_value():
    """Their values look as if the seed did not matter; the rows show that it does."""
    first = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    second = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    low, high, p = seeds.verdict(first, second, np.ones(4), False)
    both = [((runs - runs.mean(axis=0)) ** 2).sum() / (2 * 3) for runs in (first, second)]
    half = stats.t.ppf(0.975, 4) * math.sqrt(sum(both) / 3 / 4)
    assert (low, high) == pytest.approx((-0.25 - half, -0.25 + half))
    assert 0.05 < p < 1


def test_a_single_row():
    first, second = np.array([[0.1], [0.3], [0.2]]), np.array([[0.2], [0.4], [0.9]])
    assert seeds.verdict(first, second, np.ones(1), False).p == pytest.approx(
        stats.ttest_ind(first[:, 0], second[:, 0]).pvalue
    )


def test_vary():
    assert not seeds.vary(np.ones((1, 3)))
    assert not seeds.vary(np.ones((4, 3)))
    assert seeds.vary(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.1]]))


def tie(random, n, *, seeds_of_first=0.0, seeds_of_second=None, others=False, subsets=0.0):
    """Scores of two methods of equal skill, n runs each [n, rows].

    The effects of seeds are standard deviations of log-odds. ``others``: the second method finds other rows. A second
    effect of None is the first one again, one of -1 a deterministic method.
    """
    chance = random.normal(-0.5, 2, ROWS)
    of_subsets = random.normal(0, subsets, n)
    spread = seeds_of_first if seeds_of_second is None else seeds_of_second
    first = hits(random, chance, of_subsets + random.normal(0, seeds_of_first, n))
    chance = random.normal(-0.5, 2, ROWS) if others else chance
    if spread < 0:
        return first, np.repeat(hits(random, chance, np.zeros(1)), n, axis=0)
    return first, hits(random, chance, of_subsets + random.normal(0, spread, n))


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize(
    ("matched", "kind"),
    [
        pytest.param(False, {}, id="itself, seeds without an effect of their own"),
        pytest.param(False, {"seeds_of_first": 0.1}, id="itself, small effect"),
        pytest.param(False, {"seeds_of_first": 1.0}, id="itself, large effect"),
        pytest.param(True, {"seeds_of_first": 0.1, "subsets": 1.0}, id="itself, matched subsets"),
        pytest.param(True, {"seeds_of_first": 0.15, "others": True}, id="another method, matched"),
        pytest.param(False, {"seeds_of_first": 0.15, "others": True}, id="another method"),
    ],
)
def test_ties_are_called_different_as_often_as_promised(matched, kind, runs):
    """At most 5% of comparisons without a true difference have p < 0.05, and 0.25% p < 0.0025.

    In 2,000 comparisons the standard errors of these rates are 0.5% and 0.11%.
    """
    random = np.random.RandomState(runs)
    found = [seeds.verdict(*tie(random, runs, **kind), ONES, matched) for _ in range(2_000)]
    p = np.array([verdict.p for verdict in found])
    assert {2: 0.008, 3: 0.02, 5: 0.03}[runs] <= np.mean(p < 0.05) <= 0.06
    assert np.mean(p < 0.0025) <= 0.005
    assert np.mean(p < 0.05) == np.mean([not verdict.low <= 0 <= verdict.high for verdict in found])


@pytest.mark.parametrize("runs", [2, 3])
def test_twenty_metrics_of_a_tie_seldom_have_a_significant_one(runs):
    """With Holm's correction of 20 metrics of equal methods, one is called different in at most 5% of comparisons."""
    random = np.random.RandomState(runs)
    wrong = 0
    for _ in range(400):
        p = {metric: seeds.verdict(*draw_matched(random, runs), ONES, matched=True).p for metric in range(20)}
        wrong += min(holm(p).values()) < 0.05
    assert wrong / 400 <= 0.08  # two standard errors above 5% are 7.2%


def draw_matched(random, runs):
    """Scores of equal methods, whose difference varies 5 times as much over seeds as over rows (25 times as variances).

    Two or three values seldom, but often enough, look as if the seed did not matter.
    """
    of_seeds, both = random.normal(0, 5 / ROWS**0.5, (runs, 1)), random.normal(0, 0.3, (runs, ROWS))
    return of_seeds + random.normal(0, 1, ROWS) + both, np.zeros((runs, ROWS))


@pytest.mark.parametrize(
    ("runs", "kind", "most"),
    [
        pytest.param(3, {"seeds_of_first": 0.1, "seeds_of_second": -1, "others": True}, 0.06, id="deterministic"),
        pytest.param(3, {"seeds_of_first": 0.4, "seeds_of_second": 0.1}, 0.09, id="one varies four times as much"),
        pytest.param(5, {"seeds_of_first": 0.4, "seeds_of_second": 0.1}, 0.08, id="that, with five runs"),
    ],
)
def test_sides_of_unequal_variance(runs, kind, most):
    """If the seeds of one side matter four times as much, the level is 8% and 7%, as documented."""
    random = np.random.RandomState(runs)
    found = [seeds.verdict(*tie(random, runs, **kind), ONES, False) for _ in range(2_000)]
    assert 0.02 <= np.mean([verdict.p < 0.05 for verdict in found]) <= most


def test_a_ratio_of_sums_is_tested_as_often_as_promised():
    random = np.random.RandomState(12)
    rejected = []
    for _ in range(2_000):
        weight = 1 + np.exp(random.normal(0, 0.7, ROWS))
        weight /= weight.mean()
        first, second = tie(random, 3, seeds_of_first=0.1, others=True)
        rejected.append(seeds.verdict(first * weight, second * weight, weight, False).p < 0.05)
    assert 0.02 <= np.mean(rejected) <= 0.06


def test_a_test_over_rows_alone_would_not_do():
    """Run against run, a test over rows mistakes the luck of a seed for a better method."""
    random = np.random.RandomState(9)
    pairs = [tie(random, 1, seeds_of_first=1.0) for _ in range(200)]
    differences = {name: first[0] - second[0] for name, (first, second) in enumerate(pairs)}
    assert np.mean([verdict.p < 0.05 for verdict in flips.verdicts(differences, {}).values()]) > 0.5


def test_half_width_by_hand():
    """Half-widths of 1.96 standard errors of 0.02 on average, values with a variance of 0.0003 in three runs."""
    values, widths = [0.30, 0.33, 0.30], [1.959963984540054 * error for error in (0.01, 0.02, 0.03)]
    of_rows, of_seeds = 0.02**2, 0.0003 / 3
    width = half_width(values, widths)
    assert two_tails(width, of_seeds, 2, of_rows, 1e9) == pytest.approx(0.05, rel=1e-5)


def test_half_width_without_spread_is_that_over_rows():
    assert half_width([0.3], [0.02]) == 0.02
    assert half_width([0.3, 0.3, 0.3], [0.01, 0.02, 0.03]) == pytest.approx(0.02)
    assert half_width([0.1, 0.3], [0.0, 0.0]) == pytest.approx(stats.t.ppf(0.975, 1) * 0.1)
    assert half_width([0.3, 0.3 + 1e-16], [0.0, 0.0]) == 0.0


@pytest.mark.parametrize(("spread", "least", "most"), [(0.0, 0.98, 1.0), (0.2, 0.95, 0.99), (1.0, 0.94, 0.97)])
def test_half_width_covers_the_true_value(spread, least, most):
    """Two-way scores with all three variances, three runs. Where the seed has no effect of its own it is too wide."""
    random = np.random.RandomState(6)
    covered = []
    for _ in range(3_000):
        runs = random.normal(0, 1, 100) + random.normal(0, spread, (3, 1)) + random.normal(0, 0.7, (3, 100))
        widths = 1.96 * runs.std(axis=1, ddof=1) / 10
        covered.append(abs(runs.mean()) <= half_width(runs.mean(axis=1), widths))
    assert least <= np.mean(covered) <= most


def test_a_small_spread_over_seeds_is_not_taken_for_rounding():
    assert seeds.half_width([0.5, 0.5 + 1e-7], [0.0, 0.0]) > 1e-7
    assert seeds.half_width([0.5, 0.5 + 1e-16], [0.01, 0.03]) == 0.02


@pytest.mark.parametrize("matched", [False, True])
def test_two_rows_are_enough(matched):
    first, second = np.array([[1.0, 0.25], [0.5, 0.0]]), np.array([[0.0, 0.75], [0.25, 1.0]])
    low, high, p = seeds.verdict(first, second, np.ones(2), matched)
    delta, *variances = literal(first, second, np.ones(2), matched)
    assert (low + high) / 2 == pytest.approx(delta)
    assert two_tails((high - low) / 2, *variances) == pytest.approx(0.05, rel=1e-3)
    assert p == pytest.approx(two_tails(abs(delta), *variances), rel=1e-3)


def test_values_that_differ_little_are_not_rounded_to_equal_ones():
    """Rows that differ alike, and values of the runs 1e-7 apart: Student's test of these values."""
    first = np.linspace(0, 1, 50) + 1e-7 * np.array([[0.0], [1.0], [2.0]])
    found = seeds.verdict(first, np.linspace(0, 1, 50)[None], np.ones(50), False)
    assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.975, 2) * 1e-7 / math.sqrt(3), rel=1e-4)


@pytest.mark.parametrize(("apart", "varies"), [(5e-13, False), (1e-12, False), (2e-12, True)])
def test_runs_that_differ_by_rounding_do_not_vary(apart, varies):
    assert seeds.vary(np.array([[0.0, 0.5], [apart, 0.5]])) is varies


def test_the_integral_reaches_both_ends():
    """With one degree of freedom on both sides what is far out is not rare."""
    assert seeds.WEIGHTS.sum() == pytest.approx(1, rel=1e-14)
    # Two Cauchy variables: their sum is one of twice the scale.
    error = BehrensFisher(1.0, 1, 1.0, 1)
    for distance, exact in ((1.0, 1e-12), (100.0, 1e-12), (1e4, 1e-8)):
        assert error.tail(distance) == pytest.approx(2 * stats.cauchy.sf(distance / 2), rel=exact)
