from types import SimpleNamespace

import numpy as np
import pytest
import torch

from xmcbench import MethodError, TopK
from xmcbench.methods.encoder.cloze import context_pairs
from xmcbench.methods.encoder.contrastive import InverseCloze
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext
from xmcbench.methods.maclr.first_stage import (
    ClusterSchedule,
    FirstStage,
    Regularization,
    Sources,
    clusters_of,
    k_means,
)
from xmcbench.methods.maclr.pseudo_pairs import (
    OwnTitles,
    PseudoPairs,
    choose_pairs,
    mix_pairs,
    sum_scores,
    without_own_titles,
)
from xmcbench.methods.maclr.second_stage import HardNegatives, SecondStage, SoftTargets, draw_visited


@pytest.fixture
def place():

    return DistributedContext.of("cpu")


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
    return Sources(drawn, documents, labels, OwnTitles.of(titles, labels))


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
    x, y = one_by_one(encoder, sources.pairs.contexts, rows), one_by_one(encoder, sources.pairs.titles, rows)
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

    def count(encoder, store, rows, clusters, restarts, context, points):
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
    second.resume({name: array.copy() for name, array in first.state().items()})
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
    assert all(len(set(labels)) == 3 for labels in drawn)
    assert len({tuple(labels) for labels in drawn}) > 1
    assert fewer.draw(2)["label"].rows.tolist() == drawn[2]


def test_a_label_that_repeats_the_title_is_not_a_negative(sources, encoder, place):
    """With one label, which is everybody's title, nothing is left to regularize."""
    own = OwnTitles(np.zeros(30, np.int64), np.zeros(10, np.int64), 10)
    sources = Sources(sources.pairs, sources.documents, sources.labels, own)
    found = {}
    for negatives in ("untrue", "all"):
        regularization = Regularization(5, 1.0, negatives=negatives)
        task = FirstStage(sources, np.arange(30), ClusterSchedule(4, 0, 1, 1), regularization, 6, 1.0, seed=0)
        found[negatives] = task.losses(0, encoder, place)["label"].item()
    assert found["untrue"] == 0.0
    assert found["all"] > 0.1


def test_titles_are_those_of_the_documents_whose_contexts_are_drawn(artifacts, checkpoint, encoder, place):
    """The first four documents have no context, so contexts and documents are counted differently."""
    from xmcbench import Texts

    things = ["apple", "bridge", "candle", "desert", "engine", "forest"]
    titles = [f"{things[row % 6]} story" for row in range(16)]
    contents = ["The old." if row < 4 else f"The {titles[row]}. It likes the garden." for row in range(16)]
    raw_X, raw_Y = Texts.from_lists(titles, contents), Texts.from_lists(titles[:6])
    tokenizer = open_tokenizer(checkpoint())
    options = {"context_length": 24, "title_length": 8, "min_sentences": 2, "title_dropout": 0.0, "seed": 0}
    drawn = context_pairs(artifacts, raw_X, (tokenizer, tokenizer), **options)
    assert drawn.rows.tolist() == list(range(4, 16))
    documents, labels = (TokenStore.of(artifacts, texts, tokenizer, 24) for texts in (raw_X, raw_Y))
    own = OwnTitles.of(TokenStore.of(artifacts, raw_X, tokenizer, 24, titles=True), labels)
    sources, used = Sources(drawn, documents, labels, own), np.arange(2, 12)
    task = FirstStage(sources, used, ClusterSchedule(4, 0, 1, 1), Regularization(6, 0.7), 10, 0.3, seed=0)
    encoder.eval()
    views = task.draw(0)
    rows = views["context"].rows
    assert sorted(rows) == used.tolist()
    x, y = one_by_one(encoder, drawn.contexts, rows), one_by_one(encoder, labels, np.arange(6))
    expected = 0.0
    for i, row in enumerate(rows):
        others = y[[label for label in range(6) if titles[label] != titles[drawn.rows[row]]]]
        expected -= np.log(softmax(np.append(x[i], others).reshape(-1, 16) @ x[i] / 0.7)[0]) / 10
    assert task.losses(0, encoder, place)["label"].item() == pytest.approx(expected, abs=1e-5)


