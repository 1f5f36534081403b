import hashlib
import json
import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, MethodError, Texts, UsageError
from xmcbench.methods.astec import Astec
from xmcbench.methods.deepxml import classifiers, network
from xmcbench.methods.deepxml.bags import Tokens
from xmcbench.methods.deepxml.classifiers import (
    Classifiers,
    candidate_labels,
    contrastive_loss,
    fit_classifiers,
    list_candidates,
    select_products,
)
from xmcbench.methods.deepxml.network import BagEncoder, shuffle, train
from xmcbench.methods.dense import search
from xmcbench.methods.siamesexml import SiameseXML

SMALL = {"dimensions": 16, "min_count": 1, "epochs": 20, "classifier_epochs": 5, "dropout": 0.1}


def test_bags_are_tfidf():
    texts = Texts.from_lists(["red red garden", "", "unheard", "garden"])
    tokens = Tokens.of([Texts.from_lists(["red garden", "garden"])], 1, 10)
    bags = tokens.bags(texts)
    assert tokens.vocabulary.words.to_pylist() == ["garden", "red"]
    garden, red = math.log(3 / 3) + 1, math.log(3 / 2) + 1
    length = math.hypot(garden, 2 * red)
    assert bags.indptr.tolist() == [0, 2, 2, 2, 3]
    assert bags.indices.tolist() == [0, 1, 0]
    np.testing.assert_allclose(bags.data, [garden / length, 2 * red / length, 1], rtol=1e-6)
    taken = bags[[3, 1, 0]]
    assert (taken.indptr.tolist(), taken.indices.tolist()) == ([0, 1, 1, 3], [0, 0, 1])


@pytest.mark.parametrize("source", ["random", "glove"])
def test_vectors_of_tokens(source, tmp_path):
    corpus = Texts.from_lists(["red garden story", "red garden", "a story"])
    tokens = Tokens.of([corpus], 1, 10)
    a, b, other = (tokens.vectors(source, 8, [corpus], Artifacts(tmp_path), seed) for seed in (0, 0, 1))
    assert a.shape == (4, 8)
    assert a.dtype == np.float32
    assert a.tobytes() == b.tobytes()
    assert not np.array_equal(a, other)
    assert 0.5 < np.linalg.norm(a, axis=1).mean() < 1.5


def test_vectors_of_tokens_from_a_file(tmp_path):
    (tmp_path / "vectors.txt").write_text("garden 1 0 0\nelse 0 1 0\nstory 0 0 3\n")
    corpus = Texts.from_lists(["red garden story"])
    tokens = Tokens.of([corpus], 1, 10)
    found = tokens.vectors(str(tmp_path / "vectors.txt"), 16, [corpus], Artifacts(tmp_path), 0)
    words = tokens.vocabulary.words.to_pylist()
    mean = (1 + 3) / 2  # of the words that the corpus has
    np.testing.assert_allclose(found[words.index("garden")], [1 / mean, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found[words.index("story")], [0, 0, 3 / mean], rtol=1e-6)
    # Wherever they stand in the file.
    filler = "".join(f"filler{number} 1 1 1\n" for number in range(500))
    (tmp_path / "long.txt").write_text(f"{filler}garden 1 0 0\nelse 0 1 0\nstory 0 0 3\n")
    late = tokens.vectors(str(tmp_path / "long.txt"), 16, [corpus], Artifacts(tmp_path), 0)
    assert np.array_equal(late, found)
    (tmp_path / "other.txt").write_text(filler)
    notes = {}
    random = tokens.vectors(str(tmp_path / "other.txt"), 16, [corpus], Artifacts(tmp_path), 0, notes)
    assert (notes["vectors"]["words"], random.shape[1], np.isfinite(random).all()) == (0, 3, True)
    with pytest.raises(UsageError, match="file of word vectors"):
        tokens.vectors(str(tmp_path / "missing.txt"), 16, [corpus], Artifacts(tmp_path), 0)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    network = BagEncoder(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32), 0.0)
    torch.nn.init.normal_(network.residual.weight)
    return network


