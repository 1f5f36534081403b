import json
import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.astec import Astec
from xmcbench.methods.deepxml import classifiers, surrogate, training
from xmcbench.methods.deepxml.bags import Bags
from xmcbench.methods.deepxml.classifiers import trained_classifiers
from xmcbench.methods.deepxml.surrogate import balanced_clusters, surrogate_pairs, walked
from xmcbench.methods.dense import search
from xmcbench.methods.dense.search import top_k

SMALL = {"dimensions": 32, "min_count": 1, "epochs": 15, "encoder_rate": 0.02, "classifier_epochs": 10, "dropout": 0.1}


@pytest.mark.parametrize(("rows", "clusters"), [(1, 1), (7, 4), (64, 8), (101, 32), (50, 32)])
def test_clusters_differ_in_size_by_one_at_most(rows, clusters):
    found = balanced_clusters(random(rows, 30, 0.2, format="csr", dtype=np.float32, random_state=0), clusters, 0)
    sizes = np.bincount(found, minlength=clusters)
    assert len(sizes) == clusters
    assert sizes.max() - sizes.min() <= 1


def test_clusters_hold_what_is_alike():
    topics = np.repeat(np.arange(4), 5)[np.random.default_rng(0).permutation(20)]
    vectors = csr_matrix(np.eye(4, dtype=np.float32)[topics] + 0.01)
    found = balanced_clusters(vectors, 4, 0)
    assert {frozenset(topics[found == cluster]) for cluster in range(4)} == {frozenset([each]) for each in range(4)}
    assert np.array_equal(found, balanced_clusters(vectors, 4, 0))


def test_a_walk_visits_labels_as_often_as_its_chain_does():
    """The mean share of the visits against the powers of the transition matrix."""
    pairs = csr_matrix(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]], np.float32))
    steps, restart = 10_000, 0.2
    found = walked(pairs, steps, restart, 4, 0).toarray()
    dense = pairs.toarray()
    step = (dense / np.maximum(1, dense.sum(axis=0))).T[:3] @ (dense / dense.sum(axis=1, keepdims=True))
    for label in range(3):
        chain = (1 - restart) * step + restart * np.eye(4)[label]
        share = np.linalg.matrix_power(np.vstack([chain, np.eye(4)[label]]), 200)[label]
        np.testing.assert_allclose(found[label], share, atol=0.02)
    assert found[3].tolist() == [0, 0, 0, 1]


def test_a_walk_keeps_the_most_visited():
    pairs = csr_matrix(np.ones((2, 6), np.float32))
    found = walked(pairs, 50, 0.5, 3, 0)
    assert (np.diff(found.indptr) <= 3).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    assert (found.toarray().argmax(axis=1) == np.arange(6)).all()


def test_documents_have_the_clusters_of_their_labels():
    pairs = csr_matrix(np.kron(np.eye(2), np.ones((3, 8))).astype(np.float32))
    bags = Bags(np.arange(7), np.repeat([0, 1], 3), np.ones(6, np.float32))
    found = surrogate_pairs(bags, pairs, 2, clusters=100, walk=20, restart=0.2, kept=5, seed=0)
    assert found.shape == (6, 8)  # half of 16 labels
    assert (found.toarray()[:3] * found.toarray()[3:]).sum() == 0
    assert (found.toarray().sum(axis=1) == 4).all()


def test_frequent_labels_weigh_no_more_in_a_smoothed_one(monkeypatch):
    given = []

    def watched(vectors, *_):
        given.append(vectors.toarray())
        return np.zeros(vectors.shape[0], np.int64)

    monkeypatch.setattr(surrogate, "balanced_clusters", watched)
    pairs = csr_matrix(np.array([[1, 1, 0, 0], *[[1, 0, 0, 0]] * 9, [0, 0, 1, 1]], np.float32))
    bags = Bags(np.arange(12), np.array([0, *[1] * 9, 2]), np.ones(11, np.float32))
    surrogate_pairs(bags, pairs, 3, clusters=2, walk=20, restart=0.2, kept=4, seed=0)
    means = pairs.T.toarray() @ np.eye(3)[bags.tokens]
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    expected = walked(pairs, 20, 0.2, 4, 0).toarray() @ means
    np.testing.assert_allclose(given[0], expected, rtol=1e-5, atol=1e-7)


