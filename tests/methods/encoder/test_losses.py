import numpy as np
import pytest
import torch

from xmcbench.methods.encoder.contrastive import contrastive_loss, in_batch


def literal(logits, positives, ignored):
    """Equation 3 of MACLR, term by term, in float64."""
    total = 0.0
    for row in range(len(logits)):
        left = [j for j in range(logits.shape[1]) if not ignored[row, j] or positives[row, j]]
        denominator = sum(np.exp(logits[row, j]) for j in left)
        chosen = np.flatnonzero(positives[row])
        total -= sum(np.log(np.exp(logits[row, p]) / denominator) for p in chosen) / len(chosen)
    return total / len(logits)


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_equation(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (7, 11))
    positives, ignored = rng.random((7, 11)) < 0.2, rng.random((7, 11)) < 0.3
    positives[:, 3] = True
    found = contrastive_loss(*(torch.from_numpy(array) for array in (logits, positives, ignored)))
    assert float(found) == pytest.approx(literal(logits, positives, ignored), abs=1e-9)


def test_gradient():
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(0, 2, (4, 6))).requires_grad_()
    positives = torch.from_numpy(rng.random((4, 6)) < 0.3)
    positives[:, 0] = True
    ignored = torch.from_numpy(rng.random((4, 6)) < 0.3)
    assert torch.autograd.gradcheck(lambda scores: contrastive_loss(scores, positives, ignored), logits)


def test_one_positive_is_cross_entropy():
    torch.manual_seed(0)
    anchors, candidates = torch.randn(3, 8), torch.randn(7, 8)
    logits, own = in_batch(anchors, candidates, first=2, temperature=0.1)
    expected = torch.nn.functional.cross_entropy(anchors @ candidates.T / 0.1, torch.tensor([2, 3, 4]))
    torch.testing.assert_close(contrastive_loss(logits, own), expected)


def test_an_ignored_candidate_has_no_weight():
    logits = torch.tensor([[1.0, 50.0, 0.0]], requires_grad=True)
    own, ignored = torch.tensor([[True, False, False]]), torch.tensor([[True, True, False]])
    contrastive_loss(logits, own, ignored).backward()
    assert logits.grad[0, 1] == 0
    assert torch.isfinite(logits.grad).all()