WEIGHTS, TOKENS, STARTS = np.array([0.6, 0.8, 0.5, 0.5, 0.7], np.float32), [1, 4, 0, 1, 5], [0, 2, 2, 5]
BAGS = csr_matrix((WEIGHTS, TOKENS, STARTS), shape=(3, 6))


def test_encoder_equals_its_transcription(encoder):
    table, weight, bias = (parameter.detach().numpy() for parameter in encoder.parameters())
    for row, found in enumerate(encoder.embed(BAGS)):
        inside = slice(BAGS.indptr[row], BAGS.indptr[row + 1])
        hidden = np.maximum(0, BAGS.data[inside] @ table[BAGS.indices[inside]])
        vector = hidden + np.maximum(0, weight @ hidden + bias)
        expected = vector / np.linalg.norm(vector) if row != 1 else np.zeros(4)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_dropout_of_the_encoder_leaves_out_values_of_the_sum(monkeypatch):
    """In training only, and before the residual layer, which reads what is left."""
    torch.manual_seed(0)
    network = BagEncoder(np.ones((6, 400), np.float32), 0.25).train()
    seen = []
    network.dropout.register_forward_hook(lambda _, read, out: seen.append((read[0], out)))
    network.residual.register_forward_hook(lambda _, read, out: seen.append((read[0], out)))
    found = network(BAGS).detach().numpy()
    (before, after), (read, _) = seen
    assert torch.equal(after, read)
    assert (before[[0, 2]] > 0).all()
    assert 0.65 < (after[[0, 2]] > 0).float().mean().item() < 0.85
    assert np.array_equal(found[[0, 2]] > 0, (after[[0, 2]] > 0).numpy() | (found[[0, 2]] > 0))
    torch.testing.assert_close(after[after > 0], before[after > 0] / 0.75)
    assert (network.embed(BAGS)[[0, 2]] > 0).all()
    assert network.training


def test_gradient_of_the_encoder_is_that_of_differences(encoder):
    target = torch.randn(3, 4)
    (encoder(BAGS) * target).sum().backward()
    gradient = encoder.table.weight.grad
    assert gradient.is_sparse
    assert gradient._indices().tolist() == [[0, 1, 4, 5]]  # each token once
    step = 1e-3
    for weights, places in (
        (encoder.table.weight, [(1, 0), (4, 2), (5, 3)]),
        (encoder.residual.weight, [(row, column) for row in range(4) for column in range(4)]),
        (encoder.residual.bias, [(row,) for row in range(4)]),
    ):
        dense = weights.grad.to_dense().numpy()
        assert dense.any()
        for place in places:
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    weights[place] += sign * step
                    values.append(float((encoder(BAGS) * target).sum()))
                    weights[place] -= sign * step
            assert dense[place] == pytest.approx((values[0] - values[1]) / (2 * step), rel=0.02, abs=2e-3)


@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_contrastive_loss_equals_its_transcription(threshold):
    rng = np.random.default_rng(0)
    cosines, positive = rng.uniform(-1, 1, 30), rng.random(30) < 0.4
    expected = 0.0
    for cosine, true in zip(cosines, positive, strict=True):
        likely = 0.9 * math.exp(1.5 * (cosine - 1))
        if true:
            expected -= math.log(likely)
        elif likely >= threshold:
            expected -= math.log(1 - likely)
    arguments = torch.tensor(cosines, requires_grad=True), torch.tensor(positive)
    found = contrastive_loss(*arguments, 0.9, 1.5, threshold)
    assert found.item() == pytest.approx(expected, rel=1e-9)
    assert torch.autograd.gradcheck(
        lambda values: contrastive_loss(values, arguments[1], 0.9, 1.5, threshold), arguments[:1]
    )


