"""Losses, those of MACLR against a transcription of each equation, term by term in float64, and its derivative."""

import numpy as np
import pytest
import torch

from xmcbench.methods.encoder.contrastive import contrastive_loss, in_batch
from xmcbench.methods.maclr.first_stage import label_loss, label_loss_by_cluster


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


def equation_2(x, y):
    total = 0.0
    for i in range(len(x)):
        denominator = sum(torch.exp(x[i] @ y[j]) for j in range(len(y)))
        total = total - torch.log(torch.exp(x[i] @ y[i]) / denominator)
    return total


def equation_3(x, y, clusters):
    total = 0.0
    for i in range(len(x)):
        positives = [p for p in range(len(x)) if clusters[p] == clusters[i]]
        denominator = sum(torch.exp(x[i] @ y[j]) for j in range(len(x)))
        total = total - sum(torch.log(torch.exp(x[i] @ y[p]) / denominator) for p in positives) / len(positives)
    return total


def equation_4(h, twins, labels, ignored=None):
    total = 0.0
    for i in range(len(h)):
        own = torch.exp(h[i] @ twins[i])
        left = [j for j in range(len(labels)) if ignored is None or not ignored[i, j]]
        total = total - torch.log(own / (own + sum(torch.exp(h[i] @ labels[j]) for j in left)))
    return total


def equation_4_of_the_code(h, twins, labels, clusters):
    total = 0.0
    for i in range(len(h)):
        positives = [p for p in range(len(h)) if clusters[p] == clusters[i]]
        denominator = sum(torch.exp(h[i] @ vector) for vector in (*twins, *labels))
        total = total - sum(torch.log(torch.exp(h[i] @ twins[p]) / denominator) for p in positives) / len(positives)
    return total


def draw(seed, *rows):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(size=(count, 6))).requires_grad_() for count in rows]


def same(found, expected, inputs):
    """Equal values and equal gradients."""
    assert found.item() == pytest.approx(expected.item(), abs=1e-9)
    for one, other in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def mask(clusters):
    return torch.from_numpy(clusters[:, None] == clusters)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_cluster_loss(seed, temperature):
    x, y = draw(seed, 9, 9)
    clusters = np.random.default_rng(seed).integers(0, 4, 9)
    found = contrastive_loss(x @ y.T / temperature, mask(clusters))
    same(found, equation_3(x / temperature, y, clusters) / 9, [x, y])


def test_singleton_clusters_are_equation_2():
    x, y = draw(5, 8, 8)
    found = contrastive_loss(x @ y.T, mask(np.arange(8)))
    same(found, equation_2(x, y) / 8, [x, y])
    same(contrastive_loss(x @ y.T, mask(np.arange(8))), contrastive_loss(*in_batch(x, y, 0, 1.0)), [x, y])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_label_loss(seed, temperature):
    h, twins, labels = draw(seed, 7, 7, 5)
    found = label_loss(h, twins, labels, temperature)
    same(found, equation_4(h / temperature, twins, labels) / 7, [h, twins, labels])


def test_an_ignored_label_leaves_the_denominator():
    h, twins, labels = draw(1, 7, 7, 5)
    ignored = np.random.default_rng(1).random((7, 5)) < 0.4
    ignored[0] = True
    found = label_loss(h, twins, labels, 1.0, torch.from_numpy(ignored))
    same(found, equation_4(h, twins, labels, ignored) / 7, [h, twins, labels])


@pytest.mark.parametrize("seed", range(4))
def test_label_loss_of_the_code(seed):
    h, twins, labels = draw(seed, 7, 7, 5)
    clusters = np.random.default_rng(seed).integers(0, 3, 7)
    found = label_loss_by_cluster(h, twins, labels, 1.0, mask(clusters))
    same(found, equation_4_of_the_code(h, twins, labels, clusters) / 7, [h, twins, labels])


def test_gradcheck():
    h, twins, labels = draw(2, 4, 4, 3)
    ignored = torch.zeros(4, 3, dtype=torch.bool)
    ignored[1, 2] = True
    positive = mask(np.array([0, 0, 1, 2]))
    assert torch.autograd.gradcheck(lambda *vectors: label_loss(*vectors, 0.5, ignored), (h, twins, labels))
    assert torch.autograd.gradcheck(
        lambda *vectors: label_loss_by_cluster(*vectors, 0.5, positive, ignored), (h, twins, labels)
    )


def test_float32_keeps_six_digits():
    h, twins, labels = draw(3, 64, 64, 32)
    clusters = np.random.default_rng(3).integers(0, 20, 64)
    h, twins, labels = (torch.nn.functional.normalize(vectors.detach(), dim=1) for vectors in (h, twins, labels))
    expected = (equation_3(h / 0.5, twins, clusters) + equation_4(h / 0.5, twins, labels)) / 64
    h, twins, labels = (vectors.float() for vectors in (h, twins, labels))
    found = contrastive_loss(h @ twins.T / 0.5, mask(clusters)) + label_loss(h, twins, labels, 0.5)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
