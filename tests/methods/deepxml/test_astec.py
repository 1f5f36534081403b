import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random
from sklearn.preprocessing import normalize

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.astec import Astec, training
from xmcbench.methods.astec.shortlist import Ranking, without_own
from xmcbench.methods.astec.training import count_visits, surrogate_pairs
from xmcbench.methods.attentionxml import AttentionXML
from xmcbench.methods.deepxml.bags import Tokens
from xmcbench.methods.deepxml.classifiers import fit_classifiers
from xmcbench.methods.dense import search
from xmcbench.methods.label_tree.tree import cluster_evenly
from xmcbench.methods.siamesexml import SiameseXML

SMALL = {"dimensions": 32, "min_count": 1, "epochs": 15, "encoder_rate": 0.02, "classifier_epochs": 10, "dropout": 0.1}


@pytest.fixture
def asked(monkeypatch):
    """The candidates of each training of classifiers: those near to a document, and those drawn at random."""
    found = []

    def watch(documents, start, candidates, true, *rest, **options):
        found.append((candidates, true))
        return fit_classifiers(documents, start, candidates, true, *rest, **options)

    monkeypatch.setattr(training, "fit_classifiers", watch)
    return found


@pytest.mark.parametrize(("rows", "clusters"), [(1, 1), (7, 4), (64, 8), (101, 32), (50, 32)])
def test_clusters_differ_in_size_by_one_at_most(rows, clusters):
    found = cluster_evenly(random(rows, 30, 0.2, format="csr", dtype=np.float32, random_state=0), clusters, 0)
    sizes = np.bincount(found, minlength=clusters)
    assert len(sizes) == clusters
    assert sizes.max() - sizes.min() <= 1


def test_clusters_hold_what_is_alike():
    topics = np.repeat(np.arange(4), 5)[np.random.default_rng(0).permutation(20)]
    vectors = csr_matrix(np.eye(4, dtype=np.float32)[topics] + 0.01)
    found = cluster_evenly(vectors, 4, 0)
    assert {frozenset(topics[found == cluster]) for cluster in range(4)} == {frozenset([topic]) for topic in range(4)}
    assert np.array_equal(found, cluster_evenly(vectors, 4, 0))


def test_clusters_compare_directions_and_not_lengths():
    rng = np.random.default_rng(0)
    vectors = normalize(csr_matrix(rng.random((40, 6)).astype(np.float32)))
    longer = csr_matrix(vectors.multiply(2.0 ** rng.integers(0, 8, (40, 1))))
    for seed in range(3):
        assert cluster_evenly(longer, 8, seed).tolist() == cluster_evenly(vectors, 8, seed).tolist()


def test_a_walk_visits_labels_as_often_as_its_chain_does():
    """The mean share of the visits against the powers of the transition matrix."""
    pairs = csr_matrix(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]], np.float32))
    steps, restart = 10_000, 0.2
    found = count_visits(pairs, steps, restart, 4, 0).toarray()
    dense = pairs.toarray()
    step = (dense / np.maximum(1, dense.sum(axis=0))).T[:3] @ (dense / dense.sum(axis=1, keepdims=True))
    for label in range(3):
        chain = (1 - restart) * step + restart * np.eye(4)[label]
        share = np.linalg.matrix_power(np.vstack([chain, np.eye(4)[label]]), 200)[label]
        np.testing.assert_allclose(found[label], share, atol=0.02)
    assert found[3].tolist() == [0, 0, 0, 1]


def test_a_walk_keeps_the_most_visited():
    pairs = csr_matrix(np.ones((2, 6), np.float32))
    found = count_visits(pairs, 50, 0.5, 3, 0)
    assert (np.diff(found.indptr) <= 3).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    assert (found.toarray().argmax(axis=1) == np.arange(6)).all()


