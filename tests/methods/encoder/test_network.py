import copy
import json
import shutil

import numpy as np
import pytest
import torch
import transformers

from xmcbench import Texts, UsageError
from xmcbench.methods.encoder.batches import pad_texts
from xmcbench.methods.encoder.network import POOLINGS, pool
from xmcbench.methods.encoder.opening import longest_input, open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore

KINDS = ["bert", "distilbert", "roberta", "mpnet"]


def vectors(encoder, store):
    ids, mask = pad_texts([store[row] for row in range(len(store))], store.pad)
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


def by_definition(states, pooling):
    """The vector of the states of one text, [tokens, hidden]."""
    count = len(states)
    places = np.arange(1, count + 1)[:, None]
    return {
        "cls": lambda: states[0],
        "max": lambda: states.max(0),
        "mean": lambda: states.sum(0) / count,
        "mean_sqrt_len_tokens": lambda: states.sum(0) / np.sqrt(count),
        "weightedmean": lambda: (states * places).sum(0) / places.sum(),
        "lasttoken": lambda: states[-1],
    }[pooling]()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_without_a_token_has_the_zero_vector(pooling):
    """Except by its first state. The vectors of the others are what they are without it, and so are gradients."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(4, 3, 5)).astype(np.float32)
    lengths = [3, 0, 1, 2]
    mask = torch.from_numpy(np.arange(3) < np.array(lengths)[:, None])
    leaf = torch.from_numpy(states).requires_grad_()
    found = pool(pooling, leaf, mask)
    for row in (0, 2, 3):
        expected = by_definition(states[row, : lengths[row]].astype(np.float64), pooling)
        np.testing.assert_allclose(found[row].detach().numpy(), expected, atol=1e-6)
    assert found[1].tolist() == (states[1, 0] if pooling == "cls" else np.zeros(5)).tolist()
    found.sum().backward()
    assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("kind", KINDS)
def test_texts_without_a_token_in_a_network(checkpoint, kind):
    encoder = open_encoder(checkpoint(kind), "native", 0).eval()
    for texts in ([[], []], [[5, 6, 7], []]):
        ids, mask = (torch.from_numpy(array) for array in pad_texts([np.array(text, np.int32) for text in texts], 0))
        with torch.no_grad():
            for found in (encoder([ids], [mask]), encoder.frozen()(ids, mask)):
                assert torch.isfinite(found).all()
                assert found[1].tolist() == [0.0] * 16


def test_paper_head(checkpoint, store):
    """[CLS] -> Dense 512 tanh; drawn from the seed."""
    encoder, same, other = (open_encoder(checkpoint(), "paper", seed).eval() for seed in (0, 0, 1))
    ids, mask = pad_texts([store[0]], 0)
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
    exact, rough = (
        open_encoder(checkpoint(), "native", 0, precision=precision).eval() for precision in ("fp32", "bf16")
    )
    assert vectors(rough, store).dtype == np.float32
    np.testing.assert_allclose(vectors(rough, store), vectors(exact, store), atol=0.03)


@pytest.mark.parametrize(("precision", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_inference_in_16_bits_is_by_a_copy(checkpoint, store, precision, kind):
    """The vectors are those of weights that were rounded before; the encoder keeps its own."""
    encoder = open_encoder(checkpoint(), "native", 0, precision=precision).eval()
    ids, mask = (torch.from_numpy(array) for array in pad_texts([store[row] for row in range(len(store))], store.pad))
    with torch.inference_mode():
        exact, found = (
            network.frozen()(ids, mask) for network in (open_encoder(checkpoint(), "native", 0).eval(), encoder)
        )
        transformer = copy.deepcopy(encoder.transformer).to(kind)
        states = transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        expected = torch.nn.functional.normalize(pool("mean", states, mask), dim=1)
    assert states.dtype == kind
    assert (found.dtype, expected.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, atol=0.03, rtol=0)
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}


def test_weights_there_and_back(checkpoint, store):
    one, other = open_encoder(checkpoint(), "paper", 0).eval(), open_encoder(checkpoint(), "paper", 1).eval()
    other.load_weights(one.weights())
    assert np.array_equal(vectors(one, store), vectors(other, store))


def change(encoder, rows):
    """An encoder with other words in these rows, and another bias."""
    table = encoder.transformer.get_input_embeddings().weight
    with torch.no_grad():
        table[rows] += 1 + torch.arange(len(rows))[:, None]
        next(parameter for name, parameter in encoder.named_parameters() if name.endswith("bias")).add_(0.5)
    return encoder


@pytest.mark.parametrize("kind", KINDS)
def test_weights_hold_the_words_that_training_has_changed(checkpoint, store, kind):
    plain = open_encoder(checkpoint(kind), "native", 0).eval()
    assert plain.weights()["changed_words"].tolist() == []
    encoder = change(open_encoder(checkpoint(kind), "native", 0), [7, 9])
    weights = encoder.weights()
    assert weights["changed_words"].tolist() == [7, 9]
    assert weights["changed_word_embeddings"].shape == (2, 16)
    table = encoder.transformer.get_input_embeddings().weight
    assert all(array.shape != tuple(table.shape) for array in weights.values())
    kept = {name: array.copy() for name, array in weights.items()}
    change(encoder, [7, 8])  # a copy: what is trained later does not reach it
    assert all(np.array_equal(weights[name], array) for name, array in kept.items())


@pytest.mark.parametrize("kind", KINDS)
def test_weights_replace_all_that_was_there(checkpoint, store, kind):
    """Words that only the other one had changed are those of the checkpoint again."""
    one = change(open_encoder(checkpoint(kind), "native", 0), [7, 9]).eval()
    other = change(open_encoder(checkpoint(kind), "native", 0), [9, 11, 12]).eval()
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


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (lambda: transformers.GPT2Config(n_positions=32), 32),  # under a name of its own
        (lambda: transformers.LongformerConfig(max_position_embeddings=66), 64),
        (lambda: transformers.XLMRobertaXLConfig(max_position_embeddings=66), 64),
        (transformers.XLNetConfig, 2**31 - 1),  # relative positions
    ],
)
def test_longest_input_of_other_architectures(tmp_path, config, expected):
    config().save_pretrained(tmp_path)
    assert longest_input(tmp_path) == expected


@pytest.fixture
def broken(checkpoint, tmp_path):
    return shutil.copytree(checkpoint(), tmp_path / "broken")


def test_a_checkpoint_that_lacks_weights(broken):
    """transformers would draw them at random and only warn."""
    from safetensors.numpy import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    kept = {name: array for name, array in weights.items() if "layer.1.output.dense" not in name}
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


@pytest.mark.parametrize("wrong", [{"hidden_size": "16"}, {"num_attention_heads": 0}])
def test_values_that_a_network_cannot_be_built_of(broken, wrong):
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, **wrong}))
    with pytest.raises(UsageError, match="is not a checkpoint of an encoder"):
        open_encoder(broken, "native", 0)


def test_a_tokenizer_without_padding(broken):
    config = json.loads((broken / "tokenizer_config.json").read_text())
    del config["pad_token"]
    (broken / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="has no usable tokenizer: it has no padding token"):
        open_tokenizer(broken)


def test_no_tokenizer(broken):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(UsageError, match="has no tokenizer"):
        open_tokenizer(broken)
