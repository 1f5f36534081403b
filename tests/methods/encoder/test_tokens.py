"""Tokens of texts on disk, and the batches in which they are computed, with their padding."""

import hashlib
import itertools
import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench import Texts
from xmcbench.methods.encoder.batches import by_length, least_cost, pad_texts, round_up, split_step
from xmcbench.methods.encoder.opening import open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore


@pytest.fixture
def tokenizer(checkpoint):
    return open_tokenizer(checkpoint())


def test_a_long_text_is_cut_and_keeps_its_closing_token(artifacts, tokenizer):
    store = TokenStore.of(artifacts, Texts.from_lists(["the " * 500, "the apple"]), tokenizer, 10)
    assert store.lengths.tolist() == [10, 4]
    assert (store[0][0], store[0][-1]) == (2, 3)
    assert store.at_the_limit == 1


def test_a_tokenizer_is_given_a_bounded_number_of_texts_and_characters(artifacts, tokenizer, monkeypatch):
    """It takes many times the size of what it is given, however much of it is cut off."""
    texts = Texts.from_lists(["the apple", "the " * 9, "a", "the red bridge", "", "b " * 50, "old"])
    whole = TokenStore.of(artifacts, texts, tokenizer, 10)
    given = []

    class Watched:
        sha256, pad = "watched", tokenizer.pad

        def __call__(self, part, max_length):
            given.append([len(text) for text in part])
            return tokenizer(part, max_length)

    monkeypatch.setattr("xmcbench.methods.encoder.tokens._BATCH", 3)
    monkeypatch.setattr("xmcbench.methods.encoder.tokens._CHARACTERS", 40)
    parts = TokenStore.of(artifacts, texts, Watched(), 10)
    assert given == [[9], [36, 1], [14, 0], [100], [3]]
    assert [row.tolist() for row in map(parts.__getitem__, range(7))] == [whole[row].tolist() for row in range(7)]
    assert parts.at_the_limit == whole.at_the_limit


def test_a_long_text_is_cut_on_the_side_that_the_checkpoint_states(checkpoint, tokenizer, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "left")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": "right"}))
    assert open_tokenizer(folder).sha256 == tokenizer.sha256
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": "left"}))
    left = open_tokenizer(folder)
    assert left.sha256 != tokenizer.sha256
    text = "the old apple likes a red bridge"
    whole = tokenizer([text], 16)[0]
    assert tokenizer([text], 5) == [[*whole[:4], whole[-1]]]
    assert left([text], 5) == [[whole[0], *whole[-4:]]]
    # A longer text loses its prompt first.
    assert [open_tokenizer(path, "the old ").prompt_tokens for path in (checkpoint(), folder)] == [4, 0]


def test_the_checksum_of_a_tokenizer_is_that_of_its_file_and_prompt(checkpoint, tokenizer):
    from tokenizers import Tokenizer

    fast = Tokenizer.from_file(str(checkpoint() / "tokenizer.json"))
    fast.no_padding()
    fast.no_truncation()
    for prompt in ("", "the "):
        expected = hashlib.sha256(f"{fast.to_str()}{prompt}".encode()).hexdigest()
        assert open_tokenizer(checkpoint(), prompt).sha256 == expected


def test_an_empty_text_has_its_special_tokens(artifacts, tokenizer):
    store = TokenStore.of(artifacts, Texts.from_lists(["", " ", "apple"]), tokenizer, 10)
    assert store.lengths.tolist() == [2, 2, 3]


def test_no_text_at_all(artifacts, tokenizer):
    store = TokenStore.of(artifacts, Texts.from_lists([]), tokenizer, 10)
    assert len(store) == 0
    assert len(store.tokens) == 0


def test_made_once_for_texts_tokenizer_length_and_part(artifacts, tokenizer):
    texts = Texts.from_lists(["apple bridge"], ["candle"])

    def is_reused(*arguments, **options):
        before = artifacts.reused_s
        TokenStore.of(artifacts, *arguments, **options)
        return artifacts.reused_s > before

    assert not is_reused(texts, tokenizer, 10)
    assert is_reused(texts, tokenizer, 10)
    assert is_reused(Texts.from_lists(["apple bridge"], ["candle"]), tokenizer, 10)
    assert not is_reused(texts, tokenizer, 9)
    assert not is_reused(texts, tokenizer, 10, titles=True)
    assert not is_reused(Texts.from_lists(["apple"], ["candle"]), tokenizer, 10)


def test_titles_alone(artifacts, tokenizer):
    texts = Texts.from_lists(["apple bridge"], ["candle"])
    assert TokenStore.of(artifacts, texts, tokenizer, 10, titles=True).lengths.tolist() == [4]
    assert TokenStore.of(artifacts, texts, tokenizer, 10).lengths.tolist() == [5]


def test_another_process_maps_the_files_again(artifacts, tokenizer):
    import copy

    store = TokenStore.of(artifacts, Texts.from_lists(["apple"]), tokenizer, 10)
    assert store[0].tolist() == copy.copy(store)[0].tolist()
    assert store.__reduce__()[1] == (store.folder, 0)


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


def test_batches_are_widened_to_multiples_of_16_where_the_longest_text_allows_it():
    assert round_up(np.array([0, 1, 16, 17, 40, 37])).tolist() == [0, 16, 16, 32, 40, 40]
    assert round_up(np.array([5, 9])).tolist() == [9, 9]
    assert round_up(np.empty(0, np.int64)).tolist() == []
    ids, mask = pad_texts([np.array([2, 9])], pad=1, width=4)
    assert (ids.tolist(), mask.tolist()) == ([[2, 9, 1, 1]], [[True, True, False, False]])


def test_texts_without_a_token_are_padding():
    """A tokenizer may have no special tokens. A network cannot read a batch without a column."""
    ids, mask = pad_texts([np.empty(0, np.int32)] * 2, pad=1)
    assert (ids.tolist(), mask.tolist()) == ([[1], [1]], [[False], [False]])
    ids, mask = pad_texts([np.empty(0, np.int32), np.array([7])], pad=1)
    assert (ids.tolist(), mask.tolist()) == ([[1], [7]], [[False], [True]])
    assert by_length(np.array([0, 0, 3]), 3)[0].tolist() == [2]
