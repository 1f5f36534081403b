import json
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, random

from xmcbench import Texts, UsageError
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.zestxml import ZestXML, bilinear
from xmcbench.methods.zestxml.bilinear import Bilinear, one_shot


def sparse(rows, columns, density, seed):
    return random(rows, columns, density, format="csr", dtype=np.float32, random_state=seed)


def links_transcribed(X, Y, pairs, count, alpha):
    """The sparsity rule, link by link."""
    documents, labels = zip(*np.argwhere(pairs > 0), strict=True) if pairs.any() else ((), ())
    strength = np.zeros((X.shape[1], Y.shape[1]))
    for f in range(X.shape[1]):
        for g in range(Y.shape[1]):
            has_f = [X[document, f] > 0 for document in documents]
            has_g = [Y[label, g] > 0 for label in labels]
            v = sum(a and b for a, b in zip(has_f, has_g, strict=True))
            if v:
                union = sum(has_f) + sum(has_g) - v
                chance = (X[:, f] > 0).sum() * (Y[:, g] > 0).sum()
                strength[f, g] = v / (alpha * union + (1 - alpha) * chance)
    kept = np.zeros_like(strength, bool)
    for f, row in enumerate(strength):
        kept[f, np.argsort(-row, kind="stable")[:count]] = True
    for g, column in enumerate(strength.T):
        kept[np.argsort(-column, kind="stable")[:count], g] = True
    return np.where(kept, strength, 0)


@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("alpha", [0.0, 0.01, 1.0])
def test_sparsity_rule_equals_its_transcription(count, alpha):
    X, Y, pairs = sparse(20, 15, 0.2, 0), sparse(12, 15, 0.2, 1), sparse(20, 12, 0.15, 2)
    pairs.data[:] = 1
    found = one_shot(X, Y, pairs, count, alpha)
    expected = links_transcribed(X.toarray(), Y.toarray(), pairs.toarray(), count, alpha)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