@pytest.mark.parametrize(("n", "m", "d"), [(5, 7, 3), (4, 4, 2), (1, 1, 1), (3, 9, 4)])
def test_chosen_products_and_their_gradients(n, m, d):
    """Compare with all products. Some rows and columns are chosen several times, the last column never."""
    torch.manual_seed(n)
    left, right = torch.randn(n, d, requires_grad=True), torch.randn(m, d, requires_grad=True)
    rows, columns, factors = torch.randint(n, (30,)), torch.randint(max(1, m - 1), (30,)), torch.randn(30)
    every = left @ right.T
    found, expected = select_products(every.detach(), left, right, rows, columns), every[rows, columns]
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad((expected * factors).sum(), (left, right))
    for wanted in [(left, right), (left,), (right,)]:
        given = [side if any(side is one for one in wanted) else side.detach() for side in (left, right)]
        found = select_products(every.detach(), *given, rows, columns)
        for side, one in zip(wanted, torch.autograd.grad((found * factors).sum(), wanted), strict=True):
            torch.testing.assert_close(one, gradients[0] if side is left else gradients[1])


@pytest.mark.parametrize("negatives", [1, 2, 6])
def test_the_encoder_is_trained_on_the_hardest_documents_of_a_batch(fitted, monkeypatch, negatives):
    """The loss of one batch of all labels, in loops. Each label has one document; two documents have two labels."""
    found = []

    def once(parts, batches, loss_of, *, epochs, seed):
        ((rows,),) = [batches(0)]
        found.append((rows, loss_of(rows)))
        return []

    monkeypatch.setattr(network, "train", once)
    raw_X = Texts.from_lists(["red tea cup", "green leaf", "cup of red wine", "blue sky tea"])
    raw_Y = Texts.from_lists(["tea cup", "leaf", "wine", "sky", "red cup", "green"])
    documents = [0, 1, 2, 3, 2, 1]
    pairs = csr_matrix((np.ones(6, np.float32), (documents, np.arange(6))), shape=(4, 6))
    values = SMALL | {"dropout": 0.0, "classifier_epochs": 0, "negatives": negatives, "c": 0.8, "d": 2.5}
    method = fitted(SiameseXML, raw_X, raw_Y, pairs, **values)
    ((rows, loss),) = found
    anchors, others = (method._encoder.embed(method._tokens.bags(texts)) for texts in (raw_Y, raw_X))
    expected = 0.0
    for label in rows:
        expected -= math.log(0.8 * math.exp(2.5 * (anchors[label] @ others[documents[label]] - 1)))
        wrong = [documents[other] for other in rows if documents[other] != documents[label]]
        hardest = sorted((float(anchors[label] @ others[document]) for document in wrong), reverse=True)[:negatives]
        expected -= sum(math.log(1 - 0.8 * math.exp(2.5 * (cosine - 1))) for cosine in hardest)
    assert sorted(rows) == list(range(6))
    assert float(loss.detach()) == pytest.approx(expected / 6, rel=1e-5)


def test_scores_of_classifiers_are_cosines():
    """Compare with cosines computed one by one, and gradients with differences."""
    rng = np.random.default_rng(0)
    documents, start = rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal((6, 4)).astype(np.float32)
    rows, labels = np.array([0, 0, 1, 2, 2]), np.array([5, 1, 1, 0, 3])
    network, inputs = Classifiers(start), tuple(map(torch.from_numpy, (documents, rows, labels)))
    found = network(*inputs)
    unit = start / np.linalg.norm(start, axis=1, keepdims=True)
    expected = [documents[row] @ unit[label] for row, label in zip(rows, labels, strict=True)]
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(network.vectors(), unit, rtol=1e-6)
    target, step = torch.from_numpy(rng.standard_normal(5).astype(np.float32)), 1e-2
    (found * target).sum().backward()
    gradient = network.table.weight.grad
    assert gradient.is_sparse
    assert gradient._indices().tolist() == [[0, 1, 3, 5]]  # each label once
    gradient = gradient.to_dense().numpy()
    for label, place in [(1, 0), (5, 2), (3, 3)]:
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                network.table.weight[label, place] += sign * step
                values.append(float((network(*inputs) * target).sum()))
                network.table.weight[label, place] -= sign * step
        assert gradient[label, place] == pytest.approx((values[0] - values[1]) / (2 * step), rel=0.02, abs=2e-3)


