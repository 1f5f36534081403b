"""A step that is computed twice to save memory is the same step."""

import pytest
import torch

from xmcbench import UsageError
from xmcbench.methods.encoder.contrastive import TwoViews
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext


@pytest.fixture
def step(artifacts, checkpoint, stories):
    """Loss and gradients of one step with dropout; what the transformer was called with."""

    documents = TokenStore.of(artifacts, stories[0], open_tokenizer(checkpoint()), 32)
    place = DistributedContext.of("cpu")

    def take(cached_tokens, recomputed_layers, dropout=0.1, kind="bert"):
        encoder = open_encoder(checkpoint(kind, dropout=dropout), "native", seed=0).train()
        encoder.save_memory(cached_tokens, recomputed_layers)
        calls = []
        encoder.transformer.register_forward_pre_hook(
            lambda _, __, values: calls.append(values["inputs_embeds"].shape[:2].numel()), with_kwargs=True
        )
        torch.manual_seed(0)
        task = TwoViews(documents, documents, 16, 0.05, seed=0)
        loss = task.losses(0, encoder, place)["contrastive"]
        before = len(calls)
        loss.backward()
        gradients = {name: parameter.grad.clone() for name, parameter in encoder.named_parameters()}
        return loss.item(), gradients, calls[:before], calls[before:]

    return take


def same(one, other):
    assert one[0] == pytest.approx(other[0], abs=1e-6)
    for name, gradient in one[1].items():
        torch.testing.assert_close(gradient, other[1][name], atol=1e-5, rtol=1e-4, msg=name)


def test_cached_batches_have_the_gradient_of_the_whole(step):
    """64 tokens at a time: batches of few texts, whose loss is still that of all 16, and no dropout to compare."""
    plain, cached = step(None, False, dropout=0.0), step(64, False, dropout=0.0)
    same(plain, cached)
    assert plain[3] == []
    assert max(cached[2]) <= 64
    assert len(cached[2]) > len(plain[2])
    assert sorted(cached[3]) == sorted(cached[2])  # every batch is computed once more


def test_the_second_pass_has_the_dropout_of_the_first(step, monkeypatch):
    cached = step(64, False)
    monkeypatch.setattr("xmcbench.methods.encoder.network.checkpoint", lambda function, *batch, **_: function(*batch))
    held = step(64, False)
    same(held, cached)
    assert held[3] == []
    assert step(None, False)[0] != pytest.approx(cached[0], abs=1e-4)  # other batches, other dropout


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
def test_recomputed_layers_have_the_gradient_of_the_whole(step, kind):
    same(step(None, False, kind=kind), step(None, True, kind=kind))


def test_an_architecture_that_cannot_compute_its_layers_again(step):
    with pytest.raises(UsageError, match="recomputed_layers = True, but MPNetModel cannot") as raised:
        step(None, True, kind="mpnet")
    assert "cached_tokens" in raised.value.hint
    same(step(None, False, 0.0, "mpnet"), step(64, False, 0.0, "mpnet"))


def test_nothing_is_cached_while_encoding(checkpoint, monkeypatch):
    encoder = open_encoder(checkpoint(), "native", seed=0).eval()
    encoder.save_memory(8, False)
    monkeypatch.setattr("xmcbench.methods.encoder.network.checkpoint", None)
    ids = torch.ones((1, 3), dtype=torch.int64)
    with torch.inference_mode():
        assert encoder([ids], [ids > 0]).shape == (1, 16)
