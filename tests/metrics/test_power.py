"""Power: what is said to show a difference at 80% shows it in 78 to 82% of simulated comparisons."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from xmcbench.errors import DataError
from xmcbench.metrics import bounded, flips, seeds
from xmcbench.metrics.power import Spread, spread
from xmcbench.records import Store
from xmcbench.runner.scoring import evaluations

BOARD = Store(Path(__file__).parents[2] / "leaderboards")
TRIALS = 4_000


@pytest.fixture(scope="module")
def precisions():
    """P@1 of every run of BM25, TF-IDF and XR-Linear on LF-Debian-20K without pairs, float64 [runs, instances]."""
    found = {}
    for record in BOARD.records():
        cell = record.cell
        if (cell.dataset, cell.setting.kind) == ("LF-Debian-20K", "ez"):
            (scores,) = evaluations([record], BOARD, "self")
            found.setdefault(record.name, []).append(scores.per_instance["P@1"])
    return {name: np.stack(runs) for name, runs in found.items()}


def test_over_instances_it_holds(precisions, monkeypatch):
    monkeypatch.setattr(flips, "FLIPS", 1_999)
    one, other = precisions["TF-IDF"], precisions["BM25"]
    found = spread(one, other, np.ones(one.shape[1]))
    assert found.sides == ()
    rows = found.rows_needed(0.05, 1)
    assert rows == pytest.approx(
        7.85 * found.row / 0.0025, rel=0.02
    )  # (1.96 + 0.84)^2 in the formula for normal values
    delta = (one - other)[0]
    random = np.random.RandomState(0)
    hits = 0
    for trial in range(TRIALS):
        drawn = random.choice(delta, rows) - delta.mean() + 0.05
        hits += flips.verdicts({"P@1": drawn}, {}, seed=trial)["P@1"].p < 0.05
    assert 0.78 <= hits / TRIALS <= 0.82


@pytest.mark.parametrize("runs", [3, 5])
def test_over_seeds_and_instances_it_holds(precisions, runs):
    """Rows are drawn from stored results; seeds vary as those of XR-Linear with all pairs do, twice as much."""
    one, other = precisions["XR-Linear"], precisions["TF-IDF"]
    measured = spread(one, other, np.ones(one.shape[1]))
    ((_, both),) = measured.sides
    assert measured.row > 0.1
    found = Spread(measured.row, ((0.0004, both),), measured.rows)
    difference = 0.1 if runs == 3 else 0.06
    rows = found.rows_needed(difference, runs)
    assert rows < 2_000
    delta = (one.mean(axis=0) - other[0]) - (one.mean() - other.mean())
    delta *= np.sqrt(found.row / delta.var())
    random = np.random.RandomState(runs)
    hits = 0
    for _ in range(TRIALS):
        noise = random.normal(0, 0.02, (runs, 1)) + random.normal(0, np.sqrt(both), (runs, rows))
        first = random.choice(delta, rows) + noise + difference
        hits += seeds.verdict(first, np.zeros((1, rows)), np.ones(rows), matched=False).p < 0.05
    assert 0.78 <= hits / TRIALS <= 0.82


def test_with_two_seeds_it_is_a_few_points_less():
    """The critical value moves most with the variance of two values, where seeds are a fifth of the whole."""
    rows, share = 500, 0.2
    found = Spread(1e-4 * rows * (1 - share), ((2e-4 * share, 0.0),), rows)
    assert found.error(rows, 2) == pytest.approx(0.01)
    difference = found.detectable(rows, 2)
    random = np.random.RandomState(0)
    hits = 0
    for _ in range(TRIALS):
        of_seeds = random.normal(0, np.sqrt(found.sides[0][0]), (2, 1))
        first = of_seeds + random.normal(0, np.sqrt(found.row), rows) + difference
        hits += seeds.verdict(first, np.zeros((1, rows)), np.ones(rows), matched=False).p < 0.05
    assert 0.74 <= hits / TRIALS <= 0.80


def test_variances_are_those_that_made_the_scores():
    random = np.random.RandomState(0)
    rows, runs = 2_000, 40
    shared = random.normal(0, 1, rows)
    sides = []
    for _ in range(2):
        of_seed = random.normal(0, 0.1, (runs, 1))
        sides.append(shared + random.normal(0, 0.5, rows) + of_seed + random.normal(0, 0.7, (runs, rows)))
    found = spread(*sides, np.ones(rows))
    assert found.row == pytest.approx(0.5, rel=0.1)  # what is shared cancels, 0.25 of each side stays
    for of_seed, both in found.sides:
        assert of_seed == pytest.approx(0.01, rel=0.45)
        assert both == pytest.approx(0.49, rel=0.03)
    assert found.error(rows, runs) ** 2 == pytest.approx(0.02 / runs + 0.98 / runs / rows + 0.5 / rows, rel=0.4)


def test_the_power_of_a_t_test():
    found = Spread(0.25, (), 100)
    t = stats.nct(199, 0.2 * np.sqrt(200))
    beyond = stats.t.ppf(0.975, 199)
    assert found.power(0.1, 200, 1) == pytest.approx(t.sf(beyond) + t.cdf(-beyond), abs=1e-7)
    assert found.power(0.0, 200, 1) == pytest.approx(0.05)
    assert Spread(0.0, (), 10).power(0.1, 200, 1) == 1


@pytest.mark.parametrize("difference", [1.0, 0.5, 0.1])
def test_rows_that_all_differ_alike(difference):
    """The fewest rows that the test finds significant, without any variance between them."""
    shown = [bounded.verdicts({"P@1": np.full(rows, difference)}, {})["P@1"].p < 0.05 for rows in range(2, 50)]
    rows = Spread(1e-12, (), 100).rows_needed(difference, 1)
    assert abs(rows - (2 + shown.index(True))) <= (difference < 0.5)
    assert Spread(1e-12, ((0.0, 1e-12),), 100).rows_needed(difference, 3) == rows


@pytest.mark.parametrize(("rows", "difference"), [(40, 0.21), (60, 0.21), (150, 0.12)])
def test_of_few_rows_it_holds(rows, difference, monkeypatch):
    monkeypatch.setattr(bounded, "DRAWS", 1_999)
    monkeypatch.setattr(bounded, "_REJECTED", 48)
    better = (0.3 + difference) / 2
    drawn = np.random.RandomState(0).choice([1.0, 0.0, -1.0], (1_000, rows), p=[better, 0.7, 0.3 - better])
    shown = np.mean([verdict.p < 0.05 for verdict in bounded.verdicts(dict(enumerate(drawn)), {}).values()])
    assert Spread(0.3 - difference**2, (), rows).power(difference, rows, 1) == pytest.approx(shown, abs=0.06)


def test_what_is_needed_is_the_fewest_that_are_enough():
    found = Spread(0.1, ((0.0001, 0.01), (0.0, 0.02)), 500)
    rows = found.rows_needed(0.05, 3)
    assert found.power(0.05, rows, 3) >= 0.8 > found.power(0.05, rows - 1, 3)
    runs = found.runs_needed(0.03, 1_500)
    assert found.power(0.03, 1_500, runs) >= 0.8 > found.power(0.03, 1_500, runs - 1)
    smallest = found.detectable(1_500, runs)
    assert found.power(smallest, 1_500, runs) == pytest.approx(0.8, abs=1e-6)
    assert smallest <= 0.03


def test_seeds_that_vary_too_much_hide_a_difference_whatever_the_test_set():
    found = Spread(0.1, ((0.01, 0.0),), 500)
    assert found.rows_needed(0.01, 3) is None
    assert Spread(0.1, (), 500).runs_needed(0.001, 500) is None
    with pytest.raises(DataError, match="1 runs"):
        found.power(0.1, 500, 1)


def test_what_no_difference_can_show_is_none():
    """Seeds so far apart that even a difference of 1 is seldom significant."""
    found = Spread(0.1, ((0.5, 0.0),), 500)
    assert found.power(1.0, 500, 2) < 0.2
    assert found.detectable(500, 2) is None
    assert found.detectable(500, 100) == pytest.approx(0.2, rel=0.05)
    assert Spread(0.1, (), 500).detectable(5, 1) is None


def of_a_t_test(shift, degrees):
    """The power of a two-sided t-test at the 5% level, of a true difference of so many standard errors."""
    critical = stats.t.ppf(0.975, degrees)
    return stats.nct.sf(critical, degrees, shift) + stats.nct.cdf(-critical, degrees, shift)


@pytest.mark.parametrize(("sides", "degrees"), [(1, 2), (2, 4)])
def test_where_rows_do_not_differ_it_is_that_of_a_t_test_of_the_runs(sides, degrees):
    found = Spread(0.0, ((0.0003, 0.0),) * sides, 1_000)
    error = np.sqrt(sides * 0.0003 / 3)
    assert found.power(0.05, 1_000, 3) == pytest.approx(of_a_t_test(0.05 / error, degrees), abs=1e-6)


def test_where_seeds_hardly_matter_it_is_that_of_a_t_test_of_the_rows():
    found = Spread(0.04, ((1e-14, 0.0),), 200)
    assert found.power(0.04, 200, 3) == pytest.approx(of_a_t_test(0.04 / np.sqrt(0.04 / 200), 199), abs=1e-4)


def test_a_single_degree_of_freedom_is_one_however_large_the_difference():
    """Beyond 30 standard errors the normal distribution was taken: every power above 98% needed the same difference."""
    found = Spread(0.0, ((0.0002, 0.0),), 100)  # a standard error of 0.01 with two runs
    assert found.power(0.31, 100, 2) == pytest.approx(of_a_t_test(31, 1), abs=1e-5)
    needed = [found.detectable(100, 2, power) for power in (0.98, 0.985, 0.99, 0.999)]
    assert needed == sorted({*needed})
    for difference, power in zip(needed, (0.98, 0.985, 0.99, 0.999), strict=True):
        assert found.power(difference, 100, 2) >= power > found.power(difference - 1e-6, 100, 2)


@pytest.mark.parametrize("degrees", [2, 3, 10, 1_000])
@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0, 10.0, 20.0, 40.0, 300.0])
def test_both_tails_are_right_in_every_version_of_scipy(degrees, shift):
    """nctdtr is NaN far below in scipy 1.18, and off by 2e-7 in scipy 1.13."""
    found = Spread(0.0, ((0.0004, 0.0),), 200)  # a single side, so that the degrees are those of the runs
    runs = degrees + 1
    error = found.error(200, runs)
    critical = stats.t.ppf(0.975, degrees)
    ratios = stats.chi(degrees, scale=1 / np.sqrt(degrees))
    # The error that is found over the true one, in steps that are narrow where a verdict changes.
    steps = np.linspace(0, max(6.0, shift / critical + 6), 400_001)
    verdicts = stats.norm.cdf(shift - critical * steps) + stats.norm.cdf(-shift - critical * steps)
    expected = trapezoid(verdicts * ratios.pdf(steps), steps)
    assert found.power(shift * error, 200, runs) == pytest.approx(expected, abs=2e-8)


def test_a_large_difference_needs_few_runs():
    """15 by scipy 1.18, with which the power of 4 to 14 runs was NaN."""
    assert Spread(0.0, ((0.0003, 0.0),), 1_000).runs_needed(0.2, 1_000) == 3


def test_what_is_not_a_number_is_an_error():
    nan = float("nan")
    for broken in (Spread(nan, (), 100), Spread(0.1, ((nan, 0.0),), 100), Spread(0.1, ((0.0, nan),), 100)):
        for ask in (broken.power, broken.runs_needed, broken.rows_needed):
            with pytest.raises(DataError, match="not a number"):
                ask(0.1, 100, 3) if ask == broken.power else ask(0.1, 100)
        with pytest.raises(DataError, match="not a number"):
            broken.detectable(100, 3)
    with pytest.raises(DataError, match="not a number"):
        Spread(0.1, (), 100).power(nan, 100, 1)
    scores = np.ones((2, 10))
    scores[1, 3] = nan
    with pytest.raises(DataError, match="not finite"):
        spread(scores, np.zeros((1, 10)), np.ones(10))


def test_large_needs_are_found():
    assert Spread(0.1, (), 100).rows_needed(0.001, 1) == pytest.approx(
        (1.95996 + 0.84162) ** 2 * 0.1 / 0.001**2, rel=1e-3
    )
    assert Spread(0.0, ((0.01, 0.0),), 200).runs_needed(0.015, 200) == pytest.approx(7.849 * 0.01 / 0.015**2, rel=0.02)


def test_what_is_too_little_for_a_test():
    seeds_matter = Spread(0.1, ((0.0, 0.01),), 100)
    for rows, runs in ((1, 3), (2, 1), (1, 1)):
        with pytest.raises(DataError, match=f"{rows} rows and {runs} runs are too few"):
            seeds_matter.power(0.1, rows, runs)
    assert Spread(0.1, (), 100).runs_needed(0.3, 50) == 1
    assert Spread(0.0, (), 10).power(0.0, 50, 1) == 0
    assert Spread(0.1, (), 10).power(0.0, 2_000_000, 1) == pytest.approx(0.05, abs=1e-4)
    with pytest.raises(DataError, match="needs two"):
        spread(np.ones((2, 1)), np.zeros((1, 1)), np.ones(1))


def test_what_matched_runs_share_is_not_between_them():
    """Subsets that are hard for both methods: as two sides, each has their variance."""
    random = np.random.RandomState(0)
    shared = random.normal(0, 0.3, (6, 1)) + random.rand(400)
    first, second = (shared + random.normal(0, 0.02, (6, 400)) for _ in range(2))
    ((of_seed, both),) = spread(first, second, np.ones(400), matched=True).sides
    assert of_seed < 1e-4
    assert both == pytest.approx(2 * 0.02**2, rel=0.1)
    sides = spread(first, second, np.ones(400)).sides
    assert [of_seed > 0.01 for of_seed, _ in sides] == [True, True]


def test_without_an_effect_of_the_seed_there_is_next_to_none():
    """Runs differ by what a seed does to single rows, and so do their means; that is not of the seed."""
    random = np.random.RandomState(1)
    rows = 10
    found = [spread(random.normal(0, 0.1, (10, rows)), np.zeros((1, rows)), np.ones(rows)) for _ in range(500)]
    of_seed = np.mean([spread.sides[0][0] for spread in found])
    assert of_seed < 0.4 * 0.1**2 / rows
    assert min(spread.row for spread in found) == 0  # never less, where the runs explain more than there is


def test_what_follows_the_weights_is_not_between_rows():
    """A ratio that is the same in every row."""
    random = np.random.RandomState(2)
    weight = random.exponential(1, 2_000)
    weight /= weight.mean()
    first = (0.3 * weight + random.normal(0, 0.05, 2_000))[None]
    assert spread(first, np.zeros((1, 2_000)), weight).row == pytest.approx(0.05**2, rel=0.1)
