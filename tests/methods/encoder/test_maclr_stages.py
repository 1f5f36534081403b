import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import MethodError, TopK
from xmcbench.methods.encoder.cloze import context_pairs
from xmcbench.methods.encoder.network import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext
from xmcbench.methods.maclr.clusters import clusters_of, k_means
from xmcbench.methods.maclr.first_stage import FirstStage, Regularization, Sources
from xmcbench.methods.maclr.own_titles import OwnTitles
from xmcbench.methods.maclr.pseudo_pairs import chosen, mixed
from xmcbench.methods.maclr.schedule import ClusterSchedule
from xmcbench.methods.maclr.second_stage import SecondStage, SinglePairs, visited


@pytest.fixture
def place():
    from accelerate import Accelerator

    return DistributedContext(Accelerator(cpu=True))


@pytest.fixture
def encoder(checkpoint):
    return open_encoder(checkpoint(dropout=0.0), "native", seed=0)


@pytest.fixture
def sources(artifacts, checkpoint, stories):
    raw_X, raw_Y, _ = stories
    tokenizer = open_tokenizer(checkpoint())
    drawn = context_pairs(
        artifacts,
        raw_X,
        (tokenizer, tokenizer),
        context_length=24,
        title_length=16,
        min_sentences=2,
        title_dropout=0.0,
        seed=0,
    )
    documents, labels = (TokenStore.of(artifacts, texts, tokenizer, 24) for texts in (raw_X, raw_Y))
    titles = TokenStore.of(artifacts, raw_X, tokenizer, 24, titles=True)
    return Sources(drawn.contexts, drawn.titles, documents, drawn.rows, labels, OwnTitles.of(titles, labels))


def one_by_one(encoder, store, rows):
    with torch.no_grad():
        found = []
        for row in rows:
            ids = [torch.from_numpy(store[int(row)].astype(np.int64))[None]]
            found.append(encoder(ids, [torch.ones_like(ids[0], dtype=torch.bool)]))
    return torch.cat(found).double().numpy()


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


@pytest.mark.parametrize("twins", ["own", "cluster"])
def test_the_step_of_stage_one_is_its_equations(sources, encoder, place, twins):
    """From texts to both losses, against embeddings made one by one and the equations in numpy."""
    task = FirstStage(
        sources, np.arange(30), ClusterSchedule(8, 4, 2, 2), Regularization(5, 0.7, twins), 12, 0.3, seed=3
    )
    encoder.eval()
    task.prepare(0, encoder, place)
    found = task.losses(0, encoder, place)
    views = task.draw(0)
    rows, drawn = views["context"].rows, views["label"].rows
    assert len(rows) == 12
    assert len(set(drawn)) == 5
    clusters = task.state()["clusters"]
    assert len(set(clusters)) == 4
    x, y = one_by_one(encoder, sources.contexts, rows), one_by_one(encoder, sources.titles, rows)
    labels = one_by_one(encoder, sources.labels, drawn)
    cluster, regularization = 0.0, 0.0
    for i in range(12):
        positives = np.flatnonzero(clusters[rows] == clusters[rows[i]])
        cluster -= np.log(softmax(y @ x[i] / 0.3)[positives]).mean() / 12
        if twins == "own":
            regularization -= np.log(softmax(np.append(x[i], labels).reshape(-1, 16) @ x[i] / 0.7)[0]) / 12
        else:
            regularization -= np.log(softmax(np.concatenate([x, labels]) @ x[i] / 0.7)[positives]).mean() / 12
    assert found["cluster"].item() == pytest.approx(cluster, abs=1e-5)
    assert found["label"].item() == pytest.approx(regularization, abs=1e-5)


def test_clusters_are_made_when_the_schedule_asks(sources, encoder, place, monkeypatch):
    asked = []

    def count(encoder, store, rows, clusters, restarts, context):
        asked.append(clusters)
        return np.arange(len(rows)) % clusters

    monkeypatch.setattr("xmcbench.methods.maclr.first_stage.clusters_of", count)
    task = FirstStage(sources, np.arange(30), ClusterSchedule(20, 3, 4, 2), Regularization(0, 1.0), 8, 1.0, seed=0)
    for step in range(20):
        task.prepare(step, encoder, place)
        expected = [3, 3, 3, 3, 6, 6, 6, 6, 12, 12][step] if step < 10 else 30
        assert len(set(task.state()["clusters"])) == expected
    assert asked == [3, 3, 6, 6, 12]
    known = FirstStage(
        sources,
        np.arange(30),
        ClusterSchedule(20, 3, 4, 2),
        Regularization(0, 1.0),
        8,
        1.0,
        seed=0,
        first_clusters=np.full(30, 7),
    )
    known.prepare(0, encoder, place)
    assert known.state()["clusters"].tolist() == [7] * 30
    assert len(asked) == 5