def test_every_visit_has_contexts_of_its_own(artifacts, checkpoint, encoder, place):
    """A repeated title is taken out of other sentences at the next visit; context and twin are one text."""
    from xmcbench import Texts

    texts = Texts.from_lists(["apple", "bridge"], [" ".join(["The apple."] * 12), "The old. The new."])
    options = {"context_length": 48, "title_length": 8, "min_sentences": 2, "title_dropout": 0.5, "seed": 0}
    drawn = context_pairs(artifacts, texts, (open_tokenizer(checkpoint()),) * 2, **options)
    labels = TokenStore.of(artifacts, texts, open_tokenizer(checkpoint()), 8)
    own = OwnTitles(np.arange(2), np.full(2, -2), 1)
    sources, schedule = Sources(drawn, labels, labels, own), ClusterSchedule(4, 0, 1, 1)
    task = FirstStage(sources, np.arange(2), schedule, Regularization(2, 1.0), 2, 1.0, seed=0)
    seen = []
    for step in range(4):  # a batch is an epoch
        views = task.draw(step)
        seen.append(views["context"].store[0].tobytes())
        assert views["twin"].store[0].tobytes() == seen[-1]
        assert views["context"].store[1].tobytes() == drawn.contexts[1].tobytes()
    assert len(set(seen)) == 4
    assert seen[0] == drawn.contexts[0].tobytes()
    assert task.draw(2)["context"].store[0].tobytes() == seen[2]
    alone = InverseCloze(drawn, 2, 1.0, seed=0)
    assert [alone.draw(step)["anchor"].store[0].tobytes() for step in range(4)] == seen
    assert {alone.draw(step)["positive"].store for step in range(4)} == {drawn.titles}


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


def test_clusters_are_made_where_the_cell_computes(artifacts, sources, encoder, place, monkeypatch):
    """FAISS may have a GPU that was not asked for."""
    import faiss

    vectors, asked, original = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32), [], faiss.Kmeans

    def on_the_cpu(*arguments, gpu, **options):
        asked.append(gpu)
        return original(*arguments, **options)

    monkeypatch.setattr(faiss, "Kmeans", on_the_cpu)
    for count in (0, 1):
        monkeypatch.setattr(faiss, "get_num_gpus", lambda count=count: count)
        for device in ("cpu", "cuda"):
            k_means(vectors, 4, 1, device=device)
    assert asked == [False, False, False, True]
    asked.clear()
    elsewhere = SimpleNamespace(device=torch.device("cuda"), processes=1, rank=0)
    for context in (place, elsewhere):
        clusters_of(encoder.eval(), sources.documents, np.arange(12), 3, 1, context)
    assert asked == [False, True]


def test_clusters_of_documents(sources, encoder, place):
    encoder.eval()
    rows = np.array([4, 2, 9, 27, 13, 0])
    vectors = one_by_one(encoder, sources.documents, rows).astype(np.float32)
    found = clusters_of(encoder, sources.documents, rows, 3, 1, place)
    assert np.array_equal(found, k_means(vectors, 3, 1))
    assert clusters_of(encoder, sources.documents, rows, 6, 1, place).tolist() == list(range(6))


def pairs_of(found):
    return list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))


def test_pseudo_labels():
    found = TopK(
        np.array([[3, 1, 0, -1], [2, 0, 3, 1]], np.int32),
        np.array([[5.0, 4.0, 1.0, -np.inf], [9.0, 8.0, 7.0, 1.0]], np.float32),
    )
    assert pairs_of(choose_pairs(found, 4, 2)) == [(0, 3), (0, 1), (1, 2), (1, 0)]
    assert pairs_of(choose_pairs(found, 4, 4, least=4.0)) == [(0, 3), (0, 1), (1, 2), (1, 0), (1, 3)]
    assert pairs_of(choose_pairs(found, 4, 2, margin=2.0)) == [(0, 3), (0, 1)]
    assert pairs_of(choose_pairs(found, 4, 3, margin=2.0)) == [(0, 3), (0, 1), (0, 0), (1, 2), (1, 0), (1, 3)]
    own = OwnTitles(np.array([0, 1]), np.array([-2, 0, 1, 0]), 2)
    assert pairs_of(choose_pairs(without_own_titles(found, own, 4), 4, 2)) == [(0, 0), (1, 0), (1, 3)]
    assert without_own_titles(found, own, 1).indices.tolist() == [[0], [0]]