def test_documents_have_the_clusters_of_their_labels():
    pairs = csr_matrix(np.kron(np.eye(2), np.ones((3, 8))).astype(np.float32))
    bags = csr_matrix((np.ones(6, np.float32), np.repeat([0, 1], 3), np.arange(7)), shape=(6, 2))
    found = surrogate_pairs(bags, pairs, clusters=100, walk=20, restart=0.2, kept=5, seed=0)
    assert found.shape == (6, 8)  # half of 16 labels
    assert (found.toarray()[:3] * found.toarray()[3:]).sum() == 0
    assert (found.toarray().sum(axis=1) == 4).all()


def test_frequent_labels_weigh_no_more_in_a_smoothed_one(monkeypatch):
    given = []

    def watch(vectors, *_):
        given.append(vectors.toarray())
        return np.zeros(vectors.shape[0], np.int64)

    monkeypatch.setattr(training, "cluster_evenly", watch)
    pairs = csr_matrix(np.array([[1, 1, 0, 0], *[[1, 0, 0, 0]] * 9, [0, 0, 1, 1]], np.float32))
    bags = csr_matrix((np.ones(11, np.float32), [0, *[1] * 9, 2], np.arange(12)), shape=(11, 3))
    surrogate_pairs(bags, pairs, clusters=2, walk=20, restart=0.2, kept=4, seed=0)
    means = pairs.T.toarray() @ bags.toarray()
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    expected = count_visits(pairs, 20, 0.2, 4, 0).toarray() @ means
    np.testing.assert_allclose(given[0], expected, rtol=1e-5, atol=1e-7)


def test_learns_from_pairs(learned):
    assert learned(Astec, neighbors=5, **SMALL).notes["instances_without_a_known_token"] == 2


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
        votes = sum(cosines[row] ** 2 for row in near if known[row, label]) / sum(cosines[near] ** 2)
        nearness = 0.2 * (query @ mean / np.linalg.norm(mean)) + 0.8 * votes
        classifier = 20.0 * (query @ method._classifiers[0][label] - 0.5)
        expected = 0.3 / (1 + math.exp(-classifier)) + 0.7 / (1 + math.exp(-nearness))
        assert score == pytest.approx(expected, rel=1e-5)


def test_the_encoder_is_trained_on_surrogates_by_cross_entropy(fitted, corpus, monkeypatch):
    """The loss of the first batch, in loops: before the first step the head gives each cluster its frequency."""
    found, given = [], []

    def once(parts, batches, loss_of, *, epochs, seed):
        rows = batches(0)[0]
        found.append((rows, float(loss_of(rows).detach()), parts[-1][0]))
        return []

    def watch(*arguments, **options):
        given.append(surrogate_pairs(*arguments, **options))
        return given[-1]

    monkeypatch.setattr(training, "train", once)
    monkeypatch.setattr(training, "surrogate_pairs", watch)
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, **(SMALL | {"dropout": 0.0, "batch": 20, "classifier_epochs": 0}))
    (rows, loss, head), *_ = found
    true = given[0].toarray()
    weight, bias = (parameter.detach().numpy() for parameter in (head.weight, head.bias))
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

    def watch(documents, start, candidates, true, loss, **options):
        given.append((loss, options["dropout"], options["rate"]))
        return fit_classifiers(documents, start, candidates, true, loss, **options)

    monkeypatch.setattr(training, "fit_classifiers", watch)
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


def literal_ranking(method, query, k, own=None, classifiers=()):
    """The k best labels of the shortlist of a query, with their scores; own: which training document it is."""
    near, pairs = method._near, method._near.pairs.toarray()
    cosines = {row: near.documents[row] @ query for row in range(len(pairs)) if row != own}
    neighbors = sorted(cosines, key=lambda row: (-cosines[row], row))[: method.neighbors]
    total = sum(max(0, cosines[row]) ** 2 for row in neighbors)
    listed = {*np.argsort(-(near.means @ query), kind="stable")[: max(method.shortlist, k)].tolist()}
    listed |= {label for row in neighbors if cosines[row] > 0 for label in np.flatnonzero(pairs[row])}
    scores = {}
    for label in listed:
        votes = sum(max(0, cosines[row]) ** 2 for row in neighbors if pairs[row, label]) / total if total else 0
        scores[label] = (1 - method.votes) * (query @ near.means[label]) + method.votes * votes
        if classifiers:
            sigmas = [1 / (1 + math.exp(-method.scale * (query @ vectors[label] - 0.5))) for vectors in classifiers]
            nearness = 1 / (1 + math.exp(-scores[label]))
            scores[label] = method.fusion * sigmas[0] + (1 - method.fusion) * nearness + sum(sigmas[1:])
    return {label: scores[label] for label in sorted(scores, key=lambda label: -scores[label])[:k]}