def test_a_resumed_task_goes_on_with_its_clusters(sources, encoder, place):
    arguments = (sources, np.arange(30), ClusterSchedule(20, 3, 4, 4), Regularization(0, 1.0), 8, 1.0)
    first, second = FirstStage(*arguments, seed=0), FirstStage(*arguments, seed=0)
    encoder.eval()
    first.prepare(0, encoder, place)
    second.resume({name: each.copy() for name, each in first.state().items()})
    second.prepare(2, encoder, place)
    assert np.array_equal(second.state()["clusters"], first.state()["clusters"])


def test_only_what_is_used_is_drawn(sources):
    task = FirstStage(
        sources, np.array([3, 4, 20]), ClusterSchedule(4, 0, 1, 1), Regularization(0, 1.0), 2, 1.0, seed=0
    )
    drawn = {row for step in range(12) for row in task.draw(step)["context"].rows.tolist()}
    assert drawn == {3, 4, 20}
    assert set(task.draw(0)) == {"context", "title"}


def test_labels_are_sampled_without_replacement(sources):
    task = FirstStage(sources, np.arange(30), ClusterSchedule(4, 0, 1, 1), Regularization(64, 1.0), 4, 1.0, seed=0)
    assert task.draw(0)["label"].rows.tolist() == list(range(10))
    fewer = FirstStage(sources, np.arange(30), ClusterSchedule(4, 0, 1, 1), Regularization(3, 1.0), 4, 1.0, seed=0)
    drawn = [fewer.draw(step)["label"].rows.tolist() for step in range(4)]
    assert all(len(set(each)) == 3 for each in drawn)
    assert len({tuple(each) for each in drawn}) > 1
    assert fewer.draw(2)["label"].rows.tolist() == drawn[2]


def test_a_label_that_repeats_the_title_is_not_a_negative(sources, encoder, place):
    """With one label, which is everybody's title, nothing is left to regularize."""
    own = OwnTitles(np.zeros(30, np.int64), np.zeros(10, np.int64), 10)
    sources = Sources(sources.contexts, sources.titles, sources.documents, sources.rows, sources.labels, own)
    task = FirstStage(sources, np.arange(30), ClusterSchedule(4, 0, 1, 1), Regularization(5, 1.0), 6, 1.0, seed=0)
    assert task.losses(0, encoder, place)["label"].item() == 0.0


def test_own_titles(artifacts, checkpoint):
    from xmcbench import Texts

    tokenizer = open_tokenizer(checkpoint())
    titles = TokenStore.of(artifacts, Texts.from_lists(["red apple", "old", "", "Old"]), tokenizer, 16, titles=True)
    labels = TokenStore.of(
        artifacts, Texts.from_lists(["old", "the apple", "old", "red  apple", "the", "the", "the"]), tokenizer, 16
    )
    found = OwnTitles.of(titles, labels)
    expected = [[0, 0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0], [0] * 7, [1, 0, 1, 0, 0, 0, 0]]
    assert found.same(np.arange(4)[:, None], np.arange(7)).astype(int).tolist() == expected
    assert found.most == 2


def test_clusters_of_vectors():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 8))
    truth = rng.integers(0, 4, 200)
    vectors = (centers[truth] + rng.normal(0, 0.01, (200, 8))).astype(np.float32)
    found = k_means(vectors, 4, restarts=3)
    assert len({(a, b) for a, b in zip(truth, found, strict=True)}) == 4
    assert np.array_equal(found, k_means(vectors, 4, restarts=3))
    assert k_means(vectors, 200, 1).tolist() == k_means(vectors, 10**9, 1).tolist() == list(range(200))
    assert k_means(np.zeros((30, 8), np.float32), 7, 1).shape == (30,)  # one text 30 times
    vectors[3, 2] = np.nan
    with pytest.raises(MethodError, match="cannot be clustered"):
        k_means(vectors, 4, 1)


