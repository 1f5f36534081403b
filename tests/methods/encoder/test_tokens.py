import hashlib
import json
import shutil

import pytest

from xmcbench import Texts
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
