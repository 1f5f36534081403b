import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from xmcbench.methods.encoder.epochs import BalancedEpochs
from xmcbench.methods.encoder.fine_tuning import effort


def pairs_of_labels(labels, of, each=1):
    """``each`` pairs of every one of the first ``labels`` labels, of ``of``."""
    rows, columns = np.arange(labels * each), np.repeat(np.arange(labels), each)
    return csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(rows), of))


def test_the_steps_of_the_paper():
    """2,000 at 1% of the labels, 10,000 at 5% (MACLR, section 5.1)."""
    options = {"steps": 2000, "batch": 256, "rate": 5e-6, "growth": "labels"}
    assert effort(pairs_of_labels(10, 1000), **options).steps == 2000
    assert effort(pairs_of_labels(50, 1000, each=7), **options).steps == 10_000
    assert effort(pairs_of_labels(1, 10**6), **options).steps == 1
    assert effort(pairs_of_labels(50, 1000), **{**options, "growth": "fixed"}).steps == 2000


def test_passes_over_the_pairs_at_most():
    options = {"steps": 60, "batch": 32, "rate": 2e-5}
    assert effort(pairs_of_labels(320, 400), **options, epochs=2).steps == 20
    assert effort(pairs_of_labels(320, 400), **options, epochs=0.01).steps == 1
    assert effort(pairs_of_labels(5, 400), **options, epochs=3).steps == 3  # 5 pairs are a batch
    assert effort(pairs_of_labels(320, 400), **options, epochs=1000).steps == 60


def test_few_pairs_have_a_lower_rate():
    pairs = random(60, 40, 0.1, "csr", random_state=0)
    assert effort(pairs, steps=1, batch=2, rate=1e-4, full_rate_pairs=4 * pairs.nnz).rate == pytest.approx(5e-5)
    assert effort(pairs, steps=1, batch=2, rate=1e-4, full_rate_pairs=pairs.nnz).rate == 1e-4
    assert effort(pairs, steps=1, batch=2, rate=1e-4).rate == 1e-4


def test_balanced_draws_take_every_label_once():
    labels = np.array([5] * 60 + [2, 2, 9, 7])
    drawn = BalancedEpochs(labels, 2, seed=0)
    steps = [drawn(step) for step in range(40)]
    for step in range(0, 40, 2):
        assert sorted(labels[np.concatenate(steps[step : step + 2])]) == [2, 5, 7, 9]
    assert len({int(pair) for pair in np.concatenate(steps) if labels[pair] == 5}) > 10
    assert drawn(3).tolist() == BalancedEpochs(labels, 2, seed=0)(3).tolist()
    assert len(BalancedEpochs(labels, 100, seed=0)(0)) == 4
