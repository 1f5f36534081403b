"""Labels by their frequency: propensities, and the groups whose pairs are evaluated alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_reference import cases, evaluate, make_pairs, make_predictions

from xmcbench.errors import DataError
from xmcbench.metrics import (
    Evaluation,
    TruePairs,
    inverse_propensity,
    label_frequency,
    label_groups,
    true_ranks,
)
from xmcbench.records import Truth
from xmcbench.runner.figures import weigh_labels

TRAINING = make_pairs([[0, 1], [0], [0, 2], [], [1]], 4)
TRUTH = Truth(TruePairs.of(TRAINING), label_frequency(TRAINING), 5)


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.6, 2.6), (0.5, 0.4)])
def test_the_formula(a, b):
    c = (math.log(5) - 1) * (b + 1) ** a
    expected = [1 + c * (n + b) ** -a for n in (3, 2, 1, 0)]
    np.testing.assert_allclose(weigh_labels(TRUTH, (a, b)), expected, rtol=1e-12)


def test_a_label_of_one_pair_weighs_log_n():
    assert weigh_labels(TRUTH, (0.55, 1.5))[2] == pytest.approx(math.log(5))


def test_rare_labels_weigh_more():
    assert (np.diff(weigh_labels(TRUTH, (0.55, 1.5))) > 0).all()


def test_label_frequency():
    assert label_frequency(TRAINING).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(("a", "b"), [(0, 1), (0.5, 0), (math.nan, 1), (0.5, math.inf), (-1, 1)])
def test_bad_constants(a, b):
    with pytest.raises(DataError, match="not both positive"):
        weigh_labels(TRUTH, (a, b))


def test_too_few_rows():
    with pytest.raises(DataError, match="at least 3 training instances, there are 2"):
        inverse_propensity(np.array([2, 1]), 2, 0.55, 1.5)
    assert weigh_labels(Truth(TRUTH.pairs, TRUTH.frequency, 2), (0.55, 1.5)) is None


def members(frequency, known=None):
    frequency = np.array(frequency, np.int64)
    groups = label_groups(frequency, np.array(known if known is not None else np.zeros(len(frequency)), np.int64))
    return {name: np.flatnonzero(group).tolist() for name, group in groups.items()}


def test_seen_and_unseen():
    found = members([3, 2, 1], [1, 0, 2])
    assert (found["seen"], found["unseen"]) == ([0, 2], [1])


@pytest.mark.parametrize(
    ("frequency", "head", "middle", "tail"),
    [
        ([4, 4, 4], [0], [1], [2]),
        ([1, 1, 1, 1, 1, 1, 0], [0, 1], [2, 3], [4, 5, 6]),
        ([1, 0, 9, 2], [2], [], [0, 1, 3]),
        ([2, 2, 3, 2, 2], [0, 2], [1, 3], [4]),
        ([0, 0], [], [], [0, 1]),
        ([5], [0], [], []),
    ],
)
def test_head_middle_tail(frequency, head, middle, tail):
    found = members(frequency)
    assert (found["head"], found["middle"], found["tail"]) == (head, middle, tail)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_every_label_is_in_one_group_and_a_third_of_the_pairs_in_the_head(frequency):
    found = members(frequency)
    assert sorted(found["head"] + found["middle"] + found["tail"]) == list(range(len(frequency)))
    pairs = [sum(frequency[label] for label in found[name]) for name in ("head", "middle", "tail")]
    assert 3 * pairs[0] >= sum(frequency)
    assert 3 * (pairs[0] + pairs[1]) >= 2 * sum(frequency)
    if found["head"]:
        assert 3 * (pairs[0] - min(frequency[label] for label in found["head"])) < sum(frequency)


def in_view(predictions, truth, members):
    pairs = TruePairs.of(truth)
    view, kept = pairs.restrict(np.array(members))
    return Evaluation(view)(true_ranks(predictions.indices, pairs)[kept])


def test_a_view_leaves_the_predictions_alone():
    predictions = make_predictions([[0, 1], [2, 1], [0, 2]], 2)
    truth = make_pairs([[0, 1], [2], [2]], 3)
    assert in_view(predictions, truth, [False, True, True]).values["P@1"] == 1 / 3  # label 0 still is first twice
    scores = in_view(predictions, truth, [True, False, False])
    assert (scores.scored, scores.unlabeled, scores.values["P@1"]) == (1, 2, 1.0)


@given(cases(), st.randoms(use_true_random=False))
def test_a_view_equals_evaluating_its_pairs_alone(case, random):
    predictions, truth, _ = case
    members = [random.random() < 0.5 for _ in range(truth.shape[1])]
    alone = make_pairs([[label for label in row.indices if members[label]] for row in truth], truth.shape[1])
    scores, expected = in_view(predictions, truth, members), evaluate(predictions, alone)
    assert (scores.values, scores.scored, scores.unlabeled) == (expected.values, expected.scored, expected.unlabeled)


def test_an_empty_group_has_no_values():
    scores = in_view(make_predictions([[0]], 1), make_pairs([[0]], 1), [False])
    assert (scores.scored, scores.values) == (0, {})


def test_groups_of_other_labels():
    with pytest.raises(DataError, match="3 label frequencies, but 2"):
        label_groups(np.ones(3, np.int64), np.ones(2, np.int64))
