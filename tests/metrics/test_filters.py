from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_reference import cases, make_pairs, make_predictions

from xmcbench.errors import DataError
from xmcbench.metrics import evaluate
from xmcbench.metrics.ranks import longest_filter, remove_filtered
from xmcbench.topk import TopK


@given(cases(), st.integers(1, 20))
@settings(deadline=None)
def test_keeps_the_order_and_closes_the_gaps(case, depth):
    predictions, _, removed = case
    before = predictions.indices.copy()
    left = remove_filtered(predictions.indices, removed, depth)
    assert left.dtype == np.int32
    for row, labels in enumerate(left.tolist()):
        wanted = [label for label in before[row].tolist() if label >= 0 and label not in removed[row].indices][:depth]
        assert labels == wanted + [-1] * (depth - len(wanted))
    assert (predictions.indices == before).all(), "the predictions of the caller are left as they are"


@given(cases())
@settings(deadline=None)
def test_a_filter_of_nothing_changes_nothing(case):
    predictions, truth, _ = case
    nothing = make_pairs([[]] * truth.shape[0], truth.shape[1])
    assert (remove_filtered(predictions.indices, nothing, predictions.k) == predictions.indices).all()
    assert (remove_filtered(predictions.indices, None, predictions.k) == predictions.indices).all()
    assert evaluate(predictions, truth, removed=nothing).values == evaluate(predictions, truth).values


def test_predictions_beyond_the_depth_move_up():
    indices = np.arange(103, dtype=np.int32)[None]
    left = remove_filtered(indices, make_pairs([[0, 50, 101]], 103))
    assert left.tolist() == [[label for label in range(103) if label not in (0, 50, 101)]]


def test_a_filtered_true_pair_stays_true():
    predictions, truth = make_predictions([[0, 1]], 2), make_pairs([[0, 1]], 2)
    values = evaluate(predictions, truth, removed=make_pairs([[0]], 2)).values
    assert (values["P@1"], values["R@100"]) == (1.0, 0.5)


def test_longest():
    assert longest_filter(make_pairs([[0], [], [1, 2]], 3)) == 2
    assert longest_filter(make_pairs([[], []], 3)) == 0
    assert longest_filter(None) == 0


def test_a_filter_of_other_rows():
    with pytest.raises(DataError, match="the filter has 1 rows, the predictions 2"):
        remove_filtered(np.zeros((2, 1), np.int32), make_pairs([[0]], 1))


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
