"""Paired tests: by randomization, their closed forms for ties with the best row, and Holm's correction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_reference import evaluate, make_pairs, make_predictions

from xmcbench.errors import DataError
from xmcbench.metrics import METRICS, Scores, bounded, compare, flips, holm, paired, seeds
from xmcbench.metrics.ties import Contender, difference, find_ties, p_value

ROWS, LABELS = 400, 60


def truth():
    random = np.random.RandomState(7)
    return [random.choice(LABELS, random.randint(1, 6), replace=False) for _ in range(ROWS)]


def scores(seed, skill=0.5):
    """Hits at plausible ranks; the more skill, the more of them."""
    random = np.random.RandomState(seed)
    predicted = [
        np.argsort(random.random_sample(LABELS) - skill * np.isin(np.arange(LABELS), true))[:8] for true in truth()
    ]
    return evaluate(
        make_predictions(predicted, 8), make_pairs(truth(), LABELS), inverse_propensity=1 + np.arange(LABELS) / 7
    )


@pytest.fixture(scope="module")
def runs():
    """Three runs each of a worse and a better method."""
    return [scores(seed) for seed in (1, 2, 3)], [scores(seed, skill=0.8) for seed in (4, 5, 6)]


def stack(side, name):
    """Return the input of the test over seeds: scores whose mean is the run's value."""
    best = side[0].attainable[name].mean() if name in side[0].attainable else 1
    return np.stack([run.per_instance[name] for run in side]) / best


def test_a_run_and_itself_do_not_differ(runs):
    found = compare(runs[0][:1], runs[0][:1])
    assert list(found) == list(METRICS)
    assert {(difference.delta, difference.low, difference.high, difference.p) for difference in found.values()} == {
        (0.0, 0.0, 0.0, 1.0)
    }
    several = compare(runs[0], runs[0], matched=True)
    assert {(difference.delta, difference.low, difference.high, difference.p) for difference in several.values()} == {
        (0.0, 0.0, 0.0, 1.0)
    }


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("matched", [False, True])
def test_the_difference_is_the_first_minus_the_second(runs, number, matched):
    worse, better = (side[:number] for side in runs)
    up, down = compare(better, worse, matched=matched), compare(worse, better, matched=matched)
    for name in METRICS:
        means = [np.mean([run.values[name] for run in side]) for side in (better, worse)]
        assert (up[name].first, up[name].second) == pytest.approx(means)
        assert up[name].delta == pytest.approx(means[0] - means[1])
        assert up[name].low < up[name].delta < up[name].high
        assert up[name].low > 0 > down[name].high, name
        assert up[name].p == pytest.approx(down[name].p)
        assert up[name].p < 0.05
        assert (down[name].low, down[name].high) == pytest.approx((-up[name].high, -up[name].low))


def test_single_runs_are_compared_over_rows(runs):
    (one, *_), (other, *_) = runs
    found = compare([one], [other])
    for name in METRICS:
        weights = {name: one.attainable[name]} if name in one.attainable else {}
        expected = flips.verdicts({name: one.per_instance[name] - other.per_instance[name]}, weights)[name]
        assert found[name][3:5] == pytest.approx(expected[:2])
        assert found[name].p == expected.p
        assert not found[name].over_seeds
    assert compare([one], [other], seed=1)["P@1"].low != found["P@1"].low


@pytest.mark.parametrize("matched", [False, True])
def test_several_runs_are_compared_over_seeds(runs, matched):
    one, other = runs
    found = compare(one, other, matched=matched)
    for name in METRICS:
        best = one[0].attainable.get(name, np.ones(ROWS))
        expected = seeds.verdict(stack(one, name), stack(other, name), best / best.mean(), matched)
        assert found[name][3:6] == pytest.approx(tuple(expected))
        assert (found[name].over_seeds, found[name].about_runs) == (True, False)
    assert compare(one, other[:2])["P@1"].over_seeds, "sides that are not matched may have other numbers of runs"


