"""Frozen networks: packed products against those of torch."""

import copy

import pytest
import torch

from xmcbench.methods.encoder import inference
from xmcbench.methods.encoder.inference import can_pack, freeze
from xmcbench.methods.encoder.opening import open_encoder

pytestmark = pytest.mark.skipif(not can_pack("cpu", "bf16"), reason="oneDNN does not multiply in bfloat16 here")


@pytest.fixture
def batch():
    """Texts of different lengths, and then of one."""
    ids = torch.randint(5, 20, (6, 17), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([17, 12, 9, 3, 1, 17])
    return ids, torch.arange(17) < lengths[:, None]


def plain_states(transformer, ids, mask, **options):
    transformer = copy.deepcopy(transformer).to(**options)
    transformer.set_attn_implementation("eager")
    return transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "mpnet"])
def test_packed_products_are_those_of_torch(checkpoint, batch, kind):
    transformer = open_encoder(checkpoint(kind), "native", 0).eval().transformer
    for layer in transformer.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.bias)  # zero in a new checkpoint
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
        inference._pack(linear)
        assert torch.equal(linear(states), expected)


def test_the_trained_network_stays_as_it_is(checkpoint, batch):
    """A frozen one in float32 has its parameters, not a second set of word embeddings."""
    transformer = open_encoder(checkpoint(), "native", 0).eval().transformer
    frozen = freeze(transformer, "cpu", "fp32")
    assert not [layer for layer in transformer.modules() if "forward" in vars(layer)]
    inner = dict(zip(frozen.__code__.co_freevars, frozen.__closure__, strict=True))["transformer"].cell_contents
    assert inner is not transformer
    assert {id(weights) for weights in inner.parameters()} == {id(weights) for weights in transformer.parameters()}


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
