from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_reference import evaluate, make_pairs, make_predictions
from scipy.stats import norm

from xmcbench.metrics import METRICS, bootstrap


@pytest.fixture(scope="module")
def scores():
    """Of 400 rows, 60 labels, hits at plausible ranks."""
    random = np.random.RandomState(7)
    truth = [random.choice(60, random.randint(1, 6), replace=False) for _ in range(400)]
    predicted = []
    for true in truth:
        order = np.argsort(random.random_sample(60) - 0.5 * np.isin(np.arange(60), true))
        predicted.append(order[:8])
    return evaluate(
        make_predictions(predicted, 8), make_pairs(truth, 60), inverse_propensity=1 + 9 * random.random_sample(60)
    )


def test_the_interval_contains_the_value(scores):
    intervals = scores.intervals()
    assert list(intervals) == list(METRICS)
    for name, (low, high, se) in intervals.items():
        assert low < scores.values[name] < high, name
        assert se == pytest.approx((high - low) / (2 * 1.96), rel=0.1), name


def test_the_standard_error_is_close_to_the_analytic_one(scores):
    intervals = scores.intervals()
    for name, column in scores.per_instance.items():
        if name in scores.attainable:
            # Of a ratio: the delta method.
            best = scores.attainable[name]
            residual = (column - scores.values[name] * best) / best.mean()
            analytic = residual.std() / np.sqrt(scores.scored)
        else:
            analytic = column.std() / np.sqrt(scores.scored)
        assert intervals[name].se == pytest.approx(analytic, rel=0.08), name


def test_deterministic(scores):
    assert scores.intervals() == scores.intervals(seed=0)
    assert scores.intervals(seed=1) != scores.intervals(seed=0)


def literal_bca(numerator, denominator, seed):
    """BCa as DiCiccio and Efron (1996, section 2) write it, one sample and one deleted row at a time."""
    rows = len(numerator)
    random = np.random.RandomState(seed)
    samples = []
    for _ in range(bootstrap.SAMPLES):
        drawn = random.randint(0, rows, rows)
        samples.append(numerator[drawn].sum() / denominator[drawn].sum())
    samples, value = np.array(samples), numerator.sum() / denominator.sum()
    same = np.isclose(samples, value, rtol=1e-12, atol=0)
    z0 = norm.ppf(((samples < value) & ~same).mean() + same.mean() / 2)
    deleted = np.array([np.delete(numerator, row).sum() / np.delete(denominator, row).sum() for row in range(rows)])
    distance = deleted.mean() - deleted
    a = (distance**3).sum() / (6 * (distance**2).sum() ** 1.5)
    ends = [norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in norm.ppf([0.025, 0.975])]
    low, high = np.percentile(samples, [100 * end for end in ends])
    return low, high, samples.std(ddof=1)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", METRICS)
def test_equals_the_method_written_out(scores, name, seed):
    column, rows = scores.per_instance[name], scores.scored
    literal = literal_bca(column, scores.attainable.get(name, np.ones(rows)), seed)
    found = scores.intervals(seed)[name]
    # Of a mean the influences are those of the deleted rows. Of a ratio they are the limit for many rows.
    assert found == pytest.approx(literal, rel=1e-9 if name not in scores.attainable else 1e-4)
    assert found.se == pytest.approx(literal[2], rel=1e-12)


def test_few_hits_of_few_rows():
    """Many samples equal the value: counted as below or above it, they would move the interval."""
    for hits in (1, 2, 15, 29):
        column = (np.arange(30) < hits).astype(float)
        found = bootstrap.intervals({"P@1": column}, {})["P@1"]
        assert found == pytest.approx(literal_bca(column, np.ones(30), 0), rel=1e-9)
        assert found.low < hits / 30 < found.high
        mirrored = bootstrap.intervals({"P@1": 1 - column}, {})["P@1"]
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high), abs=1e-12)


def misses(values, true, seed):
    """Count the intervals of the columns [rows, studies] below and above the true value."""
    found = bootstrap.intervals(dict(enumerate(values.T.copy())), {}, seed).values()
    return np.array([sum(high < true for _, high, _ in found), sum(low > true for low, _, _ in found)])


def test_the_correction_has_the_right_sign(monkeypatch):
    """Of skewed values percentile intervals are too low far more often than too high, and BCa intervals less so.

    2,000 studies of 30 rows, exponential values. With the wrong sign of bias or acceleration it would be more often.
    """
    values = np.random.RandomState(2).exponential(1, (30, 2_000))
    corrected = misses(values, 1.0, 0)
    monkeypatch.setattr(bootstrap, "_correct", lambda level, *_: level)
    plain = misses(values, 1.0, 0)
    assert corrected[0] < 0.8 * plain[0]
    assert corrected[1] > 1.3 * plain[1]
    assert corrected.sum() < plain.sum()


def test_every_step_of_the_correction():
    """Without bias and skewness the levels stay. Either shifts both up, the acceleration more so the upper one."""
    levels = [bootstrap._correct(level, 0.0, 0.0) for level in (0.025, 0.975)]
    assert levels == pytest.approx([0.025, 0.975], abs=1e-12)
    assert bootstrap._correct(0.025, 0.1, 0.0) == pytest.approx(norm.cdf(0.2 + norm.ppf(0.025)))
    assert bootstrap._correct(0.975, 0.0, 0.1) == pytest.approx(norm.cdf(norm.ppf(0.975) / (1 - 0.195996398)))
    # The largest bias of 1,000 samples with the largest acceleration there is.
    assert bootstrap._correct(0.975, 3.2905, 1 / 6) == pytest.approx(1.0)


