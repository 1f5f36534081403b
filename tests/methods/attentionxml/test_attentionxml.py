"""AttentionXML: what it learns, from level to level, and strange input."""

import json

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Texts, UsageError
from xmcbench.methods.attentionxml import AttentionXML, network
from xmcbench.methods.attentionxml.network import AttentionNetwork, Sequences

TINY = {
    "vectors": "random",
    "dimensions": 8,
    "min_count": 1,
    "hidden": 6,
    "connected": 8,
    "batch": 32,
    "leaf": 2,
    "branches": 2,
}


@pytest.fixture(scope="module")
def learnable():
    """160 texts, each with the words of its one or two labels among other words, and 40 new ones: 24 labels."""
    rng = np.random.default_rng(0)
    chosen = [sorted(rng.choice(24, rng.integers(1, 3), replace=False)) for _ in range(200)]
    texts = []
    for labels in chosen:
        words = [f"w{word}" for word in rng.integers(0, 40, 6)] + [f"name{label}" for label in labels]
        texts.append(" ".join(rng.permutation(words)))
    rows = np.repeat(np.arange(200), [len(labels) for labels in chosen])
    pairs = csr_matrix((np.ones(len(rows), np.float32), (rows, np.concatenate(chosen))), shape=(200, 24))
    return Texts.from_lists(texts[:160]), pairs[:160], Texts.from_lists(texts[160:]), pairs[160:].toarray()


@pytest.fixture
def run(learnable, tmp_path):
    def go(k=24, pairs=None, raw_Y=None, seed=0, new=None, **values):
        raw_X, known, unseen, _ = learnable
        known = known if pairs is None else pairs
        raw_Y = Texts.from_lists([f"label {label}" for label in range(known.shape[1])]) if raw_Y is None else raw_Y
        method = AttentionXML(**{**TINY, **values})
        method.seed, method.artifacts = seed, Artifacts(tmp_path / "store")
        method.fit(raw_X, raw_Y, known)
        new = unseen if new is None else new
        found = method.predict(new, k)
        found.check(len(new), k, len(raw_Y))
        json.dumps(method.notes, allow_nan=False)
        return found, method

    return go


def test_learns_what_can_be_learned(run, learnable):
    found, method = run(hidden=16, dimensions=16, epochs=15, learning_rate=0.03, beam=4, leaf=4, branches=4)
    true = learnable[3]
    assert np.take_along_axis(true, found.indices[:, :1], 1).mean() > 0.8
    assert method.notes["labels_with_a_classifier"] == 24
    assert method.notes["training_instances"] == 160
    for name, nodes in (("level 1", 8), ("level 2", 24)):
        note = method.notes[name]
        assert (note["losses"], note["nodes"]) == (["binary cross-entropy"], nodes)
        assert note["curve"][-1][0] == 15 * 5
        assert note["curve"][-1][1] < 0.6 * note["curve"][0][1]


def test_equal_runs_are_equal_and_what_changes_them(run, learnable):
    pairs = learnable[1].copy()
    pairs.data[pairs.indptr[60] :] = 0
    pairs.eliminate_zeros()
    values = {"epochs": 2, "height": 2, "beam": 2, "pairs": pairs, "batch": 30}
    first = run(**values)[0]
    torch.manual_seed(99)  # what else draws numbers has no influence
    state = torch.random.get_rng_state()
    assert first.scores.tobytes() == run(**values)[0].scores.tobytes()
    assert torch.equal(state, torch.random.get_rng_state())
    for other in (
        {"seed": 1},
        {"epochs": 3},
        {"averaged_epochs": 1},
        {"height": 1},
        {"height": 0},
        {"beam": 5},
        {"length": 5},
        {"batch": 60},
        {"connected_second": 4},
        {"word_dropout": 0.5},
        {"state_dropout": 0.2},
        {"learning_rate": 0.01},
    ):
        assert first.scores.tobytes() != run(**{**values, **other})[0].scores.tobytes(), other


def test_each_level_starts_from_the_one_above(run, monkeypatch):
    started = []

    def watch(network, above):
        original(network, above)
        weights = [{name: value.clone() for name, value in model.state_dict().items()} for model in (network, above)]
        started.append((network.nodes, above.nodes, above.training, *weights))

    original = AttentionNetwork.start_from
    monkeypatch.setattr(AttentionNetwork, "start_from", watch)
    _, method = run(epochs=2, height=2)
    assert [start[:3] for start in started] == [(16, 8, False), (24, 16, False)]
    networks, _ = method._trees[0]
    for (_, _, _, own, given), above in zip(started, networks, strict=False):
        for name, value in above.state_dict().items():
            assert torch.equal(value, given[name])  # the weights at the end of the training of the level above
            assert name == "attention.weight" or torch.equal(own[name], value)


def test_a_level_is_trained_on_what_the_one_above_ranks_first(run, monkeypatch):
    handed, asked, ranked, seeds = [], [], [], set()

    def loss(network, texts, level, guessed, size, *rest):
        handed.append((level.clusters, guessed, size))
        seeds.add(rest[0])
        return level_loss(network, texts, level, guessed, size, *rest)

    def note(*values):
        asked.append(values[2:])
        ranked.append(ranked_nodes(*values))
        return ranked[-1]

    level_loss, ranked_nodes = network.level_loss, network.rank_nodes
    monkeypatch.setattr(network, "level_loss", loss)
    monkeypatch.setattr(network, "rank_nodes", note)
    run(epochs=1, height=2, beam=3)
    by_level = {clusters: (guessed, size) for clusters, guessed, size in handed}
    assert by_level[8] == (None, 8)
    for clusters, place in ((16, 0), (24, 1)):
        guessed, size = by_level[clusters]
        assert guessed is ranked[place]
        assert guessed.indices.shape == (160, 3)
        assert size == 6
    assert seeds == {int(np.random.SeedSequence([0, 0]).generate_state(1)[0])}  # of the run and the tree
    assert asked[0] == (None, None, 3)
    assert asked[1][1] is ranked[0]  # so that scores are those along the path
    assert asked[1][0].shape == (8, 2)