def test_padding_trains_nothing():
    """Only the first document has label 0, whose momentum would move it in the steps of the others."""
    documents = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    labels = np.array([[0, 1], [1, 2], [2, 3], [3, 1]], np.int32)
    true = np.array([[True, False]] * 4)
    padding = np.full((4, 3), -1, np.int32)

    def fit(candidates, truth):
        options = {"batch": 1, "epochs": 3, "rate": 0.05, "dropout": 0.3, "seed": 0, "device": "cpu"}
        loss = lambda cosines, positive: contrastive_loss(cosines, positive, 0.75, 3.0)  # noqa: E731
        return fit_classifiers(documents, np.eye(4, 5, dtype=np.float32), candidates, truth, loss, **options)

    found, curve = fit(labels, true)
    padded, padded_curve = fit(
        np.concatenate([labels[:, :1], padding, labels[:, 1:], padding], axis=1),
        np.concatenate([true[:, :1], padding >= 0, true[:, 1:], padding >= 0], axis=1),
    )
    assert padded.tobytes() == found.tobytes()
    assert padded_curve == curve


def test_a_shortlist_holds_the_nearest_labels():
    rng = np.random.default_rng(0)
    documents, labels = rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((6, 3)).astype(np.float32)
    pairs = csr_matrix(np.eye(5, 6, dtype=np.float32) + np.eye(5, 6, 1, dtype=np.float32))
    candidates, true = list_candidates(documents, labels, pairs, 2, seed=0, device="cpu")
    for row in range(5):
        nearest = {*np.argsort(-(labels @ documents[row]))[:2].tolist()}
        assert {*candidates[row][true[row]].tolist()} == {row, row + 1}
        assert {*candidates[row][~true[row]].tolist()} - {-1} == nearest - {row, row + 1}


def test_candidate_labels():
    pairs = csr_matrix(np.array([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 0]], np.float32))
    near = np.array([[2, 1, 3], [0, -1, -1], [3, 0, 1]])
    labels, true = candidate_labels(pairs, near, 2, np.random.default_rng(0))
    assert labels[:2].tolist() == [[0, 2, -1, 1, 3], [3, -1, 0, -1, -1]]
    assert true[:2].tolist() == [[True, True, False, False, False], [True, False, False, False, False]]
    assert true[2].sum() == 2
    assert labels[2, 2:].tolist() == [3, -1, -1]  # a true label that is left out is not a false one


@pytest.mark.parametrize("most", [1, 3, 50])
@pytest.mark.parametrize("near", [0, 6])
def test_candidate_labels_equal_their_transcription(monkeypatch, most, near):
    """Row by row, with the draws in the same order; the known part is no wider than the longest row."""
    monkeypatch.setattr(classifiers, "ROWS", 7)
    rng = np.random.default_rng(1)
    dense = rng.random((40, 20)) < 0.2
    dense[5] = False
    shortlist = np.stack([rng.permutation(20)[:near] for _ in range(40)]).astype(np.int32)
    shortlist[:, 4:] = np.where(rng.random(shortlist[:, 4:].shape) < 0.5, -1, shortlist[:, 4:])
    labels, true = candidate_labels(csr_matrix(dense.astype(np.float32)), shortlist, most, np.random.default_rng(2))
    width = min(most, int(dense.sum(axis=1).max()))
    assert labels.shape == true.shape == (40, width + near)
    assert (labels.dtype, true.dtype) == (np.int32, bool)
    drawing = np.random.default_rng(2)
    for row in range(40):
        own = np.flatnonzero(dense[row])
        known = (own if len(own) <= most else drawing.choice(own, most, replace=False)).tolist()
        false = [-1 if label < 0 or dense[row, label] else label for label in shortlist[row].tolist()]
        assert labels[row].tolist() == known + [-1] * (width - len(known)) + false
        assert true[row].tolist() == [True] * len(known) + [False] * (width - len(known) + near)


