"""Predictions whose figures are known exactly: by hand from the protocol, and on every bundled dataset."""

from __future__ import annotations

import itertools
from math import log2

import numpy as np
import pytest
from protocol_reference import (
    evaluate,
    make_pairs,
    make_predictions,
    reference_propensities,
    reference_psp,
    reference_ranking,
)
from scipy.sparse import csr_matrix

from xmcbench import TopK, load_dataset
from xmcbench.metrics import METRICS, label_frequency
from xmcbench.records import Truth
from xmcbench.runner.figures import weigh_labels

#: The discounts of the ranks 1 to 5, and of the ideal lists of 1, 2 and 3 true labels.
D1, D2, D3, D4, D5 = (1 / log2(rank + 1) for rank in range(1, 6))
IDEAL1, IDEAL2, IDEAL3 = D1, D1 + D2, D1 + D2 + D3

#: Three rows are scored; the third has no true label. The inverse propensity of label n is n + 1.
TRUTH = make_pairs([[0, 3], [1], [], [2, 3, 5]], 6)
WEIGHTS = np.arange(1.0, 7.0)
TRAINING = make_pairs([[0, 2], [0, 2], [0, 2, 3], [3, 1]], 6)


def values(predictions, truth=TRUTH, weights=WEIGHTS):
    found = evaluate(predictions, truth, inverse_propensity=weights).values
    assert list(found) == list(METRICS)
    return found


def expect(p, r, ndcg, psp):
    return dict(zip(METRICS, (*p, *r, *ndcg, *psp), strict=True))


def rank_alike(order):
    """Every row gets the same ranking."""
    return make_predictions([order] * 4, 6)


CONSTANT = expect(
    p=(1 / 3, (1 + 1 + 1) / 9, (2 + 1 + 2) / 15),
    r=(1 / 6, (1 / 2 + 1 + 1 / 3) / 3, (1 + 1 + 2 / 3) / 3, 1, 1),
    ndcg=(1 / 3, (D1 / IDEAL2 + D2 / IDEAL1 + D3 / IDEAL3) / 3, ((D1 + D4) / IDEAL2 + D2 + (D3 + D4) / IDEAL3) / 3),
    psp=(1 / (4 + 2 + 6), (1 + 2 + 3) / (5 + 2 + 13), (5 + 2 + 7) / (5 + 2 + 13)),
)


@pytest.mark.parametrize("scores", [np.zeros((4, 6)), np.full((4, 6), 0.3), csr_matrix(np.ones((4, 6)))])
def test_constant_scores_rank_labels_by_id(scores):
    predictions = TopK.from_scores(scores, 6)
    assert predictions.indices.tolist() == [list(range(6))] * 4
    assert values(predictions) == pytest.approx(CONSTANT, abs=1e-15)


def test_ties_of_two_levels():
    """Labels 3 to 5 score alike and above labels 0 to 2, which score alike too."""
    predictions = TopK.from_scores(np.tile([0.0, 0, 0, 1, 1, 1], (4, 1)), 6)
    assert values(predictions) == values(rank_alike([3, 4, 5, 0, 1, 2]))
    assert values(predictions) == pytest.approx(
        expect(
            p=(2 / 3, (1 + 0 + 2) / 9, (2 + 1 + 2) / 15),
            r=((1 / 2 + 0 + 1 / 3) / 3, (1 / 2 + 0 + 2 / 3) / 3, (1 + 1 + 2 / 3) / 3, 1, 1),
            ndcg=(
                2 / 3,
                (D1 / IDEAL2 + 0 + (D1 + D3) / IDEAL3) / 3,
                ((D1 + D4) / IDEAL2 + D5 / IDEAL1 + (D1 + D3) / IDEAL3) / 3,
            ),
            psp=((4 + 0 + 4) / 12, (4 + 0 + 10) / 20, (5 + 2 + 10) / 20),
        ),
        abs=1e-15,
    )


def test_popularity():
    """Labels in falling training frequency, ties by the lower id: 0 and 2 (3 pairs), 3 (2), 1 (1), 4 and 5 (none)."""
    predictions = TopK.from_scores(np.tile(label_frequency(TRAINING), (4, 1)), 6)
    assert predictions.indices[0].tolist() == [0, 2, 3, 1, 4, 5]
    assert values(predictions) == pytest.approx(
        expect(
            p=(1 / 3, (2 + 0 + 2) / 9, (2 + 1 + 2) / 15),
            r=((1 / 2) / 3, (1 + 0 + 2 / 3) / 3, (1 + 1 + 2 / 3) / 3, 1, 1),
            ndcg=(
                1 / 3,
                ((D1 + D3) / IDEAL2 + 0 + (D2 + D3) / IDEAL3) / 3,
                ((D1 + D3) / IDEAL2 + D4 / IDEAL1 + (D2 + D3) / IDEAL3) / 3,
            ),
            psp=(1 / 12, (5 + 0 + 7) / 20, (5 + 2 + 7) / 20),
        ),
        abs=1e-15,
    )