def test_a_lead_of_just_the_margin_is_enough():
    found = TopK(np.array([[0, 1]], np.int32), np.array([[3.0, 1.0]], np.float32))
    assert pairs_of(choose_pairs(found, 4, 1, margin=2.0)) == [(0, 0)]
    assert pairs_of(choose_pairs(found, 4, 1, margin=2.5)) == []


def test_pseudo_pairs_of_two_sources_are_counted_once_or_twice():
    first = PseudoPairs(np.array([0, 0, 1]), np.array([0, 2, 1]), (2, 3))
    second = PseudoPairs(np.array([0, 1, 1]), np.array([2, 0, 1]), (2, 3))
    assert pairs_of(mix_pairs([first, second], twice=False)) == [(0, 0), (0, 2), (1, 0), (1, 1)]
    assert pairs_of(mix_pairs([first, second], twice=True)) == [(0, 0), (0, 2), (0, 2), (1, 0), (1, 1), (1, 1)]
    assert mix_pairs([first, second], twice=True).matrix().toarray().tolist() == [[1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize("block", [4, 16_384])
@pytest.mark.parametrize("depth", [0, 3])
def test_sources_are_summed_in_one_scale(depth, block, monkeypatch):
    """Label by label: scores over the source's mean best score; what a source does not list counts as its last."""
    monkeypatch.setattr("xmcbench.methods.maclr.pseudo_pairs._ROWS", block)
    rng = np.random.default_rng(0)
    sources = [TopK.from_scores(rng.random((6, 20)) * scale, 5) for scale in (1, 40)]
    found = sum_scores(sources, 20, depth)
    assert found.k == (found.indices >= 0).sum(1).max()
    for row in range(6):
        expected = {}
        for label in range(20):
            ranks = [np.flatnonzero(source.indices[row] == label) for source in sources]
            listed = any(map(len, ranks))
            if depth:
                listed = all(len(rank) and rank[0] < depth for rank in ranks)
            if listed:
                scores = [
                    source.scores[row][rank[0] if len(rank) else -1] / source.scores[:, 0].mean()
                    for source, rank in zip(sources, ranks, strict=True)
                ]
                expected[label] = sum(scores)
        order = sorted(expected, key=lambda label: -expected[label])
        assert found.indices[row][: len(order)].tolist() == order
        assert (found.indices[row][len(order) :] == -1).all()
        assert found.scores[row][: len(order)].tolist() == pytest.approx([expected[label] for label in order], rel=1e-5)


def test_a_sum_takes_the_memory_of_a_block(monkeypatch):
    """Not that of all documents: there are 1.8 million in LF-Wikipedia-500K."""
    import tracemalloc

    rng = np.random.default_rng(0)
    sources = [TopK.from_scores(rng.random((2000, 400)), 100) for _ in range(2)]
    peaks = {}
    for block in (100, 2000):
        monkeypatch.setattr("xmcbench.methods.maclr.pseudo_pairs._ROWS", block)
        tracemalloc.start()
        sum_scores(sources, 400)
        peaks[block] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    result = 2000 * 100 * 8
    assert peaks[100] < 3 * result < peaks[2000] / 2


def test_a_source_that_ends_early_gives_the_others_nothing():
    """The second one matches two labels only: its zero, and not its last score, is what it gives the third."""
    full = TopK(np.array([[0, 1, 2]], np.int32), np.array([[1.0, 0.8, 0.7]], np.float32))
    short = TopK(np.array([[3, 1, -1]], np.int32), np.array([[2.0, 1.0, -np.inf]], np.float32))
    found = sum_scores([full, short], 5)
    expected = {3: 0.7 + 1.0, 1: 0.8 + 0.5, 0: 1.0 + 0, 2: 0.7 + 0}
    assert found.indices[0].tolist() == [*expected]
    assert found.scores[0].tolist() == pytest.approx([*expected.values()], abs=1e-6)
    below = TopK(np.array([[3, 1, -1]], np.int32), np.array([[-1.0, -2.0, -np.inf]], np.float32))
    found = sum_scores([full, below], 5)  # divided by 1, as its best score is -1
    assert found.indices[0].tolist() == [3, 0, 1, 2]
    assert found.scores[0].tolist() == pytest.approx([0.7 - 1, 1.0 - 2, 0.8 - 2, 0.7 - 2], abs=1e-6)


def test_only_documents_that_are_visited_need_pseudo_labels():
    assert draw_visited(5, np.array([1, 3]), 3, seed=0).tolist() == [0, 2, 4]
    assert draw_visited(5, np.array([], np.int64), 100, seed=0).tolist() == [0, 1, 2, 3, 4]
    drawn = draw_visited(1000, np.arange(500), 20, seed=0)
    assert len(set(drawn)) == 20
    assert drawn.min() >= 500
    assert drawn.tolist() == sorted(drawn) == draw_visited(1000, np.arange(500), 20, seed=0).tolist()
    assert drawn.tolist() != draw_visited(1000, np.arange(500), 20, seed=1).tolist()


#: Pairs of five instances, some of which share labels; label 3 reads like the title of instance 2.
ROWS, COLUMNS = np.array([0, 0, 1, 1, 2, 3, 4, 4]), np.array([0, 1, 1, 2, 0, 4, 5, 6])
OWN = OwnTitles(np.array([-1, -1, 7, -1, -1]), np.array([0, 1, 2, 7, 4, 5, 6, 8, 9, 10]), 1)
TEMPERATURE = 0.4


def stage_two(sources, **options):
    pairs = PseudoPairs(ROWS, COLUMNS, (30, 10))
    return SecondStage(sources.documents, sources.labels, pairs, 8, TEMPERATURE, seed=0, **options)


@pytest.mark.parametrize("loss", ["equation-3", "equation-2"])
@pytest.mark.parametrize("negatives", ["all", "untrue"])
def test_the_step_of_stage_two_is_its_equation(sources, encoder, place, loss, negatives):
    """A batch of N pairs, term by term: P(i) are the pairs of the same instance, or the pair alone."""
    encoder.eval()
    task = stage_two(sources, loss=loss, negatives=negatives, own_titles=OWN)
    views = task.draw(0)
    rows, columns = views["instance"].rows, views["label"].rows
    assert sorted(zip(rows, columns, strict=True)) == sorted(zip(ROWS, COLUMNS, strict=True))
    x, y = one_by_one(encoder, sources.documents, rows), one_by_one(encoder, sources.labels, columns)
    known = {*zip(ROWS.tolist(), COLUMNS.tolist(), strict=True)}
    expected = 0.0
    for i in range(8):
        positives = [p for p in range(8) if p == i or (loss == "equation-3" and rows[p] == rows[i])]
        candidates = [j for j in range(8) if negatives == "all" or j in positives or (rows[i], columns[j]) not in known]
        logits = {j: x[i] @ y[j] / TEMPERATURE for j in candidates}
        total = sum(np.exp(logit) for logit in logits.values())
        expected -= np.mean([np.log(np.exp(logits[p]) / total) for p in positives]) / 8
    assert task.losses(0, encoder, place)["pseudo pairs"].item() == pytest.approx(expected, abs=1e-5)


def test_hard_negatives_of_stage_two(sources, encoder, place):
    """Two of the ranks 2 to 4 of each pair's instance stand beside the labels of the batch, for every instance.

    A pseudo label of the instance is not among them.
    """
    encoder.eval()
    ranking = TopK(np.tile(np.arange(10, dtype=np.int32), (30, 1)), np.zeros((30, 10), np.float32))
    task = stage_two(sources, loss="equation-2", hard=HardNegatives(ranking, 20, 2, 2, 4), own_titles=OWN)
    views = task.draw(0)
    hard = views["hard"].rows
    assert len(hard) == 16
    assert set(hard.tolist()) == {1, 2, 3}
    assert all(len(set(pair)) == 2 for pair in hard.reshape(8, 2).tolist())
    x = one_by_one(encoder, sources.documents, views["instance"].rows)
    y = one_by_one(encoder, sources.labels, np.concatenate([views["label"].rows, hard]))
    known = {*zip(ROWS.tolist(), COLUMNS.tolist(), strict=True)}
    expected, own = 0.0, 0
    for i, row in enumerate(views["instance"].rows.tolist()):
        others = [8 + j for j, label in enumerate(hard.tolist()) if (row, label) not in known]
        own += 16 - len(others)
        expected -= np.log(softmax(y[[*range(8), *others]] @ x[i] / TEMPERATURE)[i]) / 8
    assert own
    assert task.losses(0, encoder, place)["pseudo pairs"].item() == pytest.approx(expected, abs=1e-5)
    narrow = TopK(np.full((30, 10), -1, np.int32), np.full((30, 10), -np.inf, np.float32))
    drawn = HardNegatives(narrow, 20, 2, 2, 4).draw(np.arange(30), np.random.default_rng(0))
    assert len(drawn) == 60
    assert {0, 19} <= set(drawn.tolist()) <= set(range(20))
    short = TopK(np.tile([[5, 6, 7]], (30, 1)).astype(np.int32), np.zeros((30, 3), np.float32))
    drawn = HardNegatives(short, 20, 3, 2, 4).draw(np.arange(30), np.random.default_rng(0)).reshape(30, 3)
    assert all({6, 7} <= set(row) for row in drawn.tolist())  # and any label for the rank that is missing


def test_a_label_within_the_margin_is_no_negative(sources, encoder, place):
    encoder.eval()
    margin = 0.01
    task = stage_two(sources, loss="equation-2", margin=margin)
    views = task.draw(0)
    x = one_by_one(encoder, sources.documents, views["instance"].rows)
    y = one_by_one(encoder, sources.labels, views["label"].rows)
    scores = x @ y.T
    kept = (scores <= scores.diagonal()[:, None] - margin) | np.eye(8, dtype=bool)
    assert 8 < kept.sum() < 64
    shares = np.exp(scores / TEMPERATURE) * kept
    expected = -np.mean(np.log(shares.diagonal() / shares.sum(1)))
    assert task.losses(0, encoder, place)["pseudo pairs"].item() == pytest.approx(expected, abs=1e-5)


def test_soft_targets(sources, encoder, place):
    """Cross-entropy between the teacher's shares of a list and the encoder's, others' labels being candidates."""
    encoder.eval()
    rng = np.random.default_rng(0)
    teacher = TopK.from_scores(rng.random((30, 10)), 4)
    teacher.indices[7, 1:], teacher.scores[7, 1:] = -1, -np.inf
    teacher.indices[8], teacher.scores[8] = -1, -np.inf
    task = SoftTargets(sources.documents, sources.labels, teacher, 6, TEMPERATURE, seed=0, length=3, sharpness=0.2)
    assert len(task) == 28
    short = TopK(teacher.indices[:, :2], teacher.scores[:, :2])
    assert (
        len(SoftTargets(sources.documents, sources.labels, short, 6, TEMPERATURE, seed=0, length=3, sharpness=0.2)) == 0
    )
    views = task.draw(0)
    rows, labels = views["instance"].rows, views["label"].rows
    assert labels.tolist() == teacher.indices[rows, :3].ravel().tolist()
    x, y = one_by_one(encoder, sources.documents, rows), one_by_one(encoder, sources.labels, np.arange(10))
    expected = 0.0
    for i, row in enumerate(rows):
        own = teacher.indices[row, :3]
        target = softmax(teacher.scores[row, :3].astype(np.float64) / 0.2)
        others = [label for label in labels if label not in own]  # as often as it stands in another list
        logits = np.concatenate([y[own], y[others]]) @ x[i] / TEMPERATURE
        expected -= (target * np.log(softmax(logits)[:3])).sum() / 6
    assert task.losses(0, encoder, place)["pseudo pairs"].item() == pytest.approx(expected, abs=1e-5)