@pytest.mark.parametrize(
    ("numbers", "deterministic", "matched", "over_seeds", "about_runs"),
    [
        ((1, 1), (False, False), False, False, True),
        ((1, 1), (True, False), False, False, True),
        ((1, 1), (False, True), False, False, True),
        ((1, 1), (True, True), False, False, False),
        ((1, 1), (False, False), True, False, True),
        ((1, 1), (True, True), True, False, False),
        ((1, 3), (True, False), False, True, False),
        ((3, 1), (False, True), False, True, False),
        ((1, 3), (False, False), False, False, True),
        ((3, 1), (True, False), False, False, True),
        ((3, 3), (False, False), False, True, False),
        ((3, 3), (True, True), True, True, False),
    ],
)
def test_what_the_verdict_is_about(runs, numbers, deterministic, matched, over_seeds, about_runs):
    one, other = (side[:number] for side, number in zip(runs, numbers, strict=True))
    for metric in compare(one, other, matched=matched, deterministic=deterministic).values():
        assert (metric.over_seeds, metric.about_runs) == (over_seeds, about_runs)


def test_runs_that_are_all_alike_count_as_one(runs):
    (one, *_), (other, *_) = runs
    several = compare([one] * 3, [other] * 3)
    for name, single in compare([one], [other], deterministic=(True, True)).items():
        assert several[name][:6] == pytest.approx(single[:6], rel=1e-9)
        assert several[name][6:] == single[6:] == (False, False)


def test_the_mean_of_several_runs_against_one_of_unknown_variance(runs):
    one, other = runs
    found = compare(one, other[:1])
    expected = flips.verdicts({"P@1": stack(one, "P@1").mean(axis=0) - other[0].per_instance["P@1"]}, {})["P@1"]
    assert found["P@1"][3:6] == pytest.approx(tuple(expected))


def test_intervals_end_where_differences_do():
    """Of two rows nothing can be rejected, and the interval is almost all that a difference of fractions can be."""
    pairs = make_pairs([[0], [1]], 2)
    one, other = (evaluate(make_predictions(rows, 1), pairs) for rows in ([[0], [0]], [[1], [0]]))
    found = compare([one], [other], deterministic=(True, True))["P@1"]
    assert (found.first, found.second, found.delta, found.p) == (0.5, 0.0, 0.5, 1.0)
    assert -1 <= found.low < -0.7
    assert 0.9 < found.high <= 1
    none, both = (evaluate(make_predictions(rows, 1), pairs) for rows in ([[1], [0]], [[0], [1]]))
    found = compare([none, both], [both, none])["P@1"]
    assert (found.delta, found.low, found.high, found.over_seeds) == (0.0, -1.0, 1.0, True)


@pytest.mark.parametrize("number", [1, 3])
def test_few_rows_are_compared_by_their_bounds(number):
    """Over seeds too, where both tests have to find a difference."""
    random = np.random.RandomState(3)
    sides = []
    for shares in ((0.5, 0.5), (0.7, 0.3)):
        runs = [random.choice(2, bounded.FEW_ROWS, p=shares) for _ in range(number)]
        sides.append(runs)

    def compare_rows(rows):
        made = [
            [evaluate(make_predictions(run[:rows, None], 1), make_pairs(np.zeros((rows, 1), int), 2)) for run in side]
            for side in sides
        ]
        by_row = np.mean([run.per_instance["P@1"] for run in made[0]], axis=0)
        by_row -= np.mean([run.per_instance["P@1"] for run in made[1]], axis=0)
        return made, compare(*made, deterministic=(True, True))["P@1"], {"P@1": by_row}

    made, found, by_row = compare_rows(bounded.FEW_ROWS - 1)
    verdicts = [bounded.verdicts(by_row, {})["P@1"]]
    if number > 1:
        verdicts.append(seeds.verdict(*(stack(side, "P@1") for side in made), np.ones(bounded.FEW_ROWS - 1), False))
    lows, highs, p = zip(*verdicts, strict=True)
    assert found[3:6] == pytest.approx((min(lows), max(highs), max(p)))
    assert found.over_seeds == (number > 1)
    _, found, by_row = compare_rows(bounded.FEW_ROWS)
    assert (found.p == flips.verdicts(by_row, {})["P@1"].p) == (number == 1)