@pytest.mark.parametrize("votes", [0.2, 0.9])
def test_classifiers_are_trained_on_what_is_ranked_first_without_them(fitted, corpus, asked, votes):
    """The nearest labels of the shortlist, those of near documents too, where a document is not near to itself.

    The re-ranker is trained on those that the first classifiers rank first.
    """
    raw_X, raw_Y, pairs, _ = corpus
    values = SMALL | {"negatives": 3, "shortlist": 2, "neighbors": 4, "random_labels": 0, "fusion": 0.6}
    method = fitted(Astec, raw_X, raw_Y, pairs, reranker=True, votes=votes, **values)
    known, width = pairs.toarray() > 0, 2
    assert len(asked) == 2
    for (candidates, _), trained in zip(asked, ([], method._classifiers[:1]), strict=True):
        for row, query in enumerate(method._near.documents):
            expected = literal_ranking(method, query, 3, row, trained)
            near = [label for label in candidates[row, width:].tolist() if label >= 0]
            assert near == [label for label in expected if not known[row, label]], row
    others = [literal_ranking(method, query, 3, None) for query in method._near.documents]
    assert any(
        [*found] != [*literal_ranking(method, query, 3, row)]
        for row, (found, query) in enumerate(zip(others, method._near.documents, strict=True))
    ), "a document that is its own neighbor would have other labels"


