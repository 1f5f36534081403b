"""Frozen networks: packed products and our attention against those of torch and transformers."""

import copy

import pytest
import torch

from xmcbench.methods.encoder import hardware
from xmcbench.methods.encoder.hardware import can_pack, freeze
from xmcbench.methods.encoder.opening import open_encoder

pytestmark = pytest.mark.skipif(not can_pack("cpu", "bf16"), reason="oneDNN does not multiply in bfloat16 here")


@pytest.fixture
def batch():
    """Texts of different lengths, and then of one."""
    ids = torch.randint(5, 20, (6, 17), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([17, 12, 9, 3, 1, 17])
    return ids, torch.arange(17) < lengths[:, None]


@pytest.fixture
def no_amx(monkeypatch):
    known = {**torch.cpu.get_capabilities(), "amx_bf16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)


def plain_states(transformer, ids, mask, **options):
    transformer = copy.deepcopy(transformer).to(**options)
    transformer.set_attn_implementation("eager")
    return transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "mpnet"])
def test_packed_products_are_those_of_torch(checkpoint, batch, kind):
    transformer = open_encoder(checkpoint(kind), "native", 0).eval().transformer
    draw = torch.Generator().manual_seed(0)
    for layer in transformer.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.bias, generator=draw)  # zero in a new checkpoint
    with torch.inference_mode():
        found, expected = freeze(transformer, "cpu", "fp32")(*batch), plain_states(transformer, *batch)
    torch.testing.assert_close(found[batch[1]], expected[batch[1]], atol=1e-5, rtol=0)


def test_rounded_weights_give_the_same_bits(checkpoint, batch):
    """In bfloat16, packed weights are multiplied as the others are: earlier results stay what they are."""
    transformer = open_encoder(checkpoint(), "native", 0).eval().transformer
    with torch.inference_mode():
        linear = transformer.encoder.layer[0].intermediate.dense.to(torch.bfloat16)
        states = torch.randn(3, 7, linear.in_features).to(torch.bfloat16)
        expected = linear(states)
        hardware.pack(linear)
        assert torch.equal(linear(states), expected)


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
@pytest.mark.parametrize("padded", [True, False])
def test_our_attention_is_that_of_transformers(checkpoint, batch, no_amx, kind, padded):
    """As near to float32 as theirs is; an architecture whose attention has more to it keeps its own."""
    transformer = open_encoder(checkpoint(kind), "native", 0).eval().transformer
    draw = torch.Generator().manual_seed(0)
    for layer in transformer.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.weight, std=0.5, generator=draw)  # a new checkpoint attends to all tokens alike
    ids, mask = batch if padded else (batch[0], torch.ones_like(batch[1]))
    with torch.inference_mode():
        exact = plain_states(transformer, ids, mask)[mask]
        theirs = plain_states(transformer, ids, mask, dtype=torch.bfloat16)[mask]
        found = freeze(transformer, "cpu", "bf16")(ids, mask)[mask]
    assert found.dtype == torch.bfloat16
    error, accepted = (torch.linalg.norm(states.float() - exact) for states in (found, theirs))
    assert error <= 1.2 * accepted


def test_attention_by_its_definition():
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, generator=draw) for _ in range(3))
    hidden = torch.zeros(2, 1, 5, 5)
    hidden[0, ..., 3:] = torch.finfo(torch.float32).min
    for mask in (hidden, None):
        expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3)
        found, _ = hardware._attend(torch.nn.Module(), query, key, value, mask, scaling=0.3)
        torch.testing.assert_close(found, expected.transpose(1, 2))


def test_the_trained_network_stays_as_it_is(checkpoint, batch):
    """A frozen one in float32 has its parameters, but for the packed ones: not a second set of word embeddings."""
    transformer = open_encoder(checkpoint(), "native", 0).eval().transformer
    frozen = freeze(transformer, "cpu", "fp32")
    assert not [layer for layer in transformer.modules() if "forward" in vars(layer)]
    inner = dict(zip(frozen.__code__.co_freevars, frozen.__closure__, strict=True))["transformer"].cell_contents
    assert inner is not transformer
    assert not any(weights.is_mkldnn for weights in transformer.parameters())
    shared = {id(weights) for weights in inner.parameters() if not weights.is_mkldnn}
    linear = {id(layer.weight) for layer in transformer.modules() if isinstance(layer, torch.nn.Linear)}
    assert shared == {id(weights) for weights in transformer.parameters()} - linear


@pytest.mark.parametrize(
    ("device", "precision", "architecture", "packed"),
    [
        ("cpu", "fp32", "x86_64", True),
        ("cpu", "bf16", "x86_64", True),
        ("cpu", "fp16", "x86_64", False),
        ("cuda", "bf16", "x86_64", False),
        ("cpu", "fp32", "aarch64", False),
        ("cpu", "fp32", None, False),
    ],
)
def test_where_weights_are_packed(monkeypatch, device, precision, architecture, packed):
    if architecture:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": architecture})
    else:
        monkeypatch.delattr(torch.cpu, "get_capabilities")  # as in an older torch
    assert can_pack(device, precision) is packed