def test_what_does_not_match_is_refused(runs):
    (one, two, _), _ = runs
    other = evaluate(make_predictions([[0]], 1), make_pairs([[0]], 1))
    for first, second in (([one], [other]), ([one, other], [one, one]), ([one, one], [one, other])):
        with pytest.raises(DataError, match="400 and 1 scored rows cannot be paired"):
            compare(first, second)
    with pytest.raises(DataError, match="400 and 400 scored rows cannot be paired"):
        compare([one], [replace(two, unlabeled=1)])
    with pytest.raises(DataError, match="different metrics"):
        compare([one], [replace(two, values={"P@1": 0.5})])
    with pytest.raises(DataError, match="without a run"):
        compare([one], [])
    with pytest.raises(DataError, match="without a run"):
        compare([], [one])
    with pytest.raises(DataError, match="1 and 2 runs cannot be matched"):
        compare([one], [one, two], matched=True)


def test_evaluations_without_a_row_have_no_differences():
    nothing = evaluate(make_predictions([[0]], 1), make_pairs([[]], 1))
    assert compare([nothing], [nothing]) == {}


def run(hits):
    """A run whose metrics are all the mean of ``hits``."""
    per_instance = {name: np.asarray(hits, float) for name in METRICS if name[:3] != "PSP"}
    values = {name: float(column.mean()) for name, column in per_instance.items()}
    return Scores(values, len(hits), 0, per_instance, {})


def contender(*runs, deterministic=False, subset="s"):
    return Contender([run(hits) for hits in runs], [f"{subset}{place}" for place, _ in enumerate(runs)], deterministic)


def draw(rng, share, rows=2000):
    return (rng.random(rows) < share).astype(float)


@pytest.mark.parametrize("gap", [0.0, 0.005, 0.01, 0.02])
def test_a_single_run_is_tested_as_by_randomization(gap):
    """The normal tail and the randomized one differ by a hundredth at most, and agree on significance."""
    rng = np.random.default_rng(1)
    first = draw(rng, 0.4)
    second = np.where(rng.random(2000) < 0.1 + gap, 1 - first, first)
    one, other = contender(first, deterministic=True), contender(second, deterministic=True)
    exact = paired.compare(one.runs, other.runs, deterministic=(True, True))["P@1"].p
    assert p_value(one, other, "P@1") == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("lost", [1, 3, 4, 5, 6, 40, 99, 100, 101])
def test_rows_that_hardly_differ_are_tested_as_by_randomization(lost):
    """The mean of a few differences is not normal: of 4, the normal p is 0.045 and that of the flips 0.125."""
    first = draw(np.random.default_rng(1), 0.4, 1121)
    second = first.copy()
    second[np.flatnonzero(first)[:lost]] = 0
    one, other = contender(first, deterministic=True), contender(second, deterministic=True)
    exact = paired.compare(one.runs, other.runs, deterministic=(True, True))["P@1"]
    assert p_value(one, other, "P@1") == pytest.approx(exact.p, abs=0.01)
    delta, found = difference(one, other, "P@1")
    assert delta == pytest.approx(exact.delta) == pytest.approx(lost / 1121)
    assert found == pytest.approx((exact.low, exact.high, exact.p), abs=5e-4)
    if lost < 100:
        assert found.p == exact.p


def test_rows_are_tested_on_the_subsets_that_both_have():
    """One run more, on a subset that the other row lacks, says nothing about the difference."""
    rng = np.random.default_rng(4)
    columns = [draw(rng, share) for share in (0.3, 0.3, 0.3, 0.9)]
    for rows in (2000, 150):
        every = contender(*(column[:rows] for column in columns))
        three = contender(*(column[:rows] for column in columns[:3]))
        assert p_value(every, three, "P@1") == p_value(three, every, "P@1") == 1
        delta, found = difference(every, three, "P@1")
        assert delta == 0
        assert found.low <= 0 <= found.high < 0.05
    elsewhere = Contender(three.runs, ["t0", "t1", "t2"], deterministic=False)
    assert p_value(every, elsewhere, "P@1") < 1


def test_several_runs_are_tested_over_seeds():
    rng = np.random.default_rng(2)
    one, other = (contender(*(draw(rng, share) for _ in range(3))) for share in (0.42, 0.40))
    exact = paired.compare(one.runs, other.runs, matched=True)["P@1"].p
    assert p_value(one, other, "P@1") == pytest.approx(exact, rel=1e-9)
    apart = Contender(other.runs, ["t0", "t1", "t2"], deterministic=False)
    exact = paired.compare(one.runs, apart.runs)["P@1"].p
    assert p_value(one, apart, "P@1") == pytest.approx(exact, rel=1e-9)


