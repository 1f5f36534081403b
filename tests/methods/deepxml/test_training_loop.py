"""The loop that trains the networks of Astec, SiameseXML and AttentionXML, and the label classifiers."""

import numpy as np
import pytest
import torch

from xmcbench import progress
from xmcbench.methods.deepxml.network import constant, shuffle, train


@pytest.fixture
def parts():
    """A table and a layer, with rates of their own."""
    torch.manual_seed(0)
    return [(torch.nn.Embedding(4, 2, sparse=True), 0.3), (torch.nn.Linear(2, 1), 0.02)]


def loss_of(parts):
    (table, _), (layer, _) = parts
    return lambda rows: layer(table(torch.from_numpy(rows % 4))).square().mean()


@pytest.mark.parametrize(
    ("options", "shares"),
    [({}, [1, 0.775, 0.55, 0.325]), ({"schedule": constant}, [1, 1, 1, 1])],
    ids=["falling", "constant"],
)
def test_the_rate_of_each_epoch(parts, monkeypatch, options, shares):
    """1 - 0.9 e / 4, the same in both steps of an epoch, for either optimizer."""
    used = []
    for kind in (torch.optim.SparseAdam, torch.optim.Adam):

        def watch(self, *rest, kind=kind, step=kind.step):
            used.append((kind.__name__, self.param_groups[0]["lr"]))
            return step(self, *rest)

        monkeypatch.setattr(kind, "step", watch)
    train(parts, shuffle(4, 2, 0), loss_of(parts), epochs=4, seed=0, **options)
    for name, rate in (("SparseAdam", 0.3), ("Adam", 0.02)):
        assert [applied for kind, applied in used if kind == name] == pytest.approx(np.repeat(shares, 2) * rate)


def test_progress_is_reported(parts, monkeypatch):
    said, ended = [], []
    monkeypatch.setattr(progress, "steps", lambda *steps: said.append(steps))
    train(
        parts,
        shuffle(5, 2, 0),
        loss_of(parts),
        epochs=2,
        seed=0,
        after_epoch=lambda epoch: ended.append((epoch, len(said))),
    )
    assert said == [(step, 6) for step in range(1, 7)]
    assert ended == [(0, 3), (1, 6)]


def test_no_epoch_trains_nothing(parts, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "steps", lambda *steps: said.append(steps))
    before = parts[0][0].weight.clone()
    assert train(parts, shuffle(5, 2, 0), loss_of(parts), epochs=0, seed=0) == []
    assert torch.equal(parts[0][0].weight, before)
    assert said == []


def test_the_curve_has_the_mean_loss_of_each_epoch():
    layer = torch.nn.Linear(1, 1)
    losses = iter([1.0, 2.0, 6.0, 4.0])
    curve = train([(layer, 0.1)], shuffle(4, 2, 0), lambda _: layer.weight.sum() * 0 + next(losses), epochs=2, seed=0)
    assert curve == [[2, 1.5], [4, 5.0]]
    assert not layer.training
