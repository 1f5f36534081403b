from __future__ import annotations

import numpy as np
import pytest
from protocol_reference import make_pairs, make_predictions

from xmcbench.metrics import METRICS, bootstrap, evaluate


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


def test_equals_resampling_one_sample_at_a_time(scores):
    random = np.random.RandomState(3)
    column, best = scores.per_instance["PSP@3"], scores.attainable["PSP@3"]
    samples = []
    for _ in range(bootstrap.SAMPLES):
        rows = random.randint(0, scores.scored, scores.scored)
        samples.append(column[rows].sum() / best[rows].sum())
    low, high = np.percentile(samples, [2.5, 97.5])
    assert scores.intervals(seed=3)["PSP@3"] == pytest.approx((low, high, np.std(samples, ddof=1)), rel=1e-12)


def test_memory_does_not_change_the_numbers(scores, monkeypatch):
    whole = scores.intervals()
    monkeypatch.setattr(bootstrap, "_BLOCK", 7 * scores.scored)
    for name, interval in scores.intervals().items():
        assert interval == pytest.approx(whole[name], rel=1e-12)


def test_the_difference_of_a_run_to_itself_is_certain(scores):
    same = {name: column - column for name, column in scores.per_instance.items()}
    assert set(bootstrap.intervals(same, scores.attainable).values()) == {(0.0, 0.0, 0.0)}


def test_a_single_row_cannot_vary():
    intervals = evaluate(make_predictions([[0, 1]], 2), make_pairs([[1]], 2)).intervals()
    assert intervals["P@3"] == pytest.approx((1 / 3, 1 / 3, 0.0))


def test_samples():
    assert (bootstrap.samples_for(200_000), bootstrap.samples_for(200_001)) == (1_000, 200)