def test_the_interval_is_that_of_paired():
    rng = np.random.default_rng(6)
    one, other = (contender(*(draw(rng, share) for _ in range(3))) for share in (0.42, 0.40))
    exact = paired.compare(one.runs, other.runs, matched=True)["P@1"]
    delta, found = difference(one, other, "P@1")
    assert (delta, *found) == pytest.approx((exact.delta, exact.low, exact.high, exact.p), rel=1e-9)
    first, second = contender(draw(rng, 0.4), deterministic=True), contender(draw(rng, 0.38), deterministic=True)
    exact = paired.compare(first.runs, second.runs, deterministic=(True, True))["P@1"]
    delta, found = difference(first, second, "P@1")
    assert delta == pytest.approx(exact.delta)
    assert found[:2] == pytest.approx((exact.low, exact.high), abs=5e-4)
    few, fewer = (contender(draw(rng, share, 50), deterministic=True) for share in (0.5, 0.3))
    exact = paired.compare(few.runs, fewer.runs, deterministic=(True, True), matched=True)["P@1"]
    assert difference(few, fewer, "P@1") == (exact.delta, (exact.low, exact.high, exact.p))
    assert exact.delta != pytest.approx((exact.low + exact.high) / 2, abs=1e-3)


def test_few_rows_are_tested_as_by_paired():
    rng = np.random.default_rng(3)
    one, other = (contender(draw(rng, share, 50), deterministic=True) for share in (0.5, 0.3))
    exact = paired.compare(one.runs, other.runs, deterministic=(True, True), matched=True)["P@1"].p
    assert p_value(one, other, "P@1") == exact


def test_equal_rows_are_tied_and_clear_differences_are_not():
    rng = np.random.default_rng(4)
    best = draw(rng, 0.5)
    worse = best * (rng.random(2000) < 0.8)
    rows = {"best": contender(best), "twin": contender(best.copy()), "worse": contender(worse)}
    assert find_ties(rows, ["P@1", "R@100"]) == {metric: {"twin"} for metric in ("P@1", "R@100")}


def test_holms_correction_is_over_the_column():
    """One row of p = 0.02 is separated alone, and tied among thirty others that are equal to the best."""
    rng = np.random.default_rng(5)
    best = draw(rng, 0.5)
    flipped = np.flatnonzero(best)[:27]
    other = best.copy()
    other[flipped] = 0
    other[np.flatnonzero(best == 0)[:12]] = 1
    pair = {"best": contender(best), "other": contender(other)}
    assert p_value(*pair.values(), "P@1") == pytest.approx(0.0229, abs=0.001)
    assert find_ties(pair, ["P@1"]) == {"P@1": frozenset()}
    crowd = {f"twin{number}": contender(best - 0.0) for number in range(30)}
    assert "other" in find_ties({**pair, **crowd}, ["P@1"])["P@1"]


def test_no_row_has_no_ties():
    assert find_ties({}, ["P@1"]) == {"P@1": frozenset()}


def literal_holm(p):
    """Holm (1979): of the ordered p-values, the adjusted j-th is the largest of (m - i + 1) p_i, i <= j, at most 1."""
    ordered = sorted(p.items(), key=lambda item: item[1])
    m = len(ordered)
    return {
        name: min(1.0, max((m - i + 1) * ordered[i - 1][1] for i in range(1, j + 1)))
        for j, (name, _) in enumerate(ordered, start=1)
    }


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_equals_the_procedure_written_out(p):
    adjusted = holm(p)
    assert adjusted == pytest.approx(literal_holm(p))
    assert list(adjusted) == list(p)


def test_by_hand():
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.06, "b": 0.03, "c": 0.06, "d": 0.02}
    )
    assert holm({"a": 0.02, "b": 0.9, "c": 0.6}) == pytest.approx({"a": 0.06, "b": 1.0, "c": 1.0})


def test_a_family_of_one_or_none_is_left_alone():
    assert holm({"a": 0.04}) == {"a": 0.04}
    assert holm({}) == {}
