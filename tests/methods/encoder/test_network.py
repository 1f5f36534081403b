import json
import shutil

import numpy as np
import pytest
import torch

from xmcbench import Texts, UsageError
from xmcbench.methods.encoder.opening import longest_input, open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore, padded

KINDS = ["bert", "distilbert", "roberta", "mpnet"]


def vectors(encoder, store):
    ids, mask = padded([store[row] for row in range(len(store))], store.pad)
    with torch.no_grad():
        return encoder([torch.from_numpy(ids)], [torch.from_numpy(mask)]).numpy()


@pytest.fixture
def store(artifacts, checkpoint):
    texts = Texts.from_lists(["the old apple", "", "red bridge and green island", "zyzzyva \u4e2d"])
    return TokenStore.of(artifacts, texts, open_tokenizer(checkpoint()), 32)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("kind", KINDS)
def test_native_head_equals_sentence_transformers(checkpoint, artifacts, kind, pooling):
    from sentence_transformers import SentenceTransformer

    folder = checkpoint(kind, pooling=pooling)
    reference = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    texts = ["the old apple", "", "red bridge and green island", "zyzzyva \u4e2d"]
    expected = reference.encode(texts, show_progress_bar=False)
    encoder = open_encoder(folder, "native", seed=0)
    encoder.eval()
    store = TokenStore.of(artifacts, Texts.from_lists(texts), open_tokenizer(folder), 32)
    assert encoder.pooling == pooling
    np.testing.assert_allclose(vectors(encoder, store), expected, atol=2e-6)


def test_paper_head(checkpoint, store):
    """[CLS] -> Dense 512 tanh; drawn from the seed."""
    encoder, same, other = (open_encoder(checkpoint(), "paper", seed).eval() for seed in (0, 0, 1))
    ids, mask = padded([store[0]], 0)
    with torch.no_grad():
        states = encoder.transformer(torch.from_numpy(ids), torch.from_numpy(mask).long()).last_hidden_state[:, 0]
        expected = torch.tanh(encoder.layers[0](states)).numpy()
    assert expected.shape == (1, 512)
    np.testing.assert_allclose(vectors(encoder, store)[:1], expected, atol=1e-6)
    assert np.array_equal(vectors(same, store), vectors(encoder, store))
    assert not np.array_equal(vectors(other, store), vectors(encoder, store))


def test_the_projection_works_in_training_only(checkpoint, store):
    plain = open_encoder(checkpoint(dropout=0.0), "cls", 0).eval()
    projected = open_encoder(checkpoint(dropout=0.0), "cls", 0, projection=True)
    assert np.array_equal(vectors(projected.eval(), store), vectors(plain, store))
    assert not np.allclose(vectors(projected.train(), store), vectors(plain, store))


def test_bf16_is_near_fp32_and_leaves_float32(checkpoint, store):
    exact, rough = (open_encoder(checkpoint(), "native", 0, precision=each).eval() for each in ("fp32", "bf16"))
    assert vectors(rough, store).dtype == np.float32
    np.testing.assert_allclose(vectors(rough, store), vectors(exact, store), atol=0.03)


def test_weights_there_and_back(checkpoint, store):
    one, other = open_encoder(checkpoint(), "paper", 0).eval(), open_encoder(checkpoint(), "paper", 1).eval()
    other.load_weights(one.weights())
    assert np.array_equal(vectors(one, store), vectors(other, store))


def changed(encoder, rows):
    """An encoder with other words in these rows, and another bias."""
    table = encoder.transformer.get_input_embeddings().weight
    with torch.no_grad():
        table[rows] += 1 + torch.arange(len(rows))[:, None]
        next(each for name, each in encoder.named_parameters() if name.endswith("bias")).add_(0.5)
    return encoder


@pytest.mark.parametrize("kind", KINDS)
def test_weights_hold_the_words_that_training_has_changed(checkpoint, store, kind):
    plain = open_encoder(checkpoint(kind), "native", 0).eval()
    assert plain.weights()["changed_words"].tolist() == []
    encoder = changed(open_encoder(checkpoint(kind), "native", 0), [7, 9])
    weights = encoder.weights()
    assert weights["changed_words"].tolist() == [7, 9]
    assert weights["changed_word_embeddings"].shape == (2, 16)
    table = encoder.transformer.get_input_embeddings().weight
    assert all(each.shape != tuple(table.shape) for each in weights.values())
    kept = {name: each.copy() for name, each in weights.items()}
    changed(encoder, [7, 8])  # a copy: what is trained later does not reach it
    assert all(np.array_equal(weights[name], each) for name, each in kept.items())


@pytest.mark.parametrize("kind", KINDS)
def test_weights_replace_all_that_was_there(checkpoint, store, kind):
    """Words that only the other one had changed are those of the checkpoint again."""
    one = changed(open_encoder(checkpoint(kind), "native", 0), [7, 9]).eval()
    other = changed(open_encoder(checkpoint(kind), "native", 0), [9, 11, 12]).eval()
    plain = open_encoder(checkpoint(kind), "native", 0).eval()
    first, before = plain.weights(), plain.digest()
    other.load_weights(one.weights())
    assert other.digest() == one.digest() != before
    assert np.array_equal(vectors(one, store), vectors(other, store))
    assert other.weights()["changed_words"].tolist() == [7, 9]
    other.load_weights(first)
    assert other.digest() == before
    one.load_weights(one.weights())
    assert one.weights()["changed_words"].tolist() == [7, 9]


@pytest.mark.parametrize(("kind", "expected"), [("bert", 64), ("roberta", 64), ("mpnet", 64), ("distilbert", 512)])
def test_longest_input(checkpoint, kind, expected):
    folder = checkpoint(kind)
    assert longest_input(folder) == expected
    encoder = open_encoder(folder, "native", 0).eval()
    with torch.no_grad():
        encoder([torch.full((1, expected), 5)], [torch.ones((1, expected), dtype=torch.bool)])


@pytest.fixture
def broken(checkpoint, tmp_path):
    return shutil.copytree(checkpoint(), tmp_path / "broken")


def test_a_checkpoint_that_lacks_weights(broken):
    """transformers would draw them at random and only warn."""
    from safetensors.numpy import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    kept = {name: each for name, each in weights.items() if "layer.1.output.dense" not in name}
    save_file(kept, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(UsageError, match="lacks 2 weights of its architecture"):
        open_encoder(broken, "native", 0)


def test_a_checkpoint_of_another_shape(broken):
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    with pytest.raises(UsageError, match="broken"):
        open_encoder(broken, "native", 0)


@pytest.mark.parametrize(("file", "content"), [("config.json", "{}"), ("model.safetensors", "not weights")])
def test_files_that_are_none(broken, file, content):
    (broken / file).write_text(content)
    with pytest.raises(UsageError, match="is not a checkpoint of an encoder"):
        open_encoder(broken, "native", 0)


def test_no_tokenizer(broken):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(UsageError, match="has no tokenizer"):
        open_tokenizer(broken)