def test_classifiers_learn_what_they_are_shown():
    documents = np.eye(4, dtype=np.float32)
    labels, true = np.tile(np.arange(4), (4, 1)), np.roll(np.eye(4, dtype=bool), 1, axis=1)
    start = np.full((4, 4), 0.5, np.float32)
    found, curve = fit_classifiers(
        documents,
        start,
        labels,
        true,
        lambda cosines, positive: contrastive_loss(cosines, positive, 0.75, 3.0),
        batch=2,
        epochs=40,
        rate=0.05,
        dropout=0.0,
        seed=0,
        device="cpu",
    )
    assert ((documents @ found.T).argmax(axis=1) == [1, 2, 3, 0]).all()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert curve[-1][0] == 80
    assert curve[-1][1] < curve[0][1] / 2


@pytest.mark.parametrize("dropout", [0.0, 0.7])
def test_dropout_of_the_classifiers_leaves_out_values_of_documents(monkeypatch, dropout):
    seen = []

    def watch(self, documents, *pairs):
        seen.append(documents.clone())
        return forward(self, documents, *pairs)

    forward = Classifiers.forward
    monkeypatch.setattr(Classifiers, "forward", watch)
    documents = np.full((50, 400), 0.05, np.float32)
    labels, true = np.zeros((50, 1), np.int64), np.ones((50, 1), bool)
    start = np.eye(1, 400, dtype=np.float32)
    options = {"batch": 50, "epochs": 2, "rate": 0.01, "seed": 0, "device": "cpu"}
    fit_classifiers(documents, start, labels, true, lambda cosines, _: cosines.sum(), dropout=dropout, **options)
    first, second = seen
    torch.testing.assert_close(first.norm(dim=1), torch.ones(50))
    assert (first == 0).float().mean().item() == pytest.approx(dropout, abs=0.02)
    assert torch.equal(first, second) == (dropout == 0)


def test_a_diverged_training_is_an_error():
    network = torch.nn.Linear(1, 1)
    with pytest.raises(MethodError, match="step 1 is NaN or infinite"):
        train([(network, 1.0)], shuffle(2, 2, 0), lambda _: network(torch.ones(1)).sum() * math.nan, epochs=1, seed=0)


def test_shuffled_batches_hold_every_row_once():
    batches = shuffle(10, 4, 0)
    for epoch in (0, 1):
        assert [len(batch) for batch in batches(epoch)] == [4, 3, 3]
        assert sorted(np.concatenate(batches(epoch))) == list(range(10))
    assert not np.array_equal(batches(0)[0], batches(1)[0])


def test_learns_from_pairs(learned):
    learned(SiameseXML, **SMALL)


@pytest.mark.parametrize(
    "other",
    [
        {"c": 0.5},
        {"d": 4.0},
        {"classifier_c": 0.3},
        {"classifier_d": 9.0},
        {"threshold": 0.4},
        {"negatives": 5},
        {"shortlist": 2},
        {"batch": 3},
        {"fusion": 0.2},
        {"classifier_dropout": 0.2},
        {"classifier_rate": 5e-3},
    ],
    ids=str,
)
def test_another_value_gives_other_scores(fitted, corpus, other):
    raw_X, raw_Y, pairs, new = corpus
    first, second = (
        fitted(SiameseXML, raw_X, raw_Y, pairs, **SMALL, **values).predict(new, k=7) for values in ({}, other)
    )
    assert first.scores.tobytes() != second.scores.tobytes()


def test_the_encoder_has_its_own_c_and_d(fitted, corpus, monkeypatch):
    seen = []

    def watch(cosines, positive, c, d, threshold=0.0):
        seen.append((c, d, threshold))
        return contrastive_loss(cosines, positive, c, d, threshold)

    monkeypatch.setattr(classifiers, "contrastive_loss", watch)
    raw_X, raw_Y, pairs, _ = corpus
    values = {"c": 0.8, "d": 2.0, "classifier_c": 0.6, "classifier_d": 5.0, "threshold": 0.1}
    fitted(SiameseXML, raw_X, raw_Y, pairs, **SMALL, **values)
    assert [*dict.fromkeys(seen)] == [(0.8, 2.0, 0.0), (0.6, 5.0, 0.1)]