def test_learns_from_pairs(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, neighbors=5, **SMALL)
    found = method.predict(new, k=5)
    found.check(len(new), 5, len(raw_Y))
    assert set(found.indices[0, :2]) == {4, 6}
    assert found.indices[1, 0] == 1
    assert (found.indices[3] == -1).all()
    assert method.notes["instances_without_a_known_token"] == 2
    assert method.notes["encoder"]["curve"][-1][1] < method.notes["encoder"]["curve"][0][1]
    again = fitted(Astec, raw_X, raw_Y, pairs, neighbors=5, **SMALL).predict(new, k=5)
    assert found.indices.tobytes() == again.indices.tobytes()
    assert found.scores.tobytes() == again.scores.tobytes()
    json.dumps(method.notes, allow_nan=False)


def test_score_is_the_fusion_of_classifier_and_nearness(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, fusion=0.3, votes=0.8, neighbors=2, **SMALL)
    found = method.predict(new, k=7)
    query = method._encoder.embed(method._tokens.bags(new))[0]
    known = pairs.toarray()[np.diff(pairs.indptr) > 0]
    documents = method._encoder.embed(method._tokens.bags(raw_X.take(np.flatnonzero(np.diff(pairs.indptr)))))
    cosines = documents @ query
    near = np.argsort(-cosines, kind="stable")[:2]
    assert len(set(found.indices[0])) == 7
    for label, score in zip(found.indices[0], found.scores[0], strict=True):
        mean = documents[known[:, label] > 0].sum(axis=0)
        votes = sum(cosines[each] ** 2 for each in near if known[each, label]) / sum(cosines[near] ** 2)
        nearness = 0.2 * (query @ mean / np.linalg.norm(mean)) + 0.8 * votes
        classifier = 20.0 * (query @ method._classifiers[label] - 0.5)
        expected = 0.3 / (1 + math.exp(-classifier)) + 0.7 / (1 + math.exp(-nearness))
        assert score == pytest.approx(expected, rel=1e-5)


def test_the_encoder_is_trained_on_surrogates_by_cross_entropy(fitted, corpus, monkeypatch):
    """The loss of the first batch, in loops: before the first step the head gives each cluster its frequency."""
    found, given = [], []

    def once(parts, batches, loss_of, *, epochs, seed):
        rows = batches(0)[0]
        found.append((rows, float(loss_of(rows).detach()), parts[-1][0]))
        return []

    def watched(*arguments, **options):
        given.append(surrogate_pairs(*arguments, **options))
        return given[-1]

    monkeypatch.setattr(training, "train", once)
    monkeypatch.setattr(surrogate, "surrogate_pairs", watched)
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, **(SMALL | {"dropout": 0.0, "batch": 20, "classifier_epochs": 0}))
    (rows, loss, head), *_ = found
    true = given[0].toarray()
    weight, bias = (each.detach().numpy() for each in (head.weight, head.bias))
    np.testing.assert_allclose(1 / (1 + np.exp(-bias)), true.mean(axis=0), rtol=1e-4)
    documents = method._encoder.embed(method._tokens.bags(raw_X.take(np.flatnonzero(np.diff(pairs.indptr)))))
    expected = 0.0
    for row in rows:
        for cluster, logit in enumerate(weight @ documents[row] + bias):
            likely = 1 / (1 + math.exp(-logit))
            expected -= math.log(likely if true[row, cluster] else 1 - likely)
    assert len(rows) == 20
    assert loss == pytest.approx(expected / 20, rel=1e-5)


def test_classifiers_are_trained_by_cross_entropy(fitted, corpus, monkeypatch):
    given = []

    def watched(documents, start, candidates, true, loss, **options):
        given.append((loss, options["dropout"], options["rate"]))
        return trained_classifiers(documents, start, candidates, true, loss, **options)

    monkeypatch.setattr(classifiers, "trained_classifiers", watched)
    raw_X, raw_Y, pairs, _ = corpus
    fitted(Astec, raw_X, raw_Y, pairs, scale=7.0, classifier_dropout=0.25, classifier_rate=0.004, **SMALL)
    cosines = torch.tensor([0.9, -0.2, 0.4], requires_grad=True)
    likely = [1 / (1 + math.exp(-7.0 * (cosine - 0.5))) for cosine in cosines.tolist()]
    ((loss_of, *others),) = given
    assert others == [0.25, 0.004]
    loss = loss_of(cosines, torch.tensor([True, False, False]))
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(likely[0]) - math.log(1 - likely[1]) - math.log(1 - likely[2]))
    assert cosines.grad.tolist() == pytest.approx([7 * (likely[0] - 1), 7 * likely[1], 7 * likely[2]], rel=1e-5)


