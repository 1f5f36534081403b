from __future__ import annotations

import itertools

import numpy as np
import pytest
from protocol_reference import make_pairs, make_predictions

from xmcbench.errors import DataError
from xmcbench.metrics import bootstrap, evaluate, paired

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


def test_a_run_and_itself_do_not_differ():
    found = paired.compare(scores(1), scores(1))
    assert list(found) == list(scores(1).values)
    assert {(each.delta, each.low, each.high, each.p) for each in found.values()} == {(0.0, 0.0, 0.0, 1.0)}


def test_a_better_run_is_found_whichever_comes_first():
    worse, better = scores(1), scores(2, skill=0.8)
    up, down = paired.compare(worse, better), paired.compare(better, worse)
    for name in worse.values:
        assert up[name].delta == pytest.approx(better.values[name] - worse.values[name])
        assert up[name].low < up[name].delta < up[name].high
        assert up[name].low > 0 > down[name].high, name
        assert up[name].p == down[name].p == pytest.approx(1 / 10_001), name


def test_equals_trying_every_sign():
    """Of ten rows all 1,024 flips can be tried; the drawn ones come close to them."""
    delta = np.random.RandomState(5).normal(0.4, 1, 10)
    every = [abs(np.dot(signs, delta)) >= abs(delta.sum()) - 1e-12 for signs in itertools.product((1, -1), repeat=10)]
    assert paired.p_values({"P@1": delta})["P@1"] == pytest.approx(np.mean(every), abs=0.01)


def test_rounding_does_not_make_a_difference():
    """0.1 + 0.2 is not 0.3; a flip that gives the same sum but for that counts as equally far."""
    delta = np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3])
    assert paired.p_values({"P@1": delta})["P@1"] == 1.0


def test_memory_does_not_change_the_numbers(monkeypatch):
    first, second = scores(1), scores(2, skill=0.55)
    whole = paired.compare(first, second)
    monkeypatch.setattr(paired, "_BLOCK", 3 * ROWS)
    assert {name: each.p for name, each in paired.compare(first, second).items()} == {
        name: each.p for name, each in whole.items()
    }


def test_rows_that_do_not_match_are_refused():
    other = evaluate(make_predictions([[0]], 1), make_pairs([[0]], 1))
    with pytest.raises(DataError, match="cannot be paired"):
        paired.compare(scores(1), other)
    assert paired.p_values({}) == {}


def test_ties_are_called_different_as_often_as_promised():
    """1,000 pairs of runs of equal skill: 4 to 6% have a p-value below 0.05, and as many an interval without zero."""
    random = np.random.RandomState(11)
    hard = random.beta(1, 2, (ROWS, 1))  # rows differ, and both runs meet the same ones
    first, second = (random.binomial(5, hard, (ROWS, 1_000)) / 5 for _ in range(2))
    ties = dict(enumerate((second - first).T))
    p = np.array(list(paired.p_values(ties).values()))
    assert 0.04 <= np.mean(p < 0.05) <= 0.06
    assert 0.04 <= np.mean([not low <= 0 <= high for low, high, _ in bootstrap.intervals(ties, {}).values()]) <= 0.065