def test_the_seed_shuffles_the_labels(fitted, corpus, monkeypatch):
    seen = []
    monkeypatch.setattr(network, "shuffle", lambda rows, batch, seed: seen.append(seed) or shuffle(rows, batch, seed))
    raw_X, raw_Y, pairs, _ = corpus
    fitted(SiameseXML, raw_X, raw_Y, pairs, seed=3, **SMALL)
    assert seen == [3]


def test_the_seed_draws_the_documents(fitted, corpus, monkeypatch):
    """Of labels that are shuffled alike."""
    monkeypatch.setattr(network, "shuffle", lambda rows, batch, seed: shuffle(rows, batch, 0))
    raw_X, raw_Y, pairs, _ = corpus
    taken = {}

    def watch(self, key):
        if isinstance(key, np.ndarray):
            taken.setdefault(seed, []).append(key.tolist())
        return take(self, key)

    take = csr_matrix.__getitem__
    monkeypatch.setattr(csr_matrix, "__getitem__", watch)
    for seed in (3, 4):
        fitted(SiameseXML, raw_X, raw_Y, pairs, seed=seed, **SMALL)
    assert taken[3] != taken[4]


def test_the_classifiers_have_batches_of_256(fitted, corpus, monkeypatch):
    batches = []

    def watch(*arguments, batch, **options):
        batches.append(batch)
        return fit_classifiers(*arguments, batch=batch, **options)

    monkeypatch.setattr(classifiers, "fit_classifiers", watch)
    raw_X, raw_Y, pairs, _ = corpus
    fitted(SiameseXML, raw_X, raw_Y, pairs, **SMALL)
    assert batches == [256]


def test_a_label_is_trained_with_each_of_its_documents(fitted, monkeypatch):
    """Drawn again in each epoch: not always the first."""
    taken = []

    def watch(self, key):
        if self.shape[0] == 6 and isinstance(key, np.ndarray):
            taken.append(key.tolist())
        return take(self, key)

    take = csr_matrix.__getitem__
    monkeypatch.setattr(csr_matrix, "__getitem__", watch)
    raw_X = Texts.from_lists(["red tea", "tea cup", "tea", "tea pot", "green tea", "blue sky"])
    pairs = csr_matrix(np.array([[1, 0]] * 5 + [[0, 1]], np.float32))
    fitted(SiameseXML, raw_X, Texts.from_lists(["tea", "sky"]), pairs, **(SMALL | {"epochs": 40}))
    drawn = [next(row for row in rows if row < 5) for rows in taken if len(rows) == 2]
    assert len(drawn) == 40
    assert {*drawn} == {0, 1, 2, 3, 4}


def test_learning_rates_reach_their_trainings(fitted, corpus, monkeypatch):
    rates = []

    def watch(parts, *arguments, **options):
        rates.append([rate for _, rate in parts])
        return train(parts, *arguments, **options)

    monkeypatch.setattr(network, "train", watch)
    monkeypatch.setattr(classifiers, "train", watch)
    raw_X, raw_Y, pairs, _ = corpus
    fitted(SiameseXML, raw_X, raw_Y, pairs, learning_rate=0.03, classifier_rate=0.002, **SMALL)
    assert rates == [[0.03], [0.002]]


@pytest.mark.parametrize("approximate", [False, True])
def test_parts_are_the_whole(fitted, corpus, check_parts, monkeypatch, approximate):
    """An index is built once, not once a part."""
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(SiameseXML, raw_X, raw_Y, pairs, **SMALL)
    built, hnsw = [], search._hnsw
    if approximate:
        pytest.importorskip("faiss")
        monkeypatch.setattr(search, "is_exact", lambda *_: False)
    monkeypatch.setattr(search, "_hnsw", lambda items: built.append(len(items)) or hnsw(items))
    check_parts(method, {"siamesexml.ROWS": 8})
    assert method.notes["search"]["index"] == ("HNSW" if approximate else "exact")
    assert built == [7] * (2 if approximate else 0)  # one for each prediction


def test_notes_say_how_shortlists_were_found(fitted, corpus):
    raw_X, raw_Y, pairs, _ = corpus
    method = fitted(SiameseXML, raw_X, raw_Y, pairs, **SMALL)
    assert method.notes["classifiers"]["search"] == {"index": "exact", "items": 7}


