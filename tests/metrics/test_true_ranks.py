"""Ranks of true pairs, and the filter that is applied before them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_reference import (
    cases,
    evaluate,
    make_pairs,
    make_predictions,
    reference_psp,
    reference_ranking,
    reference_ranks,
    without,
)

from xmcbench.data.xc_matrix import read_filter, read_matrix
from xmcbench.errors import DataError, MethodError
from xmcbench.metrics import DEPTH, METRICS, Evaluation, TruePairs, true_ranks
from xmcbench.metrics.ranks import find, longest_filter
from xmcbench.topk import TopK


@pytest.fixture(scope="session")
def amazon_titles(real_data):
    """Test pairs and test filter, CSR [134835, 131073] each, of the real LF-AmazonTitles-131K."""
    folder = real_data("LF-AmazonTitles-131K")
    truth = read_matrix(folder / "tst_X_Y.txt.gz")
    return truth, read_filter(folder / "tst_filter_labels.txt.gz", *truth.shape)


@given(cases(), st.booleans())
@settings(deadline=None)
def test_equals_the_protocol_read_literally(case, filtered):
    predictions, truth, removed = case
    removed = removed if filtered else None
    ranks = true_ranks(predictions.indices, TruePairs.of(truth), removed)
    assert ranks.dtype == np.uint8
    assert ranks.tolist() == reference_ranks(predictions, truth, removed)


@given(cases())
@settings(deadline=None)
def test_every_metric_follows_from_the_ranks(case):
    predictions, truth, removed = case
    pairs, weights = TruePairs.of(truth), 1 + np.arange(truth.shape[1]) / 3
    found = Evaluation(pairs, weights)(true_ranks(predictions.indices, pairs, removed))
    left = without(predictions, removed)
    expected = {name: values.mean() for name, values in reference_ranking(left, truth).items()}
    expected |= {f"PSP@{k}": reference_psp(left, truth, weights, k) for k in (1, 3, 5)}
    assert found.values == pytest.approx(expected, abs=1e-9)
    assert list(found.values) == list(METRICS)


def test_the_last_rank_is_100_and_the_filter_comes_before_the_cut():
    predicted = np.arange(103, dtype=np.int32)[None]
    pairs = TruePairs.of(make_pairs([[0, 1, 99, 100, 101, 102]], 110))
    assert true_ranks(predicted, pairs).tolist() == [1, 2, DEPTH, 0, 0, 0]
    assert true_ranks(predicted, pairs, make_pairs([[1, 50]], 110)).tolist() == [1, 0, 98, 99, 100, 0]


def test_the_pairs_stand_row_by_row_each_once():
    truth = make_pairs([[2, 0], [], [1]], 4)
    stored = type(truth)((np.ones(4), np.array([2, 0, 2, 1]), np.array([0, 3, 3, 4])), shape=(3, 4))
    for matrix in (truth, stored):
        pairs = TruePairs.of(matrix)
        assert (pairs.rows.tolist(), pairs.labels.tolist(), pairs.instances) == ([0, 0, 2], [0, 2, 1], 3)
        assert len(pairs) == 3
    assert (pairs.rows.dtype, pairs.labels.dtype) == (np.int64, np.int64)


def test_the_pairs_of_a_group():
    pairs = TruePairs.of(make_pairs([[0, 2], [], [1, 2]], 3))
    view, kept = pairs.restrict(np.array([True, False, True]))
    assert (view.rows.tolist(), view.labels.tolist(), view.instances) == ([0, 0, 2], [0, 2, 2], 3)
    assert kept.tolist() == [True, True, False, True]
    with pytest.raises(DataError, match="over 2 labels does not fit true pairs with label 2"):
        pairs.restrict(np.array([True, False]))
    nothing, kept = TruePairs.of(make_pairs([[]], 1)).restrict(np.array([], bool))
    assert (len(nothing), len(kept)) == (0, 0)


def test_predictions_of_other_rows():
    pairs = TruePairs.of(make_pairs([[0], [1]], 2))
    with pytest.raises(MethodError, match=r"the shape \(1, 2\), the truth has 2 rows"):
        true_ranks(np.zeros((1, 2), np.int32), pairs)
    with pytest.raises(MethodError, match=r"the shape \(2,\), the truth has 2 rows"):
        true_ranks(np.zeros(2, np.int32), pairs)
    with pytest.raises(DataError, match="the filter has 1 rows"):
        true_ranks(np.zeros((2, 2), np.int32), pairs, make_pairs([[0]], 2))


@pytest.mark.parametrize(
    ("message", "ranks", "weights"),
    [
        (r"2 true pairs, but ranks of the shape \(3,\)", [1, 2, 3], None),
        ("has rank 101, but only 100", [1, 101], None),
        ("1 propensities, but a true pair has label 1", [1, 2], [1.0]),
        ("not a positive number", [1, 2], [1.0, 0.0]),
        ("not a positive number", [1, 2], [1.0, np.nan]),
    ],
)
def test_ranks_that_do_not_fit(message, ranks, weights):
    pairs = TruePairs.of(make_pairs([[0], [1]], 2))
    with pytest.raises(DataError, match=message):
        Evaluation(pairs, None if weights is None else np.array(weights))(np.array(ranks, np.uint8))
    assert Evaluation(pairs, np.ones(2))(np.array([1, DEPTH], np.uint8)).values["R@100"] == 1.0


def test_propensities_beyond_the_labels_of_the_pairs_are_not_an_error():
    pairs = TruePairs.of(make_pairs([[0], []], 3))
    assert Evaluation(pairs, np.ones(3))(np.array([1], np.uint8)).values["PSP@1"] == 1.0


def test_among_no_predictions_nothing_is_found():
    pair, rank = find(np.empty((3, 0), np.int32), np.array([0, 2]), np.array([1, 1]))
    assert (len(pair), len(rank)) == (0, 0)
    pair, rank = find(np.ones((3, 2), np.int32), np.empty(0, int), np.empty(0, int))
    assert (len(pair), len(rank)) == (0, 0)


@given(cases())
@settings(deadline=None)
def test_a_filter_of_nothing_changes_nothing(case):
    predictions, truth, _ = case
    nothing = make_pairs([[]] * truth.shape[0], truth.shape[1])
    assert evaluate(predictions, truth, removed=nothing).values == evaluate(predictions, truth).values


def test_a_filtered_true_pair_stays_true():
    predictions, truth = make_predictions([[0, 1]], 2), make_pairs([[0, 1]], 2)
    values = evaluate(predictions, truth, removed=make_pairs([[0]], 2)).values
    assert (values["P@1"], values["R@100"]) == (1.0, 0.5)


def test_longest():
    assert longest_filter(make_pairs([[0], [], [1, 2]], 3)) == 2
    assert longest_filter(make_pairs([[], []], 3)) == 0
    assert longest_filter(None) == 0


@pytest.mark.data
def test_the_real_filter_removes_no_true_pair(amazon_titles):
    truth, removed = amazon_titles
    assert (truth.shape, truth.nnz, removed.nnz) == ((134_835, 131_073), 284_746, 79_663)
    assert truth.multiply(removed).nnz == 0
    # Each row predicts its own true labels: the filter must leave all of them.
    indices = np.full((truth.shape[0], int(np.diff(truth.indptr).max())), -1, np.int32)
    rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    indices[rows, np.arange(truth.nnz) - truth.indptr[rows]] = truth.indices
    predictions = TopK(indices, np.where(indices < 0, -np.inf, -np.arange(indices.shape[1])).astype(np.float32))
    unfiltered, filtered = evaluate(predictions, truth), evaluate(predictions, truth, removed=removed)
    assert filtered.values == unfiltered.values
    assert filtered.values["R@100"] == 1.0