def test_the_first_level_starts_at_the_share_of_its_nodes(run, learnable):
    _, method = run(epochs=0, height=0)
    share = 1 / (1 + np.exp(-method._trees[0][0][0].output.bias.item()))
    assert share == pytest.approx(learnable[1].nnz / (160 * 24), rel=1e-5)


def test_the_score_is_the_mean_over_trees(run, learnable):
    found, method = run(trees=2, epochs=2, leaf=4, branches=4, beam=9)
    assert {"tree 1, level 1", "tree 2, level 2"} <= {*method.notes}
    one, _ = run(epochs=2, leaf=4, branches=4, beam=9)
    both = np.stack([one.scores, np.zeros_like(one.scores)])
    np.put_along_axis(both[0], one.indices, one.scores, 1)
    method._trees = method._trees[1:]
    other = method.predict(learnable[2], 24)
    np.put_along_axis(both[1], other.indices, other.scores, 1)
    assert not np.allclose(both[0], both[1])
    mean = both.mean(axis=0)
    np.testing.assert_allclose(np.take_along_axis(mean, found.indices, 1), found.scores, rtol=1e-5)


@pytest.mark.parametrize("height", [0, 1, 3])
def test_as_many_labels_as_are_asked_for(run, height):
    found, _ = run(k=100, epochs=1, height=height, beam=1)
    assert (found.indices[:, :24] >= 0).all()
    assert (found.indices[:, 24:] == -1).all()
    few, _ = run(k=5, epochs=1, height=height, beam=1)
    assert (few.indices >= 0).all()


def test_predictions_do_not_depend_on_what_is_predicted_beside(run, learnable, monkeypatch):
    found, method = run(epochs=2)
    monkeypatch.setattr("xmcbench.methods.attentionxml._ROWS", 7)
    parts = method.predict(learnable[2], 24)
    np.testing.assert_allclose(parts.scores, found.scores, rtol=1e-4)
    assert (parts.indices[:, :3] == found.indices[:, :3]).mean() > 0.99


def test_a_text_without_a_known_word(run, learnable):
    raw_X, pairs, _, _ = learnable
    new = Texts.from_lists(["", "name3 w1", "zyzzyva", "中文"])
    found, method = run(k=3, epochs=1, new=new)
    assert (found.indices[[0, 2, 3]] == -1).all()
    assert (found.scores[[0, 2, 3]] == -np.inf).all()
    assert (found.indices[1] >= 0).all()
    assert method.notes["instances_without_a_known_token"] == 3
    # Nor is one trained on: here it is the only one with label 5.
    method.artifacts = Artifacts()
    texts = Texts.from_lists(["", *list(raw_X)[1:]])
    few = pairs.tolil()
    few[:, 5] = 0
    few[0, :] = 0
    few[0, 5] = 1
    method.fit(texts, Texts.from_lists([str(label) for label in range(24)]), few.tocsr())
    assert method.notes["training_instances"] == len({*few.tocsr()[1:].nonzero()[0].tolist()})
    assert 5 not in method.predict(new, 24).indices


def test_no_text_of_a_label_is_read(run):
    one, other = (run(epochs=1, raw_Y=Texts.from_lists([words] * 24))[0] for words in ("", "name1 more words"))
    assert one.scores.tobytes() == other.scores.tobytes()


def test_texts_without_any_word(fitted):
    empty = Texts.from_lists(["", "?!"])
    method = fitted(AttentionXML, empty, Texts.from_lists(["a", "b"]), csr_matrix(np.ones((2, 2), np.float32)), **TINY)
    assert (method.predict(empty, 3).indices == -1).all()
    assert method.predict(empty[:0], 3).indices.shape == (0, 3)


def test_words_from_a_file(run, tmp_path):
    (tmp_path / "vectors.txt").write_text("".join(f"name{label} {label} 1 0\n" for label in range(24)))
    _, method = run(vectors=str(tmp_path / "vectors.txt"), epochs=0)
    assert method.notes["vectors"]["width"] == 3
    network = method._trees[0][0][0]
    words = method._vocabulary.words.to_pylist()
    vector = network.words.weight[words.index("name3")].detach().numpy()
    np.testing.assert_allclose(vector / vector[1], [3, 1, 0])


def test_sizes_of_the_paper_make_the_layers_of_the_paper():
    values = AttentionXML(**AttentionXML.presets["paper"]).parameters()
    connected = values["connected"], values["connected_second"]
    made = AttentionNetwork(np.zeros((4, 300), np.float32), 3, values["hidden"], connected, (0.2, 0.5))
    assert [tuple(layer.weight.shape) for layer in (*made.connected, made.output)] == [
        (512, 1024),
        (256, 512),
        (1, 256),
    ]
    words = Sequences(np.array([0, 2]), np.array([1, 2], np.int32))
    assert made(*words.pad(np.array([0]))).shape == (1, 3)


@pytest.mark.parametrize(
    "values",
    [{"epochs": -1}, {"leaf": 1}, {"beam": 0}, {"word_dropout": 1.0}, {"trees": 0}, {"length": 0}, {"branches": 3}],
)
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        AttentionXML(**values)