def test_links_take_no_more_memory_than_some_copies_of_them():
    """In bytes a link: 4 + 4 are kept, and there are a thousand of them for each document of a large corpus."""
    X, Y, pairs = sparse(300, 4000, 0.02, 1), sparse(200, 4000, 0.02, 2), sparse(300, 200, 0.02, 3)
    one_shot(X[:10], Y[:10], pairs[:10, :10], 5, 0.01)  # compiled
    tracemalloc.start()
    found = one_shot(X, Y, pairs, 40, 0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.nnz > 200_000
    assert found.has_canonical_format
    assert peak < 32 * found.nnz


def test_no_pair_gives_no_link():
    assert one_shot(sparse(5, 9, 0.3, 0), sparse(4, 9, 0.3, 1), csr_matrix((5, 4), dtype=np.float32), 3, 0.1).nnz == 0


@pytest.fixture
def problem():
    """Documents, labels, the pattern of W, candidates, which of them are true, and every pair's vector, densely."""
    X, Y, pattern, candidates = (
        sparse(15, 12, 0.4, 0),
        sparse(8, 12, 0.4, 1),
        sparse(12, 12, 0.4, 2),
        sparse(15, 8, 0.5, 3),
    )
    true = np.random.default_rng(0).random(candidates.nnz) < 0.3
    f, g = np.repeat(np.arange(12), np.diff(pattern.indptr)), pattern.indices
    rows = np.repeat(np.arange(15), np.diff(candidates.indptr))
    vectors = X.toarray()[rows][:, f] * Y.toarray()[candidates.indices][:, g]
    return X, Y, pattern, candidates, true, np.hstack([vectors, np.ones((len(rows), 1))])


def primal(weights, vectors, true, cost):
    signs = np.where(true, 1.0, -1.0)
    slack = np.maximum(0, 1 - signs * (vectors @ weights))
    return weights @ weights / 2 + cost * (slack**2).sum(), weights - 2 * cost * vectors.T @ (signs * slack)


@pytest.mark.parametrize("cost", [0.1, 1.0, 5.0])
def test_solver_reaches_the_optimum_of_the_svm(problem, cost):
    X, Y, pattern, candidates, true, vectors = problem
    model = Bilinear(pattern, Y)
    passes, gradient = model.fit(X, candidates, true, cost=cost, iterations=5000, tolerance=1e-5, seed=0)
    assert gradient <= 1e-5
    assert 1 < passes < 5000
    best = minimize(primal, np.zeros(vectors.shape[1]), (vectors.astype(float), true, cost), jac=True, tol=1e-12)
    value, gradient = primal(model.weights.astype(float), vectors, true, cost)
    assert value == pytest.approx(best.fun, rel=1e-4)
    # The gradient of the primal, too, is that of an optimum.
    assert np.abs(gradient).max() < 1e-2 * max(1, np.abs(model.weights).max())


def test_the_solver_stops_where_no_projected_gradient_exceeds_the_tolerance():
    """Of any candidate, also of those that were left out of the passes before.

    Steps at the end of the last pass move the gradients of candidates at its start: by less than the tolerance here.
    """
    largest = []
    for seed in range(80, 110):
        X, Y, pattern = sparse(12, 10, 0.5, seed), sparse(6, 10, 0.5, seed + 1000), sparse(10, 10, 0.8, seed + 2000)
        candidates = sparse(12, 6, 0.4, seed + 3000)
        true = np.random.default_rng(seed).random(candidates.nnz) < 0.5
        model = Bilinear(pattern, Y)
        passes, worst = model.fit(X, candidates, true, cost=5.0, iterations=1000, tolerance=0.01, seed=seed)
        assert passes < 1000
        assert worst <= 0.01
        f, g = np.repeat(np.arange(10), np.diff(pattern.indptr)), pattern.indices
        rows = np.repeat(np.arange(12), np.diff(candidates.indptr))
        vectors = np.hstack([X.toarray()[rows][:, f] * Y.toarray()[candidates.indices][:, g], np.ones((len(rows), 1))])
        signed = np.where(true, 1.0, -1.0)[:, None] * vectors
        assert np.linalg.matrix_rank(signed) == len(signed)  # so that the weights tell the alphas
        alphas = np.linalg.lstsq(signed.T, model.weights.astype(float), rcond=None)[0]
        gradients = signed @ model.weights - 1 + alphas / (2 * 5.0)
        largest.append(np.abs(np.where(alphas > 1e-4, gradients, np.minimum(gradients, 0))).max())
    assert max(largest) <= 0.02


def test_the_seed_orders_the_steps_of_the_solver(problem):
    X, Y, pattern, candidates, true, _ = problem
    found = []
    for seed in (0, 1):
        model = Bilinear(pattern, Y)
        model.fit(X, candidates, true, cost=1.0, iterations=1, tolerance=1e-9, seed=seed)
        found.append(model.weights)
    assert not np.array_equal(*found)


def test_scores_are_those_of_the_vectors(problem):
    X, Y, pattern, candidates, true, vectors = problem
    model = Bilinear(pattern, Y)
    model.fit(X, candidates, true, cost=1.0, iterations=3, tolerance=0.01, seed=0)
    found = model.scores(X, candidates.indptr, candidates.indices)
    np.testing.assert_allclose(found, vectors @ model.weights, rtol=1e-5, atol=1e-6)


def test_prediction_combines_the_model_with_direct_matches(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(ZestXML, raw_X, raw_Y, pairs, share=0.35)
    found = method.predict(new, k=7)
    features = TfidfFeatures.shared(method.artifacts, raw_X, raw_Y, "sklearn", 2, 0.5)
    W = method._links.copy()
    W.data = method._model.weights[:-1]
    Q, Y = features.transform(new).toarray(), features.labels.toarray()
    margins = Q @ W.toarray() @ Y.T + method._model.weights[-1]
    expected = 0.35 * np.exp(-(np.maximum(0, 1 - margins) ** 2)) + 0.65 * Q @ Y.T
    for row, labels in enumerate(found.indices):
        kept = labels[labels >= 0]
        np.testing.assert_allclose(found.scores[row, : len(kept)], expected[row, kept], rtol=1e-5)
    assert set(found.indices[0, :2]) == {4, 6}
    assert found.indices[1, 0] == 1


@pytest.mark.parametrize("direct_weight", [0.0, 0.2, 5.0])
def test_the_shortlist_has_the_labels_with_the_strongest_links(fitted, corpus, direct_weight):
    """Links of the pairs, and of each feature to itself with the weight of a direct match."""
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(ZestXML, raw_X, raw_Y, pairs, direct_weight=direct_weight, links=3, shortlist=3)
    features = TfidfFeatures.shared(method.artifacts, raw_X, raw_Y, "sklearn", 2, 0.5)
    X, Y, Q = features.transform(raw_X), features.labels, features.transform(new)
    links = one_shot(X, Y, pairs, 3, 0.01).toarray() + direct_weight * np.eye(Y.shape[1])
    np.testing.assert_allclose(method._links.toarray(), links, rtol=1e-6)
    strength = Q.toarray() @ links @ Y.toarray().T
    found = method._shortlist(Q, 3)
    for row in range(len(new)):
        ranked = [label for label in np.argsort(-strength[row], kind="stable")[:3] if strength[row, label] > 0]
        np.testing.assert_allclose(found.scores[row, : len(ranked)], strength[row, ranked], rtol=1e-5)
        assert (found.indices[row, len(ranked) :] == -1).all()


def test_a_pair_that_the_shortlist_misses_is_trained_on(fitted, corpus, monkeypatch):
    raw_X, raw_Y, pairs, _ = corpus
    given = []

    def watch(self, X, candidates, true, **options):
        given.append((candidates, true))
        return 1, 0.0

    monkeypatch.setattr(Bilinear, "fit", watch)
    method = fitted(ZestXML, raw_X, raw_Y, pairs, shortlist=1)
    ((candidates, true),) = given
    kept = csr_matrix((true.astype(float), candidates.indices, candidates.indptr), shape=candidates.shape)
    assert np.array_equal(kept.toarray(), pairs.toarray())
    assert method.notes["pairs_in_the_shortlist"] < pairs.nnz


def test_parameters_reach_the_rule_and_the_solver(fitted, corpus, monkeypatch):
    given = []

    def rule(X, Y, pairs, count, alpha):
        given.append((count, alpha))
        return one_shot(X, Y, pairs, count, alpha)

    def solver(self, *_, **options):
        given.append(options)
        return 1, 0.0

    monkeypatch.setattr(bilinear, "one_shot", rule)
    monkeypatch.setattr(Bilinear, "fit", solver)
    raw_X, raw_Y, pairs, _ = corpus
    values = {"links": 6, "union": 0.3, "cost": 2.5, "iterations": 7, "tolerance": 0.05}
    fitted(ZestXML, raw_X, raw_Y, pairs, seed=4, **values)
    assert given == [(6, 0.3), {"cost": 2.5, "iterations": 7, "tolerance": 0.05, "seed": 4}]


def test_parameters_reach_the_features(fitted, corpus, monkeypatch):
    given = []

    def shared(artifacts, raw_X, raw_Y, *options):
        given.append(options)
        return original(artifacts, raw_X, raw_Y, *options)

    original = TfidfFeatures.shared
    monkeypatch.setattr(TfidfFeatures, "shared", shared)
    raw_X, raw_Y, pairs, _ = corpus
    fitted(ZestXML, raw_X, raw_Y, pairs, vectorizer="pecos", ngrams=1, max_df=0.9)
    fitted(ZestXML, raw_X, raw_Y, pairs, analyzer="english")
    assert given == [("pecos", 1, 0.9, None), ("sklearn", 2, 0.5, "english")]


@pytest.mark.parametrize(
    ("preset", "links", "union", "direct_weight", "shortlist", "cost", "share"),
    [
        ("amazon", 40, 0.01, 0.2, 100, 1.0, 0.9),
        ("wikipedia", 40, 0.01, 0.1, 100, 2.0, 0.8),
        ("eurlex", 120, 0.02, 0.8, 150, 5.0, 0.9),
    ],
)
def test_presets_have_the_authors_values(preset, links, union, direct_weight, shortlist, cost, share):
    method = ZestXML(**ZestXML.presets[preset])
    assert (method.links, method.union, method.direct_weight) == (links, union, direct_weight)
    assert (method.shortlist, method.cost, method.share) == (shortlist, cost, share)
    assert (method.iterations, method.tolerance) == (20, 0.01)


def test_same_bytes_twice(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    a, b = (fitted(ZestXML, raw_X, raw_Y, pairs, seed=3).predict(new, k=5) for _ in range(2))
    assert a.indices.tobytes() == b.indices.tobytes()
    assert a.scores.tobytes() == b.scores.tobytes()


def test_labels_without_a_known_pair_are_predicted(fitted, corpus):
    raw_X, raw_Y, pairs, _ = corpus
    few = pairs.tolil()
    few[:, 3:] = 0
    found = fitted(ZestXML, raw_X, raw_Y, few.tocsr()).predict(Texts.from_lists(["protein folding"]), k=3)
    assert found.indices[0, 0] == 5


def test_predicts_deeper_than_the_shortlist(fitted):
    raw_X = Texts.from_lists([f"common word{row}" for row in range(150)])
    pairs = csr_matrix(np.eye(150, dtype=np.float32))
    found = fitted(
        ZestXML, raw_X, Texts.from_lists([f"common thing{row}" for row in range(150)]), pairs, shortlist=5, max_df=1.0
    )
    found = found.predict(raw_X, k=120)
    found.check(150, 120, 150)
    assert (found.indices >= 0).all()
    assert (found.indices[:, 0] == np.arange(150)).all()


@pytest.mark.parametrize("labels", [["garden"], ["garden", "garden", "", "story"], ["", ""]])
def test_strange_input(fitted, labels):
    """One label, one pair or none, labels with equal texts or none, instances without a known token, L < shortlist."""
    raw_X = Texts.from_lists(["the red story", "about a garden", ""])
    new = Texts.from_lists(["red garden", "", "\u4e2d\u6587", "zyzzyva"])
    for row in (0, 1, 2, None):
        pairs = csr_matrix((3, len(labels)), dtype=np.float32).tolil()
        if row is not None:
            pairs[row, 0] = 1
        method = fitted(ZestXML, raw_X, Texts.from_lists(labels), pairs.tocsr())
        found = method.predict(new, k=100)
        found.check(len(new), 100, len(labels))
        assert found.indices[0, 0] == (0 if any(labels) else -1)
        assert (found.indices[1:] == -1).all()
        json.dumps(method.notes, allow_nan=False)


@pytest.mark.parametrize(
    "values", [{"links": 0}, {"union": 1.1}, {"direct_weight": -0.1}, {"cost": 0.0}, {"share": 2.0}, {"tolerance": 0.0}]
)
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        ZestXML(**values)
