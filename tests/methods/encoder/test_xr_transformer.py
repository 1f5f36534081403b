"""XR-Transformer: the loss of a level, its classifiers, the training from level to level, and strange input."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, MethodError, Texts, TopK, UsageError
from xmcbench.methods.dense.search import top_k_batches
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import TrainingPlan, train
from xmcbench.methods.label_tree.linear import TreeRanker
from xmcbench.methods.label_tree.tree import Level, shortlist
from xmcbench.methods.xr_transformer import XRTransformer
from xmcbench.methods.xr_transformer.level import ClusterWeights, LevelTask, fit_svms, level_loss, with_clusters

QUICK = {"instance_length": 24, "steps": 4, "batch": 8, "leaf": 2, "branches": 2, "min_clusters": 2}


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    shares = np.where(rng.random((6, 5)) < 0.4, rng.random((6, 5)), 0)
    return rng.normal(0, 1.5, (6, 5)), shares, rng.random((6, 5)) < 0.8


def test_the_loss_of_a_level_equals_its_transcription(scored):
    scores, shares, kept = scored
    total = 0.0
    for row in range(6):
        for place in range(5):
            if kept[row, place]:
                true = shares[row, place] > 0
                hinge = max(0.0, 1 - scores[row, place] if true else 1 + scores[row, place])
                total += hinge**2 * (shares[row, place] if true else 0.3)
    found = level_loss(*map(torch.from_numpy, scored), 0.3)
    assert found.item() == pytest.approx(total / 6)


def test_the_gradient_of_a_level(scored):
    _, shares, kept = map(torch.from_numpy, scored)
    vectors = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    rng = np.random.default_rng(0)
    clusters = ClusterWeights(rng.normal(size=(9, 4)), rng.normal(size=9))
    listed = torch.arange(30).reshape(6, 5) % 9

    def loss(inputs, weight, bias):
        scores = torch.func.functional_call(clusters, {"weight": weight, "bias": bias}, (inputs, listed))
        return level_loss(scores, shares, kept, 0.3)

    assert torch.autograd.gradcheck(loss, (vectors, clusters.weight, clusters.bias))
    weight, bias = clusters.weight.detach()[listed], clusters.bias.detach()[listed]
    expected = np.einsum("nd,nmd->nm", vectors.detach(), weight) + bias.numpy()
    np.testing.assert_allclose(clusters(vectors, listed).detach(), expected)


def test_the_cost_of_the_machines():
    """The more a mistake costs, the larger the weights."""
    rng = np.random.default_rng(0)
    true = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 40)]
    level = Level(csr_matrix(np.ones((1, 3), np.float32)), csr_matrix(true))
    vectors = rng.normal(size=(40, 8)).astype(np.float32)
    sizes = [np.linalg.norm(fit_svms(vectors, level, None, cost, 0)[0]) for cost in (0.01, 1.0)]
    assert sizes[0] < sizes[1] / 2


def test_classifiers_start_from_linear_machines():
    """They separate what can be separated, and a cluster that is never tried for an instance learns nothing from it."""
    rng = np.random.default_rng(0)
    own = np.arange(40) % 4
    vectors = (np.eye(4)[own] + 0.1 * rng.standard_normal((40, 4))).astype(np.float32)
    children = csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], np.float32))
    level = Level(children, csr_matrix(2 * np.eye(4, dtype=np.float32)[own]))
    weights, bias = fit_svms(vectors, level, None, 1.0, 0)
    assert (weights.shape, bias.shape) == ((4, 4), (4,))
    assert weights.dtype == np.float32
    assert ((vectors @ weights.T + bias)[np.arange(40), own] > 0.5).all()
    assert abs(weights[0, 2]) < 0.1  # clusters 2 and 3 are no siblings of 0
    guessed = TopK(np.zeros((40, 1), np.int32), np.zeros((40, 1), np.float32))
    assert fit_svms(vectors, level, guessed, 1.0, 0)[0][0, 2] < -0.2


@pytest.fixture
def texts(checkpoint, tmp_path):
    words = ["apple", "bridge", "candle", "desert"]
    corpus = Texts.from_lists([f"the {words[row % 4]} story" for row in range(24)])
    return TokenStore.of(Artifacts(tmp_path), corpus, open_tokenizer(checkpoint()), 8)


def test_encoder_and_classifiers_learn_together(checkpoint, texts, tmp_path):
    encoder = open_encoder(checkpoint(), "native", 0)
    clusters = ClusterWeights(np.zeros((4, 16), np.float32), np.zeros(4, np.float32))
    shares = np.eye(4, dtype=np.float32)[np.arange(24) % 4]
    task = LevelTask(texts, np.tile(np.arange(4), (24, 1)), shares, 1.0, 8, 0)
    before = encoder.digest()
    with with_clusters(encoder, clusters):
        history = train(encoder, task, TrainingPlan(60, 0.02), tmp_path / "state", {}, "cpu")
        assert {"clusters.weight", "clusters.bias"} <= {*encoder.weights()}
    assert history.losses == ["squared hinge"]
    assert history.curve[-1][1] < 0.2 * history.curve[0][1]
    assert encoder.digest() != before
    assert not any(name.startswith("clusters") for name in encoder.weights())
    assert clusters.with_bias().shape == (4, 17)
    assert np.abs(clusters.with_bias()).min() > 0


def test_missing_candidates_count_nothing(checkpoint, texts, tmp_path):
    class Alone:
        device = torch.device("cpu")

        def local_slice(self, rows):
            return slice(0, rows)

    encoder = open_encoder(checkpoint(dropout=0.0), "native", 0)
    listed = np.tile(np.arange(4), (24, 1))
    shares = np.eye(4, dtype=np.float32)[np.arange(24) % 4]
    wide = np.hstack([listed, np.full((24, 3), -1)]), np.hstack([shares, np.zeros((24, 3), np.float32)])
    with with_clusters(encoder, ClusterWeights(np.full((4, 16), 0.1, np.float32), np.full(4, 0.5, np.float32))):
        losses = [
            LevelTask(texts, *level, 1.0, 24, 0).losses(0, encoder, Alone())["squared hinge"].item()
            for level in ((listed, shares), wide)
        ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.fixture
def run(checkpoint, stories, tmp_path):
    def go(raw_Y=None, pairs=None, new=None, k=5, **values):
        raw_X, labels, known = stories
        labels = labels if raw_Y is None else raw_Y
        method = XRTransformer(backbone=str(checkpoint()), **{**QUICK, **values})
        method.artifacts = Artifacts(tmp_path / "store")
        method.require()
        method.fit(raw_X, labels, known if pairs is None else pairs)
        new = raw_X if new is None else new
        found = method.predict(new, k)
        found.check(len(new), k, len(labels))
        json.dumps(method.notes, allow_nan=False)
        return found, method

    return go


def test_learns_from_pairs_level_by_level(run, stories):
    found, method = run(k=10, guesses=2, steps=6)
    true = stories[2].toarray()
    assert np.take_along_axis(true, found.indices[:, :2], 1).mean() > 0.95
    assert (found.indices >= 0).all()
    trained = [name for name in method.notes if name.startswith("fine-tuning")]
    assert trained == [f"fine-tuning on {clusters} clusters" for clusters in (2, 4, 8, 10)]
    steps = [method.notes[name]["steps"] for name in trained]
    assert steps == [1, 2, 1, 2]
    assert method.notes["training_instances"] == 30
    assert method.notes["labels_with_a_classifier"] == 10


def test_a_training_that_diverged_is_named(run):
    """Its loss is looked at before each step, so that what the last one did shows in the embeddings only."""
    with pytest.raises(MethodError, match=r"an embedding is NaN or infinite \(a diverged training\?\)"):
        run(steps=1, learning_rate=1e30, warmup=0.0, min_clusters=5, leaf=5)


def test_equal_runs_are_equal_and_what_changes_them(run):
    first = run()[0]
    assert first.scores.tobytes() == run()[0].scores.tobytes()
    for values in (
        {"steps": 0},
        {"steps": 1},
        {"steps": 6},
        {"negative_cost": 0.1},
        {"guesses": 0},
        {"max_clusters": 4},
    ):
        assert not np.array_equal(first.scores, run(**values)[0].scores), values


def test_parameters_reach_the_trainings(run, monkeypatch):
    plans, costs, ranked = [], [], []

    def make_plan(*values, **named):
        plans.append(TrainingPlan(*values, **named))
        return plans[-1]

    def fit(*values):
        costs.append(values[-2:])
        return fit_svms(*values)

    trained = TreeRanker.train
    monkeypatch.setattr("xmcbench.methods.encoder.training.TrainingPlan", make_plan)
    monkeypatch.setattr("xmcbench.methods.xr_transformer.level.fit_svms", fit)
    monkeypatch.setattr(TreeRanker, "train", lambda *rest, **named: ranked.append(named) or trained(*rest, **named))
    run(learning_rate=3e-4, warmup=0.3, clip=7.0, cost=0.4, threshold=0.2, nr_splits=4, max_leaf_size=3)
    assert {(plan.learning_rate, plan.warmup, plan.clip) for plan in plans} == {(3e-4, 0.3, 7.0)}
    assert set(costs) == {(0.4, 0)}
    assert ranked == [{"nr_splits": 4, "max_leaf_size": 3, "cost": 0.4, "threshold": 0.2, "seed": 0}]


def test_each_level_draws_its_own_instances(run, monkeypatch):
    drawn, plans = [], []

    class Watched(LevelTask):
        def losses(self, step, network, context):
            if not step:
                drawn.append(tuple(self._epochs(step)))
            return super().losses(step, network, context)

    def watch_train(encoder, task, plan, *rest, **named):
        plans.append(plan)
        return train(encoder, task, plan, *rest, **named)

    monkeypatch.setattr("xmcbench.methods.xr_transformer.level.LevelTask", Watched)
    monkeypatch.setattr("xmcbench.methods.encoder.tower.train", watch_train)
    run()
    assert len(drawn) == len(set(drawn)) == 4
    assert plans[0].seed == 0
    assert len({plan.seed for plan in plans}) == 4


def test_parameters_reach_the_shortlist_and_the_search(run, monkeypatch):
    given = []

    def draw_shortlist(level, guessed, size, seed):
        given.append((size, seed))
        return shortlist(level, guessed, size, seed)

    def search(self, X, k, beam):
        given.append((k, beam))
        return search_of(self, X, k, beam)

    search_of = TreeRanker.search
    monkeypatch.setattr("xmcbench.methods.label_tree.tree.shortlist", draw_shortlist)
    monkeypatch.setattr(TreeRanker, "search", search)
    run(shortlist=6, beam_size=7, k=4)
    assert {*given} == {(6, 0), (4, 7)}


def test_the_vectors_count_beside_the_features(run, stories):
    """Documents without a known word are told apart by what the encoder reads."""
    _, method = run(steps=0, k=1)
    new = Texts.from_lists(["", "apple"])
    found = method.predict(new, 1)
    assert found.indices[1, 0] == 0
    assert found.scores[0, 0] != found.scores[1, 0]


def test_the_ranker_sees_the_vectors_of_the_trained_encoder(run, stories, monkeypatch):
    seen, trained = [], TreeRanker.train
    monkeypatch.setattr(TreeRanker, "train", lambda X, *rest, **named: seen.append(X) or trained(X, *rest, **named))
    _, method = run(steps=8, learning_rate=1e-2)
    vectors = method._embed(method._tower.instance_tokens(stories[0], 24))
    np.testing.assert_allclose(seen[0][:, -16:].toarray(), vectors, atol=1e-5)
    assert abs(seen[0][:, :-16].multiply(seen[0][:, :-16]).sum(axis=1) - 1).max() < 1e-5


def test_a_level_is_trained_on_what_the_one_above_guessed(run, monkeypatch):
    handed = []

    def watch(function, place):
        def note(*values):
            handed.append((function.__name__, values[place]))
            return function(*values)

        return note

    monkeypatch.setattr("xmcbench.methods.label_tree.tree.shortlist", watch(shortlist, 1))
    monkeypatch.setattr("xmcbench.methods.xr_transformer.level.fit_svms", watch(fit_svms, 2))
    run(guesses=2)
    assert [name for name, _ in handed] == ["fit_svms", "shortlist"] * 4
    assert handed[0][1] is handed[1][1] is None
    for start in (0, 1):
        assert [guessed.indices.shape for _, guessed in handed[2 + start :: 2]] == [(30, 2)] * 3


def test_guesses_are_the_clusters_that_score_highest():
    rng = np.random.default_rng(0)
    vectors, classifiers = rng.standard_normal((9, 4), np.float32), rng.standard_normal((7, 5), np.float32)
    method = XRTransformer(guesses=3)
    method._tower = SimpleNamespace(nearest=top_k_batches)
    scores = vectors @ classifiers[:, :4].T + classifiers[:, 4]
    assert method._guess(vectors, classifiers).indices.tolist() == np.argsort(-scores, axis=1)[:, :3].tolist()
    assert method._guess(vectors, classifiers[:2]).indices.shape == (9, 2)


@pytest.mark.parametrize(
    "values", [{"steps": -1}, {"leaf": 1}, {"shortlist": 0}, {"negative_cost": 0.0}, {"instance_length": 2}]
)
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        XRTransformer(**values)
