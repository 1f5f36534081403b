"""Predictions whose figures are known exactly, on every bundled dataset: constant, popular, drawn, right, all wrong."""

from __future__ import annotations

import numpy as np
import pytest
from protocol_reference import reference_psp, reference_ranking

from xmcbench import TopK, load_dataset
from xmcbench.metrics import METRICS, evaluate, inverse_propensity, label_frequency

#: Of each dataset: trec_eval takes a second for so many.
ROWS = 500

DATASETS = ("lf-debian-2k", "lf-debian-20k", "lf-debian-20k-dev", "lf-debian-de")


class Known:
    """A dataset, and what its true pairs say of a ranking."""

    def __init__(self, name):
        data = load_dataset(name)
        training = data.train_pairs()
        self.truth, self.frequency = data.test_pairs()[:ROWS], label_frequency(training)
        self.weights = inverse_propensity(training, *data.propensity)
        self.true = [self.truth.indices[slice(*self.truth.indptr[row : row + 2])] for row in range(self.truth.shape[0])]
        self.scored = [row for row, labels in enumerate(self.true) if len(labels)]

    def values(self, indices):
        """The figures of predictions [N, k]."""
        scores = np.where(indices < 0, -np.inf, -np.arange(indices.shape[1])).astype(np.float32)
        return evaluate(TopK(indices.astype(np.int32), scores), self.truth, inverse_propensity=self.weights).values

    def expect(self, indices):
        """The same by trec_eval, and PSP one pair at a time."""
        scores = np.where(indices < 0, -np.inf, -np.arange(indices.shape[1])).astype(np.float32)
        predictions = TopK(indices.astype(np.int32), scores)
        found = {name: values.mean() for name, values in reference_ranking(predictions, self.truth).items()}
        return found | {f"PSP@{k}": reference_psp(predictions, self.truth, self.weights, k) for k in (1, 3, 5)}

    def alike(self, order):
        """Every row gets the same 100 labels."""
        return np.tile(order[:100], (self.truth.shape[0], 1))


@pytest.fixture(scope="module", params=DATASETS)
def known(request):
    return Known(request.param)


def test_constant_scores_are_the_labels_by_id(known):
    labels = known.truth.shape[1]
    flat = TopK.from_scores(np.zeros((3, labels), np.float32), 100)
    assert flat.indices.tolist() == [list(range(100))] * 3
    found = known.values(known.alike(np.arange(labels)))
    assert found == pytest.approx(known.expect(known.alike(np.arange(labels))), abs=1e-12)
    hits = sum(int(np.sum(labels < 5)) for labels in known.true)
    assert found["P@5"] == pytest.approx(hits / 5 / len(known.scored), abs=1e-12)


def test_popularity(known):
    order = np.lexsort((np.arange(len(known.frequency)), -known.frequency))
    assert TopK.from_scores(known.frequency[None].astype(np.float32), 100).indices[0].tolist() == order[:100].tolist()
    found = known.values(known.alike(order))
    assert found == pytest.approx(known.expect(known.alike(order)), abs=1e-12)
    hits = sum(int(order[0] in labels) for labels in known.true)
    assert found["P@1"] == pytest.approx(hits / len(known.scored), abs=1e-12)


def test_random(known):
    rows, labels = known.truth.shape
    random = np.random.RandomState(0)
    order, start = random.permutation(labels), random.randint(labels, size=rows)
    drawn = order[(start[:, None] + np.arange(100)) % labels]
    found = known.values(drawn)
    assert found == pytest.approx(known.expect(drawn), abs=1e-12)
    assert found["R@100"] < 5 * 100 / labels  # chance is 100 of them


def test_the_oracle(known):
    """The true labels alone, those of the largest weight first."""
    indices = np.full((known.truth.shape[0], 100), -1)
    for row, labels in enumerate(known.true):
        best = labels[np.argsort(-known.weights[labels], kind="stable")][:100]
        indices[row, : len(best)] = best
    found = known.values(indices)
    assert {name for name in METRICS if METRICS[name].family in ("nDCG", "PSP")} <= {
        name for name, value in found.items() if value == pytest.approx(1, abs=1e-12)
    }
    counts = np.array([len(known.true[row]) for row in known.scored])
    for k in (1, 3, 5):
        assert found[f"P@{k}"] == pytest.approx(np.minimum(counts, k).mean() / k, abs=1e-12)
    for k in (1, 3, 5, 10, 100):
        assert found[f"R@{k}"] == pytest.approx((np.minimum(counts, k) / counts).mean(), abs=1e-12)


def test_shuffled_labels_score_exactly_zero(known):
    """Labels that are true nowhere in a row, as many as it has."""
    indices = np.full((known.truth.shape[0], 100), -1)
    for row, labels in enumerate(known.true):
        wrong = np.setdiff1d((labels[:100] + 1) % known.truth.shape[1], labels)
        indices[row, : len(wrong)] = wrong
    assert set(known.values(indices).values()) == {0.0}