def test_numbers_do_not_depend_on_what_else_is_asked_for(scores):
    whole = scores.intervals()
    for name in ("R@10", "PSP@5"):
        best = {metric: column for metric, column in scores.attainable.items() if metric == name}
        alone = bootstrap.intervals({name: scores.per_instance[name]}, best)[name]
        assert alone == pytest.approx(whole[name], rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
@pytest.mark.parametrize("rows", [1, 2, 30, 1_000])
def test_rows_that_score_alike(rows, value):
    found = bootstrap.intervals({"P@1": np.full(rows, value)}, {})["P@1"]
    assert found == pytest.approx((value, value, 0.0), abs=1e-15)
    mean = np.full(rows, value).sum() / rows
    assert found.low <= mean <= found.high
    attainable = 1 + np.random.RandomState(rows).random_sample(rows)
    found = bootstrap.intervals({"PSP@1": value * attainable}, {"PSP@1": attainable})["PSP@1"]
    assert found == pytest.approx((value, value, 0.0), abs=1e-14)


@given(st.lists(st.sampled_from([0.0, 1 / 3, 1.0]), min_size=1, max_size=12), st.integers(0, 3))
@settings(max_examples=60)
def test_the_interval_always_contains_the_value(column, seed):
    column = np.array(column)
    low, high, _ = bootstrap.intervals({"P@3": column}, {}, seed)["P@3"]
    assert 0 <= low <= column.mean() <= high <= 1


def test_a_value_beyond_all_samples_has_a_limited_bias():
    """Of two samples the bias is that of three quarters at most; none or all of them would be infinitely far."""
    level = norm.cdf(2 * norm.ppf(0.75) + norm.ppf(0.025))
    low, high, _ = bootstrap._interval(np.array([0.1, 0.2]), np.array([1.0, 0.0]), np.ones(2))
    assert (low, high) == (pytest.approx(0.1 + 0.1 * level), 0.5)
    low, high, _ = bootstrap._interval(np.array([0.8, 0.9]), np.array([1.0, 0.0]), np.ones(2))
    assert (low, high) == (0.5, pytest.approx(0.9 - 0.1 * level))


def test_the_difference_of_a_run_to_itself_is_certain(scores):
    same = {name: column - column for name, column in scores.per_instance.items()}
    assert set(bootstrap.intervals(same, scores.attainable).values()) == {(0.0, 0.0, 0.0)}


def test_a_single_row_cannot_vary():
    intervals = evaluate(make_predictions([[0, 1]], 2), make_pairs([[1]], 2)).intervals()
    assert intervals["P@3"] == pytest.approx((1 / 3, 1 / 3, 0.0))


def skewed(rows, seed):
    """Hits, gains and attainable gains of rows: few hits, some rows that weigh much."""
    random = np.random.RandomState(seed)
    attainable = 1 + random.exponential(3, rows)
    numerators = {"P@1": (random.rand(rows) < 0.02) * 1.0, "R@100": random.beta(0.5, 0.5, rows)}
    return numerators | {"PSP@1": attainable * (random.rand(rows) < 0.3)}, {"PSP@1": attainable}


def test_the_closed_form_agrees_with_samples(monkeypatch):
    """Of 10,001 rows no end differs by more than 0.06 of a standard error from those of 20,000 samples."""
    numerators, denominators = skewed(bootstrap.MANY_ROWS + 1, 0)
    found = bootstrap.intervals(numerators, denominators)
    assert found == bootstrap.intervals(numerators, denominators, seed=1)
    monkeypatch.setattr(bootstrap, "MANY_ROWS", bootstrap.MANY_ROWS + 1)
    monkeypatch.setattr(bootstrap, "SAMPLES", 20_000)
    for name, drawn in bootstrap.intervals(numerators, denominators).items():
        assert found[name].se == pytest.approx(drawn.se, rel=0.02)
        assert found[name][:2] == pytest.approx(drawn[:2], abs=0.06 * drawn.se)


def test_the_closed_form_of_many_rows_is_skewed_as_the_values_are():
    """An interval of rare hits reaches further up than down, and one of rare misses the other way."""
    column = (np.arange(20_000) < 40).astype(float)
    low, high, se = bootstrap.intervals({"P@1": column}, {})["P@1"]
    value, z = 0.002, norm.ppf(0.975)
    skewness = (1 - 2 * value) / np.sqrt(20_000 * value * (1 - value))
    assert se == pytest.approx(np.sqrt(value * (1 - value) / 20_000), rel=1e-9)
    assert (high - value) - (value - low) == pytest.approx(2 * se * skewness / 6 * (2 * z**2 + 1), rel=1e-9)
    mirrored = bootstrap.intervals({"P@1": 1 - column}, {})["P@1"]
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high), abs=1e-12)
    same = bootstrap.intervals({"P@1": np.full(20_000, 1 / 3)}, {})["P@1"]
    assert (same.low, same.se) == (same.high, 0.0)


def test_draws_are_kept_for_the_next_values_of_as_many_rows():
    bootstrap._weights.cache_clear()
    values = {rows: np.linspace(0, 1, rows) ** 2 for rows in (20, 30)}
    first = bootstrap.intervals({"P@1": values[20]}, {})
    for rows, seed in ((20, 0), (30, 0), (20, 1), (20, 0)):
        bootstrap.intervals({"P@1": values[rows]}, {}, seed)
    assert bootstrap._weights.cache_info()[:2] == (2, 3)  # hits, misses
    assert bootstrap.intervals({"P@1": values[20]}, {}) == first