def test_random():
    """Every ranking of four labels once, which is what random scores are on average; labels 1 and 3 are true."""
    rankings = list(itertools.permutations(range(4)))
    found = values(make_predictions(rankings, 4), make_pairs([[1, 3]] * len(rankings), 4), WEIGHTS[:4])
    assert found == pytest.approx(
        expect(
            p=(1 / 2, 1 / 2, 2 / 5),
            r=(1 / 4, 3 / 4, 1, 1, 1),
            ndcg=(1 / 2, (D1 + D2 + D3) / 2 / IDEAL2, (D1 + D2 + D3 + D4) / 2 / IDEAL2),
            psp=((2 + 4) / 4 / 4, 3 / 4, 1),
        ),
        abs=1e-14,
    )


def oracle(truth, weights=WEIGHTS):
    """The true labels of each row and nothing else, those of the largest inverse propensity first."""
    return make_predictions([sorted(row.indices, key=lambda label: -weights[label]) for row in truth], 10)


def test_the_oracle_scores_exactly_one():
    truth = make_pairs([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5], []], 6)
    found = values(oracle(truth), truth)
    assert {name for name, value in found.items() if value != 1.0} == {"R@1", "R@3"}
    assert (found["R@1"], found["R@3"]) == (1 / 5, 3 / 5)


def test_the_oracle_of_few_true_labels():
    """P@k divides by k even so; everything that knows an ideal list is exactly 1."""
    found = values(oracle(TRUTH))
    assert {name for name, value in found.items() if value == 1.0} == {
        *("P@1", "R@3", "R@5", "R@10", "R@100"),
        *(name for name in METRICS if METRICS[name].family in ("nDCG", "PSP")),
    }
    assert (found["P@3"], found["P@5"]) == pytest.approx(((2 + 1 + 3) / 9, (2 + 1 + 3) / 15), abs=1e-15)
    assert found["R@1"] == pytest.approx((1 / 2 + 1 + 1 / 3) / 3, abs=1e-15)


def test_shuffled_labels_score_exactly_zero():
    """The oracle's labels, each exchanged for one that is not true in any row that names it."""
    truth = make_pairs([[0, 1], [2], [4]], 6)
    exchanged = np.array([3, 5, 0, 1, 2, 4, -1], np.int32)  # the last stands for no prediction
    right = oracle(truth)
    wrong = TopK(exchanged[right.indices], right.scores)
    assert set(values(wrong, truth).values()) == {0.0}


def test_new_names_for_labels_change_nothing():
    names = np.array([4, 2, 0, 5, 1, 3])
    truth = make_pairs([names[row.indices] for row in TRUTH], 6)
    weights = np.empty(6)
    weights[names] = WEIGHTS
    predictions = make_predictions([names] * 4, 6)
    assert values(predictions, truth, weights) == pytest.approx(CONSTANT, abs=1e-15)


def test_shuffled_rows_are_right_only_where_rows_agree():
    """Each row gets the oracle's answer of another; rows 0 and 3 share label 3."""
    right = oracle(TRUTH)
    order = [3, 0, 1, 2]
    found = values(TopK(right.indices[order], right.scores[order]))
    # Row 0 is given [5, 3, 2], row 1 is given [3, 0], row 3 is given nothing.
    assert found == pytest.approx(
        expect(
            p=(0, (1 + 0 + 0) / 9, (1 + 0 + 0) / 15),
            r=(0, 1 / 6, 1 / 6, 1 / 6, 1 / 6),
            ndcg=(0, D2 / IDEAL2 / 3, D2 / IDEAL2 / 3),
            psp=(0, 4 / 20, 4 / 20),
        ),
        abs=1e-15,
    )


#: Of each dataset: trec_eval takes a second for so many.
ROWS = 500

DATASETS = ("lf-debian-2k", "lf-debian-20k", "lf-debian-20k-dev", "lf-debian-de")


class Known:
    """A dataset, and what its true pairs say of a ranking."""

    def __init__(self, name):
        data = load_dataset(name)
        training = data.train_pairs()
        self.truth, self.frequency = data.test_pairs()[:ROWS], label_frequency(training)
        self.weights = weigh_labels(Truth.of(data), data.propensity)
        self.expected_weights = reference_propensities(training, *data.propensity)
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
        return found | {f"PSP@{k}": reference_psp(predictions, self.truth, self.expected_weights, k) for k in (1, 3, 5)}

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


def test_popularity_on_a_dataset(known):
    order = np.lexsort((np.arange(len(known.frequency)), -known.frequency))
    assert TopK.from_scores(known.frequency[None].astype(np.float32), 100).indices[0].tolist() == order[:100].tolist()
    found = known.values(known.alike(order))
    assert found == pytest.approx(known.expect(known.alike(order)), abs=1e-12)
    hits = sum(int(order[0] in labels) for labels in known.true)
    assert found["P@1"] == pytest.approx(hits / len(known.scored), abs=1e-12)


def test_random_on_a_dataset(known):
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


def test_shuffled_labels_score_exactly_zero_on_a_dataset(known):
    """Labels that are true nowhere in a row, as many as it has."""
    indices = np.full((known.truth.shape[0], 100), -1)
    for row, labels in enumerate(known.true):
        wrong = np.setdiff1d((labels[:100] + 1) % known.truth.shape[1], labels)
        indices[row, : len(wrong)] = wrong
    assert set(known.values(indices).values()) == {0.0}
