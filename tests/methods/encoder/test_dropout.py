"""Dropout with masks that are cheap to draw on the CPU."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from xmcbench.methods.encoder.network import CheapDropout, cheap_dropout
from xmcbench.methods.encoder.opening import open_encoder
from xmcbench.methods.encoder.scratch import MaskedLanguageModel


def drop(values, rate, seed=0, training=True):
    torch.manual_seed(seed)
    with CheapDropout():
        return nn.functional.dropout(values, rate, training)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_drops_a_share_and_scales_the_rest(rate, kind):
    count = 200_003  # not a multiple of the elements that one random number serves
    found = drop(torch.ones(count, dtype=kind), rate)

    assert found.dtype is kind
    kept = found[found != 0]
    assert torch.allclose(kept.float(), torch.tensor(1 / (1 - rate)), rtol=1e-2 if kind is torch.bfloat16 else 1e-4)
    # Four standard deviations.
    assert abs(len(kept) / count - (1 - rate)) < 4 * (rate * (1 - rate) / count) ** 0.5


def test_each_place_in_a_random_number_drops_alike():
    found = drop(torch.ones(400_000), 0.3).reshape(-1, 4)
    shares = (found == 0).float().mean(0)
    assert torch.allclose(shares, torch.full((4,), 0.3), atol=0.006)
    together = ((found[:, 0] == 0) & (found[:, 1] == 0)).float().mean()
    assert abs(together - 0.09) < 0.006, "neighbors are dropped independently"


def test_masks_depend_on_the_seed_alone():
    values = torch.randn(3, 5, 7)
    assert torch.equal(drop(values, 0.5, seed=4), drop(values, 0.5, seed=4))
    assert not torch.equal(drop(values, 0.5, seed=4), drop(values, 0.5, seed=5))
    torch.manual_seed(4)
    with CheapDropout():
        first, second = (nn.functional.dropout(values, 0.5) for _ in range(2))
    assert not torch.equal(first, second)


def test_the_gradient_passes_where_the_value_does():
    values = torch.ones(1000, requires_grad=True)
    found = drop(values, 0.25)
    found.sum().backward()
    assert torch.equal(values.grad, found.detach())


def test_the_module_is_reached_and_evaluation_is_left_alone():
    layer, values = nn.Dropout(0.5), torch.randn(64)
    torch.manual_seed(1)
    with CheapDropout():
        through_the_module = layer(values)
    assert torch.equal(through_the_module, drop(values, 0.5, seed=1))
    torch.manual_seed(1)
    assert not torch.equal(through_the_module, layer(values)), "outside it is torch's own"
    assert torch.equal(drop(values, 0.5, training=False), values)
    with CheapDropout():
        assert torch.equal(layer.eval()(values), values)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 1.0), (1e-6, 1.0), (1.0, 0.0)])
def test_rates_at_the_ends(rate, expected):
    found = drop(torch.ones(1000), rate)
    assert torch.allclose(found, torch.full((1000,), expected), rtol=1e-5, atol=0)


@pytest.mark.parametrize("module", ["network", "scratch"])
def test_training_takes_these_masks_and_inference_none(module, checkpoint, monkeypatch):
    if module == "network":
        network = open_encoder(checkpoint(dropout=0.1), "native", seed=0)
    else:
        config = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
        network = MaskedLanguageModel(BertForMaskedLM(config), bf16=False)
    ids = torch.arange(1, 13).reshape(2, 6)
    batch = [ids], [ids > 0], *([[ids > 3]] if module == "scratch" else [])

    def compute(training, cheap):
        place = f"xmcbench.methods.encoder.{module}.cheap_dropout"
        monkeypatch.setattr(place, cheap_dropout if cheap else lambda device: nullcontext())
        torch.manual_seed(0)
        return network.train(training)(*batch)

    assert torch.equal(compute(True, True), compute(True, True))
    assert not torch.equal(compute(True, True), compute(True, False))
    assert torch.equal(compute(False, True), compute(False, False))


def test_other_devices_draw_their_own_masks():
    """On a GPU the mode would change nothing, and cost a sixth of a step."""
    assert isinstance(cheap_dropout("cpu"), CheapDropout)
    with cheap_dropout("cuda"):
        torch.manual_seed(1)
        found = nn.functional.dropout(torch.ones(64), 0.5)
    torch.manual_seed(1)
    assert torch.equal(found, nn.functional.dropout(torch.ones(64), 0.5))