@pytest.mark.parametrize("fusion", [0.0, 0.3])
def test_score_is_the_fusion_of_embedding_and_classifier(fitted, corpus, monkeypatch, fusion):
    kept = []

    def watch(documents, start, *rest, **options):
        found = fit_classifiers(documents, start, *rest, **options)
        kept.append((start, found[0]))
        return found

    monkeypatch.setattr(classifiers, "fit_classifiers", watch)
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(SiameseXML, raw_X, raw_Y, pairs, fusion=fusion, **SMALL)
    found = method.predict(new, k=7)
    ((embedded, trained),) = kept
    query = method._encoder.embed(method._tokens.bags(new))[0]
    for label, score in zip(found.indices[0], found.scores[0], strict=True):
        expected = (1 - fusion) * embedded[label] @ query + fusion * trained[label] @ query
        assert score == pytest.approx(expected, rel=1e-4)


def test_own_documents_of_a_label_are_no_negatives(fitted, monkeypatch):
    """All documents have both labels: in a batch nothing is wrong, and only the positives cost."""
    counted = []

    def watch(cosines, positive, *rest):
        counted.append(positive.tolist())
        return contrastive_loss(cosines, positive, *rest)

    monkeypatch.setattr(classifiers, "contrastive_loss", watch)
    raw_X, raw_Y = Texts.from_lists(["red tea", "green tea"]), Texts.from_lists(["red", "green"])
    values = SMALL | {"classifier_epochs": 0}
    fitted(SiameseXML, raw_X, raw_Y, csr_matrix(np.ones((2, 2), np.float32)), **values)
    assert counted
    assert all(all(row) for row in counted)


@pytest.mark.parametrize("kind", [Astec, SiameseXML])
def test_given_vectors_are_in_the_notes(fitted, tmp_path, kind):
    path = tmp_path / "vectors.txt"
    path.write_text("garden 1 0 0\nstory 0 0 3\n")
    pairs = csr_matrix(np.array([[1, 0], [0, 1]], np.float32))
    texts = Texts.from_lists(["a red garden", "the story"])
    method = fitted(kind, texts, Texts.from_lists(["garden", "story"]), pairs, **SMALL, vectors=str(path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    source = "a local file"
    assert method.notes["vectors"] == {
        "name": "vectors.txt",
        "source": source,
        "sha256": digest,
        "width": 3,
        "words": 2,
    }


@pytest.mark.parametrize("kind", [Astec, SiameseXML])
@pytest.mark.parametrize("texts", [["one two", "three four"], ["", ""]])
def test_no_word_is_known(fitted, kind, texts):
    """None reaches ``min_count``."""
    raw_X, raw_Y = Texts.from_lists(texts), Texts.from_lists(["five", "six"])
    method = fitted(kind, raw_X, raw_Y, csr_matrix(np.eye(2, dtype=np.float32)), **(SMALL | {"min_count": 2}))
    found = method.predict(raw_X, k=3)
    found.check(2, 3, 2)
    assert (found.indices == -1).all()
    assert method.notes["tokens"] == 0
    assert method.notes["instances_without_a_known_token"] == 2
    json.dumps(method.notes, allow_nan=False)


def test_strange_input(strange):
    for labels, _, first in strange(SiameseXML, **SMALL):
        assert (first >= 0).sum() == sum(map(bool, labels))


@pytest.mark.parametrize("values", [{"dropout": 1.0}, {"c": 1.0}, {"epochs": -1}, {"fusion": 1.1}, {"batch": 0}])
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        SiameseXML(**values)


def test_a_label_without_a_known_pair_is_no_negative():
    """It keeps its own vector for a classifier, however near to a document it is."""
    documents = np.eye(3, dtype=np.float32)
    labels = np.concatenate([documents, documents])
    pairs = csr_matrix(np.array([[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]], np.float32))
    candidates, true = list_candidates(documents, labels, pairs, 6, seed=0, device="cpu")
    assert {*candidates.ravel().tolist()} == {-1, 3, 4}
    assert true.sum() == 2
