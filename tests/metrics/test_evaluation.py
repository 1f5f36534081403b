"""Evaluation: the protocol and its version, figures of predictions, and invariants between figures."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_reference import cases, evaluate, make_pairs, make_predictions, reference_psp, reference_ranking, without

from xmcbench.errors import MethodError
from xmcbench.metrics import DEPTH, METRICS, VERSION, invariants, protocol
from xmcbench.topk import TopK

CLOSE = {"rtol": 0, "atol": 1e-9}
WITHOUT_PSP = [name for name, metric in METRICS.items() if metric.family != "PSP"]


def weights(labels):
    return 1 + np.random.RandomState(labels).random_sample(labels) * 9


def assert_equals_references(predictions, truth):
    inverse_propensity = weights(truth.shape[1])
    scores = evaluate(predictions, truth, inverse_propensity=inverse_propensity)
    reference = reference_ranking(predictions, truth)
    assert list(scores.values) == list(METRICS)
    assert set(reference) == set(WITHOUT_PSP)
    for name, expected in reference.items():
        np.testing.assert_allclose(scores.per_instance[name], expected, err_msg=name, **CLOSE)
        np.testing.assert_allclose(scores.values[name], expected.mean(), err_msg=name, **CLOSE)
    for k in (1, 3, 5):
        expected = reference_psp(predictions, truth, inverse_propensity, k)
        np.testing.assert_allclose(scores.values[f"PSP@{k}"], expected, err_msg=f"PSP@{k}", **CLOSE)
    return scores


@given(cases())
@settings(deadline=None)
def test_equals_the_independent_implementations(case):
    predictions, truth, _ = case
    assert_equals_references(predictions, truth)


@pytest.mark.parametrize("k", [3, 100, 150])
@pytest.mark.parametrize("labels", [150, 2_000])
def test_equals_the_independent_implementations_at_depth(labels, k):
    random = np.random.RandomState(k)
    truth = [random.choice(labels, random.randint(0, 12), replace=False) for _ in range(60)]
    predicted = []
    for true in truth:
        guesses = random.permutation(np.concatenate([true, random.choice(labels, k)]).astype(int))
        predicted.append(list(dict.fromkeys(guesses))[: random.randint(0, k + 1)])
    assert_equals_references(make_predictions(predicted, k), make_pairs(truth, labels))


@pytest.mark.parametrize(
    ("predicted", "true", "labels", "k"),
    [
        pytest.param([[]], [[0]], 1, 1, id="nothing predicted"),
        pytest.param([[0]], [[0]], 1, 1, id="a single label"),
        pytest.param([[1], [0, 1]], [[1], [0]], 2, 5, id="short rows"),
        pytest.param([[], [2], []], [[0], [2], [1]], 3, 3, id="empty rows"),
        pytest.param([[0], [1], [2]], [[], [1], []], 3, 3, id="rows without a true label"),
        pytest.param([[3, 2, 1]], [[0, 1, 2, 3, 4, 5, 6]], 7, 3, id="more true labels than predictions"),
        pytest.param([[0, 1, 2]], [[5]], 9, 3, id="no hit"),
        pytest.param([list(range(120))], [[99, 100, 119]], 120, 120, id="a hit beyond the depth"),
    ],
)
def test_equals_the_independent_implementations_in_odd_cases(predicted, true, labels, k):
    assert_equals_references(make_predictions(predicted, k), make_pairs(true, labels))


def test_ties_are_ordered_by_the_lower_label():
    scores = np.array([[0.5, 0.9, 0.5, 0.5], [0.2, 0.2, 0.2, 0.2]], np.float32)
    predictions = TopK.from_scores(scores, 4)
    assert predictions.indices.tolist() == [[1, 0, 2, 3], [0, 1, 2, 3]]
    found = assert_equals_references(predictions, make_pairs([[0, 3], [1]], 4))
    assert found.per_instance["P@3"].tolist() == [1 / 3, 1 / 3]


def test_values_by_hand():
    predictions = make_predictions([[4, 0, 1], [2], [3]], 3)
    scores = evaluate(predictions, make_pairs([[0, 1], [2], []], 5), inverse_propensity=np.array([2.0, 4, 8, 1, 1]))
    assert (scores.scored, scores.unlabeled) == (2, 1)
    assert scores.per_instance["P@3"].tolist() == [2 / 3, 1 / 3]
    assert scores.per_instance["P@5"].tolist() == [2 / 5, 1 / 5]
    assert scores.per_instance["R@3"].tolist() == [1.0, 1.0]
    ideal = 1 + 1 / np.log2(3)
    np.testing.assert_allclose(scores.per_instance["nDCG@3"], [(1 / np.log2(3) + 1 / 2) / ideal, 1])
    assert scores.values["PSP@1"] == 8 / (4 + 8)  # the ratio of sums; the mean of ratios would be 1/2
    assert scores.values["PSP@3"] == 1.0


@given(cases(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_rows_does_not_matter(case, random):
    predictions, truth, removed = case
    order = list(range(len(predictions)))
    random.shuffle(order)
    shuffled = TopK(predictions.indices[order], predictions.scores[order])
    inverse_propensity = weights(truth.shape[1])
    one = evaluate(predictions, truth, removed=removed, inverse_propensity=inverse_propensity)
    other = evaluate(shuffled, truth[order], removed=removed[order], inverse_propensity=inverse_propensity)
    for name in METRICS:
        np.testing.assert_allclose(one.values[name], other.values[name], **CLOSE)


@given(cases())
@settings(deadline=None)
def test_filtered_equals_a_run_without_the_pairs(case):
    predictions, truth, removed = case
    by_hand = evaluate(without(predictions, removed), truth, inverse_propensity=weights(truth.shape[1]))
    filtered = evaluate(predictions, truth, removed=removed, inverse_propensity=weights(truth.shape[1]))
    assert filtered.values == by_hand.values


@given(cases())
@settings(deadline=None)
def test_invariants_hold(case):
    predictions, truth, removed = case
    invariants.check(evaluate(predictions, truth, removed=removed, inverse_propensity=weights(truth.shape[1])).values)


@given(cases())
@settings(deadline=None)
def test_contributions_and_weights_of_the_rows(case):
    predictions, truth, _ = case
    scores = evaluate(predictions, truth, inverse_propensity=weights(truth.shape[1]))
    for name, value in scores.values.items():
        found, weight = scores.contributions(name), scores.weights(name)
        assert found.shape == weight.shape == (scores.scored,)
        np.testing.assert_allclose(found.mean(), value, **CLOSE)
        np.testing.assert_allclose(weight.mean(), 1, **CLOSE)
        # The most that a row can add is its weight.
        assert (found <= weight + 1e-9).all()
        if METRICS[name].family != "PSP":
            np.testing.assert_array_equal(found, scores.per_instance[name])
            assert (weight == 1).all()
        else:
            np.testing.assert_allclose(found * scores.attainable[name].sum(), scores.per_instance[name] * scores.scored)
            np.testing.assert_allclose(weight / weight.max(), scores.attainable[name] / scores.attainable[name].max())


def test_perfect_predictions_score_one():
    truth = make_pairs([[0, 1, 2, 3, 4], [5, 1, 2, 0, 3]], 6)
    # The best order for PSP: the rarest labels first.
    inverse_propensity = weights(6)
    rows = [sorted(truth[row].indices, key=lambda label: -inverse_propensity[label]) for row in range(2)]
    values = evaluate(make_predictions(rows, 10), truth, inverse_propensity=inverse_propensity).values
    assert {name: value for name, value in values.items() if not name.startswith("R")} == pytest.approx(
        {name: 1.0 for name in METRICS if not name.startswith("R")}
    )
    assert values["R@3"] == 3 / 5


def test_without_propensities_psp_is_left_out():
    scores = evaluate(make_predictions([[0]], 1), make_pairs([[0]], 1))
    assert list(scores.values) == WITHOUT_PSP
    assert list(scores.intervals()) == WITHOUT_PSP


def test_without_any_true_label_there_are_no_values():
    scores = evaluate(make_predictions([[0], [1]], 1), make_pairs([[], []], 2), inverse_propensity=weights(2))
    assert (scores.values, scores.scored, scores.unlabeled, scores.intervals()) == ({}, 0, 2, {})


def test_a_truth_with_zeros_and_duplicates_is_read_as_pairs():
    truth = make_pairs([[1]], 3)
    stored = truth.copy()
    stored.indices, stored.data, stored.indptr = np.array([1, 0, 1]), np.array([1.0, 0.0, 1.0]), np.array([0, 3])
    stored = type(truth)((stored.data, stored.indices, stored.indptr), shape=(1, 3))
    predictions = make_predictions([[0, 1]], 2)
    assert evaluate(predictions, stored).values == evaluate(predictions, truth).values
    assert stored.nnz == 3, "the matrix of the caller is left as it is"


def test_every_hit_within_the_depth_counts():
    """More pairs than are compared at a time."""
    random = np.random.RandomState(1)
    indices = np.argsort(random.random_sample((20_000, 110)), axis=1).astype(np.int32)
    predictions = TopK(indices, np.tile(-np.arange(110, dtype=np.float32), (20_000, 1)))
    truth = make_pairs([[row % 110, (row * 7 + 3) % 110] for row in range(20_000)], 110)
    inside = [len(set(truth[row].indices) & set(indices[row, :DEPTH])) for row in range(0, 20_000, 500)]
    found = evaluate(predictions, truth).per_instance["R@100"] * np.diff(truth.indptr)
    assert found[::500].tolist() == inside


def test_importing_the_metrics_leaves_scipy_alone():
    code = "import sys, xmcbench.metrics; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_protocol_names_its_version_and_metrics():
    assert f"version {VERSION}" in protocol.__doc__
    for metric in METRICS.values():
        assert f"* {metric.family}@k" in protocol.__doc__
        assert str(metric.k) in metric.description


def test_metrics():
    assert " ".join(METRICS) == ("P@1 P@3 P@5 R@1 R@3 R@5 R@10 R@100 nDCG@1 nDCG@3 nDCG@5 PSP@1 PSP@3 PSP@5")
    assert max(metric.k for metric in METRICS.values()) == DEPTH


def test_another_protocol_has_another_version():
    """Whoever changes the protocol raises the version, and with it these lines."""
    assert (VERSION, DEPTH) == (3, 100)


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