def test_clusters_of_documents(sources, encoder, place):
    encoder.eval()
    rows = np.array([4, 2, 9, 27, 13, 0])
    vectors = one_by_one(encoder, sources.documents, rows).astype(np.float32)
    found = clusters_of(encoder, sources.documents, rows, 3, 1, place)
    assert np.array_equal(found, k_means(vectors, 3, 1))
    assert clusters_of(encoder, sources.documents, rows, 6, 1, place).tolist() == list(range(6))


def test_pseudo_labels():
    found = TopK(
        np.array([[3, 1, 0, -1], [2, 0, 3, 1]], np.int32),
        np.array([[5.0, 4.0, 1.0, -np.inf], [9.0, 8.0, 7.0, 1.0]], np.float32),
    )
    assert chosen(found, 4, 2).toarray().tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert chosen(found, 4, 4, least=4.0).toarray().tolist() == [[0, 1, 0, 1], [1, 0, 1, 1]]
    own = OwnTitles(np.array([0, 1]), np.array([-2, 0, 1, 0]), 2)
    assert chosen(found, 4, 2, own_titles=own).toarray().tolist() == [[1, 0, 0, 0], [1, 0, 0, 1]]


def test_pseudo_pairs_are_mixed_and_stand_once():
    first, second = csr_matrix([[1.0, 0, 1], [0, 1, 0]]), csr_matrix([[0, 0, 1.0], [1, 1, 0]])
    both = mixed([first, second])
    assert both.toarray().tolist() == [[1, 0, 1], [1, 1, 0]]
    assert first.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]


def test_only_documents_that_are_visited_need_pseudo_labels():
    assert visited(5, np.array([1, 3]), 3, seed=0).tolist() == [0, 2, 4]
    assert visited(5, np.array([], np.int64), 100, seed=0).tolist() == [0, 1, 2, 3, 4]
    drawn = visited(1000, np.arange(500), 20, seed=0)
    assert len(set(drawn)) == 20
    assert drawn.min() >= 500
    assert drawn.tolist() == sorted(drawn) == visited(1000, np.arange(500), 20, seed=0).tolist()
    assert drawn.tolist() != visited(1000, np.arange(500), 20, seed=1).tolist()


def test_the_step_of_stage_two_is_equation_3(sources, encoder, place):
    """Pair by pair, each label in one instance's pairs only: P(i) are the pairs of the same instance."""
    pairs = csr_matrix((np.ones(9), ([0, 0, 0, 4, 4, 7, 9, 9, 9], [0, 5, 2, 1, 8, 3, 4, 6, 7])), shape=(30, 10))
    encoder.eval()
    task = SecondStage(sources.documents, sources.labels, pairs, 4, 0.4, seed=0)
    found = task.losses(0, encoder, place)["pseudo pairs"].item()
    rows, columns = pairs.nonzero()
    x, y = one_by_one(encoder, sources.documents, rows), one_by_one(encoder, sources.labels, columns)
    expected = 0.0
    for i in range(9):
        shares = softmax(y @ x[i] / 0.4)
        expected -= np.log(shares[rows == rows[i]]).mean() / 9
    assert found == pytest.approx(expected, abs=1e-5)
    apart = SecondStage(sources.documents, sources.labels, pairs, 4, 0.4, seed=0, apart=True)
    expected = 0.0
    for i in range(9):
        compared = (rows != rows[i]) | (np.arange(9) == i)
        expected -= np.log(np.exp(y[i] @ x[i] / 0.4) / np.exp(y[compared] @ x[i] / 0.4).sum()) / 9
    assert apart.losses(0, encoder, place)["pseudo pairs"].item() == pytest.approx(expected, abs=1e-5)
    single = SinglePairs(sources.documents, sources.labels, pairs, 9, 0.4, seed=0)
    expected = -np.mean([np.log(softmax(y @ x[i] / 0.4)[i]) for i in range(9)])
    assert single.losses(0, encoder, place)["pseudo pairs"].item() == pytest.approx(expected, abs=1e-5)


def test_a_shared_pseudo_label_is_embedded_once(sources):
    pairs = csr_matrix((np.ones(4), ([0, 1, 2, 2], [3, 3, 3, 5])), shape=(30, 10))
    task = SecondStage(sources.documents, sources.labels, pairs, 8, 1.0, seed=0)
    views = task.draw(0)
    assert sorted(views["instance"].rows) == [0, 1, 2]
    assert views["label"].rows.tolist() == [3, 5]
