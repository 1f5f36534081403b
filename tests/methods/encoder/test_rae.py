"""RAE: the memory of labels and instances against a plain implementation, and texts without known pairs."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Texts, TopK
from xmcbench.methods.rae import RAE, aggregate

NEW = Texts.from_lists(["the old apple", "red bridge and green island", ""], ["candle forest", "garden", ""])


@pytest.fixture
def fitted(checkpoint, stories, artifacts):
    def fit(pairs=None, **values):
        short = {"instance_length": 24, "label_length": 16, "precision": "fp32", "finetune_steps": 2}
        method = RAE(backbone=str(checkpoint()), finetune_batch=8, **{**short, **values})
        method.artifacts = artifacts
        method.fit(*stories[:2], stories[2] if pairs is None else pairs)
        return method

    return fit


def plain(by_text, by_instance, known, temperature, mix):
    """The score of each label: one softmax over labels and instances, and the sum of the weights that speak for it."""
    both = np.concatenate([by_text, by_instance])
    weights = np.exp((both - both.max()) / temperature)
    weights /= weights.sum()
    return (1 - mix) * weights[: len(by_text)] + mix * weights[len(by_text) :] @ known


@pytest.mark.parametrize("mix", [0.1, 0.8])
def test_labels_are_ranked_by_the_weights_of_the_whole_memory(mix):
    rng = np.random.default_rng(0)
    known = (rng.random((7, 5)) < 0.4).astype(np.float32)
    by_text, by_instance = rng.uniform(-1, 1, (3, 5)), rng.uniform(-1, 1, (3, 7))
    near = [TopK.from_scores(scores, scores.shape[1]) for scores in (by_text, by_instance)]
    found = aggregate(*near, csr_matrix(known), 0.2, mix, 5)
    for row in range(3):
        scores = plain(by_text[row], by_instance[row], known, 0.2, mix)
        assert found.indices[row].tolist() == np.argsort(-scores).tolist()
        expected = np.sort(scores)[::-1]
        np.testing.assert_allclose(np.exp(found.scores[row] - found.scores[row, 0]), expected / expected[0], rtol=1e-5)


def test_a_label_that_only_instances_bring_is_ranked():
    labels = TopK(np.array([[0, -1]], np.int32), np.array([[0.5, -np.inf]], np.float32))
    instances = TopK(np.array([[1, -1]], np.int32), np.array([[0.9, -np.inf]], np.float32))
    known = csr_matrix(np.array([[1, 0, 0], [0, 0, 1]], np.float32))
    found = aggregate(labels, instances, known, 0.1, 0.5, 3)
    assert found.indices.tolist() == [[2, 0, -1]]
    assert found.scores[0, :2].tolist() == pytest.approx([np.log(0.5), np.log(0.5) - 4])


def test_labels_far_below_the_best_keep_their_order():
    """Inner products may differ by hundreds: in float32 their weights would all be 0."""
    labels = TopK(np.array([[3, 1, 0, 2]], np.int32), np.array([[400, 290, 285, 280]], np.float32))
    instances = TopK(np.array([[0]], np.int32), np.array([[150]], np.float32))
    found = aggregate(labels, instances, csr_matrix(np.eye(5, dtype=np.float32)[[4]]), 1.0, 0.5, 5)
    assert found.indices.tolist() == [[3, 1, 0, 2, 4]]


def test_labels_of_one_near_instance_are_ranked_by_their_texts():
    """Its weight is so much larger that their scores are one in float32."""
    labels = TopK.from_scores(np.array([[0.10, 0.20, 0.25, 0.05, 0.30, 0.15]], np.float32), 6)
    instances = TopK(np.array([[0]], np.int32), np.array([[0.98]], np.float32))
    found = aggregate(labels, instances, csr_matrix(np.ones((1, 6), np.float32)), 0.04, 0.5, 6)
    assert found.indices.tolist() == [[4, 2, 1, 5, 0, 3]]


@pytest.mark.parametrize("temperature", [0.04, 0.001, 1e-6])
def test_no_temperature_loses_a_candidate(temperature):
    labels = TopK.from_scores(np.array([[0.1, 0.2, 0.25]], np.float32), 3)
    instances = TopK(np.array([[0]], np.int32), np.array([[0.98]], np.float32))
    found = aggregate(labels, instances, csr_matrix(np.array([[1, 0, 0]], np.float32)), temperature, 0.5, 3)
    assert sorted(found.indices[0].tolist()) == [0, 1, 2]
    assert found.indices[0, 0] == 0


def test_predictions_are_those_of_the_towers_vectors(fitted, stories):
    method = fitted(mix=0.7)
    found = method.predict(NEW, 10)
    found.check(3, 10, 10)
    tower = method._tower
    with tower.embeddings(tower.instance_tokens(NEW, 24)) as vectors:
        products = [np.array(vectors) @ side.T for side in (method._labels, method._instances)]
    for row in range(3):
        scores = plain(products[0][row], products[1][row], stories[2].toarray(), 0.04, 0.7)
        np.testing.assert_allclose(scores[found.indices[row]], np.sort(scores)[::-1], atol=1e-5)
    assert method.notes["fine-tuning"]["steps"] == 2


def test_only_instances_with_a_pair_are_in_the_memory(fitted, stories):
    known = stories[2].tolil()
    known[10:] = 0
    method = fitted(known.tocsr().astype(np.float32))
    assert len(method._instances) == 10
    method.predict(NEW, 10).check(3, 10, 10)


def test_without_a_pair_labels_are_ranked_by_their_text(fitted, stories):
    method = fitted(csr_matrix(stories[2].shape, dtype=np.float32))
    found = method.predict(NEW, 4)
    assert (found.scores <= 1.001).all()
    assert found.indices.tolist() == super(RAE, method).predict(NEW, 4).indices.tolist()


def test_what_is_weighed_at_a_time_changes_nothing(fitted, monkeypatch):
    method = fitted()
    whole = method.predict(NEW, 5)
    monkeypatch.setattr("xmcbench.methods.rae._ROWS", 2)
    assert method.predict(NEW, 5).indices.tolist() == whole.indices.tolist()
