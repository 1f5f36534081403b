import numpy as np
import pytest

from xmcbench import Texts
from xmcbench.methods.encoder.opening import open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore, by_length, padded


@pytest.fixture
def tokenizer(checkpoint):
    return open_tokenizer(checkpoint())


def test_a_long_text_is_cut_and_keeps_its_closing_token(artifacts, tokenizer):
    store = TokenStore.of(artifacts, Texts.from_lists(["the " * 500, "the apple"]), tokenizer, 10)
    assert store.lengths.tolist() == [10, 4]
    assert (store[0][0], store[0][-1]) == (2, 3)
    assert store.at_the_limit == 1


def test_an_empty_text_has_its_special_tokens(artifacts, tokenizer):
    store = TokenStore.of(artifacts, Texts.from_lists(["", " ", "apple"]), tokenizer, 10)
    assert store.lengths.tolist() == [2, 2, 3]


def test_no_text_at_all(artifacts, tokenizer):
    store = TokenStore.of(artifacts, Texts.from_lists([]), tokenizer, 10)
    assert len(store) == 0
    assert len(store.tokens) == 0


def test_made_once_for_texts_tokenizer_length_and_part(artifacts, tokenizer):
    texts = Texts.from_lists(["apple bridge"], ["candle"])

    def reused(*arguments, **options):
        before = artifacts.reused_s
        TokenStore.of(artifacts, *arguments, **options)
        return artifacts.reused_s > before

    assert not reused(texts, tokenizer, 10)
    assert reused(texts, tokenizer, 10)
    assert reused(Texts.from_lists(["apple bridge"], ["candle"]), tokenizer, 10)
    assert not reused(texts, tokenizer, 9)
    assert not reused(texts, tokenizer, 10, titles=True)
    assert not reused(Texts.from_lists(["apple"], ["candle"]), tokenizer, 10)


def test_titles_alone(artifacts, tokenizer):
    texts = Texts.from_lists(["apple bridge"], ["candle"])
    assert TokenStore.of(artifacts, texts, tokenizer, 10, titles=True).lengths.tolist() == [4]
    assert TokenStore.of(artifacts, texts, tokenizer, 10).lengths.tolist() == [5]


def test_batches_hold_every_row_once_within_the_budget():
    lengths = np.random.default_rng(0).integers(1, 100, 500)
    batches = by_length(lengths, 256)
    assert sorted(np.concatenate(batches)) == list(range(500))
    assert all(len(batch) * lengths[batch].max() <= 256 for batch in batches)
    assert lengths[batches[0]].max() == lengths.max()
    assert [len(batch) for batch in by_length(np.array([900]), 256)] == [1]


def test_padding():
    ids, mask = padded([np.array([2, 9, 3]), np.array([2, 3])], pad=1)
    assert ids.tolist() == [[2, 9, 3], [2, 3, 1]]
    assert mask.tolist() == [[True, True, True], [True, True, False]]


def test_another_process_maps_the_files_again(artifacts, tokenizer):
    import copy

    store = TokenStore.of(artifacts, Texts.from_lists(["apple"]), tokenizer, 10)
    assert store[0].tolist() == copy.copy(store)[0].tolist()
    assert store.__reduce__()[1] == (store.folder, 0)