def test_a_large_scale_does_not_overflow(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    found = fitted(Astec, raw_X, raw_Y, pairs, **{**SMALL, "scale": 1000.0, "fusion": 1.0}).predict(new, 3)
    scores = found.scores[found.indices >= 0]
    assert ((scores >= 0) & (scores <= 1)).all()


def test_the_texts_of_labels_only_count_toward_the_words(fitted, corpus, monkeypatch):
    """Other labels of the same words: the same predictions."""
    raw_X, raw_Y, pairs, new = corpus
    words = Tokens.of([raw_X, raw_Y], 1, 500_000)
    monkeypatch.setattr(Tokens, "of", lambda *_: words)
    turned = Texts.from_lists([*raw_Y][::-1])
    first, again = (fitted(Astec, raw_X, labels, pairs, **SMALL).predict(new, 3) for labels in (raw_Y, turned))
    assert again.scores.tobytes() == first.scores.tobytes()


def test_the_reranker_adds_its_certainty(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, reranker=True, **SMALL, negatives=2, neighbors=3)
    assert method.notes["reranker"]["losses"] == ["reranker"]
    found = method.predict(new, k=7)
    query = method._encoder.embed(method._tokens.bags(new))[0]
    expected = literal_ranking(method, query, 7, classifiers=method._classifiers)
    assert len(method._classifiers) == 2
    assert not np.array_equal(*method._classifiers)
    assert found.indices[0].tolist() == [*expected]
    np.testing.assert_allclose(found.scores[0], [*expected.values()], rtol=1e-5)


def test_a_document_is_no_neighbor_of_itself():
    """The last row has equal documents before it, and is not among its neighbors."""
    near = TopK(
        np.array([[0, 3, 2], [4, 1, 0], [5, 6, 7]], np.int32), np.arange(9, 0, -1, dtype=np.float32).reshape(3, 3)
    )
    found = without_own(near, np.array([0, 1, 9]))
    assert found.indices.tolist() == [[3, 2], [4, 0], [5, 6]]
    assert found.scores.tolist() == [[8, 7], [6, 4], [3, 2]]


def test_equal_documents_are_neighbors(fitted):
    """Twenty of the same, with a label each: all of them are the nearest to each other, whichever come first."""
    raw_X, raw_Y = Texts.from_lists(["red tea"] * 20), Texts.from_lists([f"label {row}" for row in range(20)])
    pairs = csr_matrix(np.eye(20, dtype=np.float32))
    method = fitted(Astec, raw_X, raw_Y, pairs, neighbors=3, shortlist=1, votes=1.0, **SMALL)
    found, _ = method._near.rank_documents(3, lambda _, __, nearness: nearness)
    first = [[label for label in (0, 1, 2, 3) if label != row][:3] for row in range(20)]
    assert [sorted(rows) for rows in found.tolist()] == first


def test_the_shortlist_has_labels_of_near_documents_too(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    few = fitted(Astec, raw_X, raw_Y, pairs, shortlist=1, neighbors=1, **SMALL).predict(new, k=1)
    method = fitted(Astec, raw_X, raw_Y, pairs, shortlist=1, neighbors=3, **SMALL)
    query = method._encoder.embed(method._tokens.bags(new))[0]
    nearest = np.argsort(-(method._near.documents @ query), kind="stable")[:3]
    mean = int(np.argmax(method._near.means @ query))
    scored = []

    def note(_, labels, nearness):
        scored.extend(labels.tolist())
        return nearness

    Ranking(method._near, 1).of(query[None], note)
    assert sorted(scored) == sorted({*method._near.pairs[nearest].indices.tolist(), mean})
    assert (few.indices[0] >= 0).all()


@pytest.fixture
def graphs(monkeypatch):
    """Record the HNSW graphs that are built; every search is approximate."""
    pytest.importorskip("faiss")
    built = []
    original = search._hnsw
    monkeypatch.setattr(search, "is_exact", lambda *_: False)
    monkeypatch.setattr(search, "_hnsw", lambda items: built.append(len(items)) or original(items))
    return built


def test_parts_are_the_whole(fitted, corpus, check_parts):
    raw_X, raw_Y, pairs, _ = corpus
    values = SMALL | {"reranker": True, "negatives": 2, "shortlist": 2, "neighbors": 3}
    method = fitted(Astec, raw_X, raw_Y, pairs, **values)
    sizes = {"astec.ROWS": 8, "astec.shortlist.ROWS": 8, "astec.shortlist._FLOATS": 3 * 32, "astec.training.ROWS": 2}
    check_parts(method, {**sizes, "deepxml.classifiers.ROWS": 7})
    again = fitted(Astec, raw_X, raw_Y, pairs, **values)
    for one, other in zip(again._classifiers, method._classifiers, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_graph_is_built_once_for_all_parts(fitted, corpus, graphs, monkeypatch):
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, reranker=True, **SMALL)
    whole = method.predict(raw_X, k=5)
    monkeypatch.setattr("xmcbench.methods.astec.ROWS", 7)
    assert np.array_equal(method.predict(raw_X, k=5).indices, whole.indices)
    assert graphs == [60, 7]


def test_notes_say_what_was_approximate(fitted, corpus, request):
    raw_X, raw_Y, pairs, _ = corpus

    def searches():
        method = fitted(Astec, raw_X, raw_Y, pairs, reranker=True, **SMALL)
        method.predict(raw_X, k=5)
        json.dumps(method.notes, allow_nan=False)
        return [method.notes["search"], *(method.notes[name]["search"] for name in ("classifiers", "reranker"))]

    assert searches() == [{"documents": {"index": "exact", "items": 60}, "labels": {"index": "exact", "items": 7}}] * 3
    request.getfixturevalue("graphs")
    for found in searches():
        for name, items in (("documents", 60), ("labels", 7)):
            assert (found[name]["index"], found[name]["items"]) == ("HNSW", items)
            assert found[name]["recall_queries"] == 60
            assert found[name]["recall"] > 0.9


def test_each_part_has_its_own_rate(fitted, corpus, monkeypatch):
    given = []
    monkeypatch.setattr(training, "train", lambda parts, *_, **__: given.extend(parts) or [])
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(Astec, raw_X, raw_Y, pairs, **(SMALL | {"learning_rate": 0.3, "encoder_rate": 0.004}))
    (encoder, encoder_rate), (head, rate) = given
    assert encoder is method._encoder
    assert isinstance(head, torch.nn.Linear)
    assert (encoder_rate, rate) == (0.004, 0.3)


def test_surrogates_have_their_parameters(fitted, corpus, monkeypatch):
    given = []

    def watch(*arguments, **options):
        given.append(options)
        return surrogate_pairs(*arguments, **options)

    monkeypatch.setattr(training, "surrogate_pairs", watch)
    raw_X, raw_Y, pairs, _ = corpus
    values = {"surrogates": 2, "walk": 13, "restart": 0.35, "walk_labels": 4}
    method = fitted(Astec, raw_X, raw_Y, pairs, seed=5, **SMALL, **values)
    assert given == [{"clusters": 2, "walk": 13, "restart": 0.35, "kept": 4, "seed": 5}]
    assert method.notes["surrogates"] == 2


def test_predicts_deeper_than_the_shortlist(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    found = fitted(Astec, raw_X, raw_Y, pairs, shortlist=1, neighbors=1, **SMALL).predict(new, k=7)
    assert (found.indices[0] >= 0).all()


def test_random_labels_are_not_those_of_the_shortlist(fitted, corpus, asked):
    raw_X, raw_Y, pairs, _ = corpus
    fitted(Astec, raw_X, raw_Y, pairs, negatives=3, random_labels=2, **SMALL)
    ((candidates, true),) = asked
    assert candidates.dtype == np.int32
    assert candidates.shape[1] == 2 + 3 + 2  # no document has more than two labels
    for row in candidates:
        near, drawn = row[2:5], row[5:]
        assert not {*near[near >= 0]} & {*drawn[drawn >= 0]}
    assert {*candidates[:, 5:].ravel().tolist()} - {-1} == set(range(len(raw_Y)))
    assert not true[:, 2:].any()


def test_labels_without_a_known_pair_are_never_predicted(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    few = pairs.tolil()
    few[:, [0, 2, 3, 5, 6]] = 0
    found = fitted(Astec, raw_X, raw_Y, few.tocsr(), **SMALL).predict(new, k=100)
    found.check(len(new), 100, len(raw_Y))
    assert set(found.indices.ravel()) == {1, 4, -1}


def test_the_preset_has_the_papers_values():
    method = Astec(**Astec.presets["paper"])
    assert (method.shortlist, method.negatives, method.neighbors, method.fusion) == (500, 500, 500, 0.1)
    assert (method.batch, method.epochs, method.classifier_epochs, method.dropout) == (255, 20, 20, 0.5)
    assert (method.learning_rate, method.encoder_rate, method.classifier_rate) == (0.02, 0.02, 5e-4)
    assert (method.surrogates, method.walk, method.restart, method.walk_labels) == (65_536, 50, 0.2, 10)
    assert method.reranker


def test_strange_input(strange):
    for _, row, first in strange(Astec, **SMALL):
        assert first[0] == (-1 if row is None else 0)


@pytest.mark.parametrize("values", [{"dropout": 1.0}, {"surrogates": 65_537}, {"restart": 1.1}, {"shortlist": 0}])
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        Astec(**values)


@pytest.mark.parametrize("kind", [Astec, SiameseXML, AttentionXML])
def test_a_folder_does_not_stand_for_a_word(kind, tmp_path, monkeypatch):
    for name in ("glove", "random", "vectors"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert [kind(vectors=name).inputs() for name in ("glove", "random")] == [{}, {}]
    for path in ("vectors", "./glove"):
        assert kind(vectors=path).inputs() == {"vectors": Path(path)}
