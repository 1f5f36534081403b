"""Texts that are computed side by side, and their padding."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench.methods.encoder.batches import by_length, least_cost, pad_texts, split_step

LENGTHS = st.lists(st.integers(0, 60), max_size=24).map(lambda lengths: np.array(lengths, np.int32))


def test_batches_hold_every_row_once_within_the_budget():
    lengths = np.random.default_rng(0).integers(1, 100, 500)
    batches = by_length(lengths, 256)
    assert sorted(np.concatenate(batches)) == list(range(500))
    assert all(len(batch) * lengths[batch].max() <= 256 for batch in batches)
    assert lengths[batches[0]].max() == lengths.max()
    assert [len(batch) for batch in by_length(np.array([900]), 256)] == [1]


@given(LENGTHS, st.integers(1, 200), st.integers(0, 500))
def test_batches_of_least_cost_hold_every_row_once_within_the_budget(lengths, budget, launches):
    batches = least_cost(lengths, budget, launches)
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * lengths[batch].max() <= budget for batch in batches)
    drawn = lengths[[row for batch in batches for row in batch]]
    assert (np.diff(drawn) <= 0).all(), "the longest come first"


def cost(batches, lengths, launches):
    """Cost of batches: their tokens, padding included, in multiples of 8, and the launches of each."""
    return sum(len(batch) * max(8, -(-int(lengths[batch].max()) // 8) * 8) + launches for batch in batches)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=9), st.integers(0, 500))
def test_no_other_cut_costs_less(lengths, launches):
    """Everything fits into a batch; compared with all ways to cut the texts in their order of length."""
    lengths = np.array(lengths, np.int32)
    order = np.argsort(-lengths, kind="stable")
    cuts = itertools.product([False, True], repeat=len(order) - 1)
    every = (np.split(order, np.flatnonzero(chosen) + 1) for chosen in cuts)
    least = min(cost(batches, lengths, launches) for batches in every)
    assert cost(least_cost(lengths, 10**6, launches), lengths, launches) == least


@given(st.integers(1, 60), st.integers(1, 300), st.integers(1, 100), st.integers(0, 500))
def test_a_full_batch_is_cut_as_by_length(length, budget, count, launches):
    lengths = np.full(count, length)
    found, expected = least_cost(lengths, budget, launches), by_length(lengths, budget)
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in expected]


def test_full_batches_count_their_launches():
    """Four texts of 64 tokens fit into two batches of 128; with the four of 8, three batches are the fewest."""
    lengths = np.array([64, 8] * 4)
    assert [lengths[batch].tolist() for batch in least_cost(lengths, 128, 1000)] == [[64, 64], [64, 64], [8] * 4]


def test_documents_and_titles_of_a_step():
    """Apart on a GPU as long as the padding would cost more than the launches; within the budget on the CPU."""
    lengths = np.array([288, 16] * 256)
    assert [len(batch) for batch in split_step(lengths, "cuda")] == [256, 256]
    assert [len(batch) for batch in split_step(lengths[:64], "cuda")] == [64]
    assert [len(batch) for batch in split_step(lengths, "cuda", 288 * 128)] == [128, 128, 256]
    assert [len(batch) for batch in split_step(lengths, "cpu")] == [7] * 37 + [128, 125]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_step_of_nothing(device):
    assert split_step(np.empty(0, np.int32), device) == []


def test_padding():
    ids, mask = pad_texts([np.array([2, 9, 3]), np.array([2, 3])], pad=1)
    assert ids.tolist() == [[2, 9, 3], [2, 3, 1]]
    assert mask.tolist() == [[True, True, True], [True, True, False]]


def test_texts_without_a_token_are_padding():
    """A tokenizer may have no special tokens. A network cannot read a batch without a column."""
    ids, mask = pad_texts([np.empty(0, np.int32)] * 2, pad=1)
    assert (ids.tolist(), mask.tolist()) == ([[1], [1]], [[False], [False]])
    ids, mask = pad_texts([np.empty(0, np.int32), np.array([7])], pad=1)
    assert (ids.tolist(), mask.tolist()) == ([[1], [7]], [[False], [True]])
    assert by_length(np.array([0, 0, 3]), 3)[0].tolist() == [2]