def test_the_reranker_learns_what_the_others_rank_first(fitted, corpus, monkeypatch):
    raw_X, raw_Y, pairs, new = corpus
    plain = fitted(Astec, raw_X, raw_Y, pairs, **SMALL, negatives=2)
    asked = []

    def watched(documents, start, candidates, *rest, **options):
        asked.append(candidates)
        return trained_classifiers(documents, start, candidates, *rest, **options)

    monkeypatch.setattr(classifiers, "trained_classifiers", watched)
    method = fitted(Astec, raw_X, raw_Y, pairs, reranker=True, **SMALL, negatives=2)
    first = TopK.joined(plain._ranked(plain._documents, 2), 2).indices
    known = [set(pairs[row].indices) for row in np.flatnonzero(np.diff(pairs.indptr))]
    for row, (labels, candidates) in enumerate(zip(first, asked[1], strict=True)):
        wrong = {*method._seen[labels]} - known[row]
        assert wrong <= {*method._seen[candidates[candidates >= 0]]}
    assert method.notes["reranker"]["losses"] == ["reranker"]
    without, found = plain.predict(new, k=7), method.predict(new, k=7)
    query = method._encoder.embed(method._tokens.bags(new))[0]
    before = dict(zip(without.indices[0].tolist(), without.scores[0].tolist(), strict=True))
    for label, score in zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True):
        place = method._seen.tolist().index(label)
        more = 1 / (1 + math.exp(-20 * (query @ method._reranker[place] - 0.5)))
        assert score == pytest.approx(before[label] + more, rel=1e-5)


def test_the_shortlist_has_labels_of_near_documents_too(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    few = fitted(Astec, raw_X, raw_Y, pairs, shortlist=1, neighbors=1, **SMALL).predict(new, k=1)
    method = fitted(Astec, raw_X, raw_Y, pairs, shortlist=1, neighbors=3, **SMALL)
    queries = method._encoder.embed(method._tokens.bags(new))[:1]
    near, means = (top_k(queries, items, size) for items, size in ((method._documents, 3), (method._means, 1)))
    listed = method._shortlist(near, means)
    nearest = np.argsort(-(method._documents @ queries[0]), kind="stable")[:3]
    mean = int(np.argmax(method._means @ queries[0]))
    assert set(listed.indices) == {*method._pairs[nearest].indices, mean}
    assert (few.indices[0] >= 0).all()


def test_batches_are_the_whole(fitted, corpus, monkeypatch):
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, **SMALL)
    new = Texts.from_lists([*raw_X, "unknown", *raw_X])
    whole = method.predict(new, k=5)
    monkeypatch.setattr(search, "_BLOCK", 3 * len(method._means))
    monkeypatch.setattr("xmcbench.methods.astec._BLOCK", 2)
    parts = [*method.predict_batches(new, 5)]
    assert len(parts) > 3
    assert np.array_equal(TopK.joined(parts, 5).indices, whole.indices)
    assert (whole.indices[len(raw_X)] == -1).all()
    again = fitted(Astec, raw_X, raw_Y, pairs, **SMALL)
    assert again.predict(new, k=5).scores.tobytes() == whole.scores.tobytes()


def test_predicts_deeper_than_the_shortlist(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    found = fitted(Astec, raw_X, raw_Y, pairs, shortlist=1, neighbors=1, **SMALL).predict(new, k=7)
    assert (found.indices[0] >= 0).all()


def test_random_labels_are_not_those_of_the_shortlist(fitted, corpus, monkeypatch):
    asked = []

    def watched(documents, start, candidates, *rest, **options):
        asked.append(candidates)
        return trained_classifiers(documents, start, candidates, *rest, **options)

    monkeypatch.setattr(classifiers, "trained_classifiers", watched)
    raw_X, raw_Y, pairs, _ = corpus
    fitted(Astec, raw_X, raw_Y, pairs, negatives=3, random_labels=2, **SMALL)
    for row in asked[0]:
        near, drawn = row[3:6], row[6:]
        assert not {*near[near >= 0]} & {*drawn[drawn >= 0]}


def test_labels_without_a_known_pair_are_never_predicted(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    few = pairs.tolil()
    few[:, [0, 2, 3, 5, 6]] = 0
    found = fitted(Astec, raw_X, raw_Y, few.tocsr(), **SMALL).predict(new, k=100)
    found.check(len(new), 100, len(raw_Y))
    assert set(found.indices.ravel()) == {1, 4, -1}


def test_strange_input(strange):
    for _, row, first in strange(Astec, **SMALL):
        assert first[0] == (-1 if row is None else 0)


@pytest.mark.parametrize("values", [{"dropout": 1.0}, {"surrogates": 65_537}, {"restart": 1.1}, {"shortlist": 0}])
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        Astec(**values)
