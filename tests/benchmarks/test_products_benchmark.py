"""Gradients of chosen products, against looking the vectors up and against those of all products.

The bars: a step of SiameseXML's encoder, from the vectors on, is at least 1.5 times as fast as with vectors that are
looked up, with the default batch and with the one of LF-YSO-25K. A step of classifiers, from the vectors on, is at
least 1.2 times as fast as with all products.
"""

from __future__ import annotations

import time
from functools import partial

import pytest
import torch

from xmcbench.methods.deepxml.classifiers import contrastive_loss, select_products


@pytest.mark.parametrize(("batch", "negatives"), [(1024, 5), (4096, 40)])
@pytest.mark.benchmark(group="the hardest documents of a batch")
def test_encoder(benchmark, batch, negatives):
    torch.manual_seed(0)
    labels = torch.nn.functional.normalize(torch.randn(batch, 512), dim=1).requires_grad_()
    documents = torch.nn.functional.normalize(labels.detach() + torch.randn(batch, 512) / 2, dim=1).requires_grad_()
    rows = torch.arange(batch).repeat_interleave(negatives)

    def gradients(products):
        with torch.no_grad():
            every = labels @ documents.T
            chosen = every.topk(negatives, dim=1).indices.flatten()
        return _gradients(products(every, labels, documents, rows, chosen), (labels, documents))

    def look_up(every, left, right, rows, columns):
        return torch.einsum("nd,nmd->nm", left, right[columns.view(batch, -1)]).flatten()

    _compare(benchmark, partial(gradients, select_products), partial(gradients, look_up), 1.5)


@pytest.mark.parametrize("width", [512, 2048])
@pytest.mark.benchmark(group="the labels of a batch")
def test_classifiers(benchmark, width):
    torch.manual_seed(0)
    documents = torch.nn.functional.normalize(torch.randn(256, width), dim=1)
    labels = torch.nn.functional.normalize(torch.randn(4000, width), dim=1).requires_grad_()
    rows, columns = torch.arange(256).repeat_interleave(60), torch.randint(4000, (256 * 60,))

    def choose():
        with torch.no_grad():
            every = documents @ labels.T
        return _gradients(select_products(every, documents, labels, rows, columns), (labels,))

    def of_all():
        return _gradients((documents @ labels.T)[rows, columns], (labels,))

    _compare(benchmark, choose, of_all, 1.2)


def _gradients(cosines, of):
    return torch.autograd.grad(contrastive_loss(cosines, torch.zeros_like(cosines, dtype=torch.bool), 0.9, 3.0), of)


def _compare(benchmark, ours, other, bar):
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        expected = other()
        times.append(time.perf_counter() - begin)
    found = benchmark.pedantic(ours, rounds=6, warmup_rounds=1)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)
    ratio = min(times) / benchmark.stats.stats.min
    print(f"\n{ratio:.1f} times as fast: {benchmark.stats.stats.min:.3f} s, the other way {min(times):.3f} s")
    assert ratio >= bar
