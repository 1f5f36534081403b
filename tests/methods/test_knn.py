import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.knn import KNN
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.sparse.products import pair_scores
from xmcbench.methods.sparse.search import count_votes


def rank_literally(features, raw_X, pairs, new, k, neighbors, power, text):
    """Every label of every instance, in loops: labels by falling score, those with score 0 left out."""
    X, Q, Y = (
        matrix.toarray().astype(float)
        for matrix in (features.transform(raw_X), features.transform(new), features.labels)
    )
    expected = []
    for query in Q:
        similarity = X @ query
        nearest = [row for row in np.argsort(-similarity, kind="stable")[:neighbors] if similarity[row] > 0]
        weights = {row: similarity[row] ** power for row in nearest}
        scores = {}
        for label in range(pairs.shape[1]):
            votes = sum(weight for row, weight in weights.items() if pairs[row, label]) / (sum(weights.values()) or 1)
            scores[label] = (1 - text) * votes + text * (Y[label] @ query)
        expected.append(
            [(label, score) for label, score in sorted(scores.items(), key=lambda item: -item[1]) if score][:k]
        )
    return expected


@pytest.mark.parametrize("values", [{}, {"power": 3.0, "text": 0.2}, {"neighbors": 2}, {"text": 0.0}, {"text": 1.0}])
def test_equals_its_definition(fitted, corpus, values):
    raw_X, raw_Y, pairs, new = corpus
    few = pairs.tolil()
    few[::3] = 0  # neighbors without a pair
    method = fitted(KNN, raw_X, raw_Y, few.tocsr(), **values)
    found = method.predict(new, k=5)
    found.check(len(new), 5, len(raw_Y))
    features = TfidfFeatures.shared(method.artifacts, raw_X, raw_Y, "sklearn", 2, 1.0)
    settings = {"neighbors": 50, "power": 1.0, "text": 0.5} | values
    expected = rank_literally(features, raw_X, few.toarray(), new, 5, **settings)
    for labels, scores, row in zip(found.indices, found.scores, expected, strict=True):
        assert (labels >= 0).sum() == len(row)
        np.testing.assert_allclose(scores[: len(row)], [score for _, score in row], rtol=1e-5)
        by_label = dict(row)
        assert all(
            scores[place] == pytest.approx(by_label.get(label, scores[place])) for place, label in enumerate(labels)
        )


def test_batches_change_nothing(fitted, corpus, monkeypatch):
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(KNN, raw_X, raw_Y, pairs)
    whole = method.predict(raw_X, k=4)
    monkeypatch.setattr("xmcbench.methods.knn._BATCH", 7)
    parts = method.predict(raw_X, k=4)
    assert whole.indices.tobytes() == parts.indices.tobytes()
    assert whole.scores.tobytes() == parts.scores.tobytes()


def test_strange_input(fitted):
    """One label, one pair or none, labels with equal texts or none, instances without a known token."""
    raw_X = Texts.from_lists(["the red story", "about a garden", ""])
    new = Texts.from_lists(["red garden", "", "\u4e2d\u6587", "zyzzyva"])
    expected = {
        ("garden",): ([0], [0]),
        ("garden", "garden", "", "story"): ([0, 1], [0, 1]),
        ("", ""): ([0], []),  # a neighbor votes for a label without a text
    }
    for labels, lists in expected.items():
        one = csr_matrix(([1.0], ([1], [0])), shape=(3, len(labels)), dtype=np.float32)
        for pairs, first in zip((one, csr_matrix((3, len(labels)), dtype=np.float32)), lists, strict=True):
            method = fitted(KNN, raw_X, Texts.from_lists([*labels]), pairs)
            found = method.predict(new, k=100)
            found.check(len(new), 100, len(labels))
            assert found.indices[0].tolist() == first + [-1] * (100 - len(first))
            assert (found.indices[1:] == -1).all()
            json.dumps(method.notes, allow_nan=False)


def test_nothing_to_learn_from(fitted):
    method = fitted(KNN, Texts.from_lists([]), Texts.from_lists(["garden"]), csr_matrix((0, 1), dtype=np.float32))
    assert method.predict(Texts.from_lists(["red garden", ""]), k=2).indices.tolist() == [[0, -1], [-1, -1]]


def test_pairwise_products_are_those_of_the_matrix():
    queries, items = (random(rows, 50, 0.2, format="csr", dtype=np.float32, random_state=rows) for rows in (9, 20))
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 9))])
    columns = rng.integers(0, 20, starts[-1])
    rows = np.repeat(np.arange(9), np.diff(starts))
    expected = (queries @ items.T).toarray()[rows, columns]
    np.testing.assert_allclose(pair_scores(queries, items, starts, columns), expected, rtol=1e-6)


@pytest.mark.parametrize("values", [{"neighbors": 0}, {"power": 0.0}, {"text": 1.5}, {"ngrams": 3}])
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        KNN(**values)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 2.0, 3.5]))
def test_shares_are_those_of_a_loop(seed, power):
    rng = np.random.default_rng(seed)
    pairs = csr_matrix((rng.random((6, 4)) < 0.4).astype(np.float32))
    order = np.argsort(rng.random((3, 6)), axis=1)[:, :4].astype(np.int32)
    scores = -np.sort(-rng.uniform(-0.3, 1, (3, 4)).astype(np.float32), axis=1)
    missing = np.arange(4) >= rng.integers(1, 5, (3, 1))
    nearest = TopK(np.where(missing, -1, order), np.where(missing, -np.inf, scores).astype(np.float32))
    expected = np.zeros((3, 4))
    for row in range(3):
        weights = [max(0.0, float(score)) ** power for score in nearest.scores[row]]
        for neighbor, weight in zip(nearest.indices[row], weights, strict=True):
            if weight:
                expected[row] += pairs.toarray()[neighbor] * weight / sum(weights)
    np.testing.assert_allclose(count_votes(nearest, pairs, power).toarray(), expected, rtol=1e-6, atol=1e-9)


def test_no_neighbor_no_vote():
    nothing = TopK(np.full((2, 3), -1, np.int32), np.full((2, 3), -np.inf, np.float32))
    assert count_votes(nothing, csr_matrix(np.eye(3, dtype=np.float32)), 1.0).nnz == 0


@pytest.mark.parametrize("power", [300.0, 350.0, 1e5, 1e10])
def test_votes_of_a_large_power_do_not_vanish(power):
    """A cosine of a text and itself may be a little above 1."""
    similarities = np.array([[0.1, 0.05], [0.1, 0.1], [1.0000001, 0.9]], np.float32)
    nearest = TopK(np.array([[1, 0], [2, 0], [0, 1]], np.int32), similarities)
    votes = count_votes(nearest, csr_matrix(np.eye(3, dtype=np.float32)), power)
    np.testing.assert_allclose(votes.toarray(), [[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]], atol=1e-12)
