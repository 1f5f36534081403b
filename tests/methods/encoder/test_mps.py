"""Apple's GPU, mps, on machines without one: what torch is asked for goes to the CPU."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch.overrides import TorchFunctionMode

from xmcbench import Artifacts, Compute, Texts, Unavailable
from xmcbench.methods.attentionxml import AttentionXML
from xmcbench.methods.encoder.hardware import choose_device, choose_precision
from xmcbench.methods.sentbert import SentBERT


class OnApple(TorchFunctionMode):
    """Computes on the CPU what is to be computed on mps. Like mps, it has no float64."""

    def __init__(self):
        super().__init__()
        self.moved = 0

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        asked = [value for value in (*arguments, *named.values()) if self._is_mps(value)]
        arguments = tuple("cpu" if self._is_mps(value) else value for value in arguments)
        found = function(*arguments, **{key: "cpu" if self._is_mps(value) else value for key, value in named.items()})
        if asked:
            self.moved += 1
            assert not isinstance(found, torch.Tensor) or found.dtype != torch.float64
        return found

    @staticmethod
    def _is_mps(value):
        return isinstance(value, str | torch.device) and str(value).startswith("mps")


@pytest.fixture
def apple(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with OnApple() as mode:
        yield mode
    assert mode.moved, "nothing was computed on mps"


def test_the_device(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(Unavailable, match=r"torch finds no Apple GPU \(mps\) \(use --device cpu"):
        choose_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (choose_device("mps"), choose_device("auto")) == ("mps", "cpu")
    with pytest.raises(Unavailable, match="use --processes 1"):
        choose_device("mps", 2)


def test_the_precision():
    assert choose_precision("auto", "mps") == choose_precision("fp32", "mps") == "fp32"
    for precision in ("bf16", "fp16"):
        with pytest.raises(Unavailable, match=f"{precision} is not computed on mps"):
            choose_precision(precision, "mps")


def test_an_encoder_computes_what_the_cpu_does(apple, checkpoint, stories, tmp_path):
    raw_X, raw_Y, pairs = stories
    found = []
    for device in ("cpu", "mps"):
        values = {"finetune_steps": 3, "finetune_batch": 8, "precision": "fp32"}
        method = SentBERT(backbone=str(checkpoint()), **values)
        method.artifacts, method.compute = Artifacts(tmp_path / device), Compute(device)
        method.fit(raw_X, raw_Y, pairs)
        found.append(method.predict(raw_X, 5))
        assert method.notes["computed"] == {"device": device, "precision": "fp32"}
    # Batches of a training have the size that suits the device, so that sums are rounded otherwise.
    np.testing.assert_allclose(found[0].scores, found[1].scores, atol=1e-4)


def test_a_recurrent_network_computes_what_the_cpu_does(apple, tmp_path):
    rng = np.random.default_rng(0)
    raw_X = Texts.from_lists([" ".join(f"w{word}" for word in rng.integers(0, 30, 6)) for _ in range(40)])
    pairs = csr_matrix((np.ones(40, np.float32), (np.arange(40), np.arange(40) % 8)), shape=(40, 8))
    found = []
    for device in ("cpu", "mps"):
        sizes = {"dimensions": 8, "hidden": 6, "connected": 8, "leaf": 2, "branches": 2, "epochs": 2, "min_count": 1}
        method = AttentionXML(vectors="random", **sizes)
        method.artifacts, method.compute = Artifacts(tmp_path / device), Compute(device)
        method.fit(raw_X, Texts.from_lists([f"label {label}" for label in range(8)]), pairs)
        found.append(method.predict(raw_X, 8))
        assert method.notes["computed"] == {"device": device}
    np.testing.assert_allclose(found[0].scores, found[1].scores, atol=1e-6)
