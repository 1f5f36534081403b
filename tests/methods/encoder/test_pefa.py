import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Texts, TopK, UsageError
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.pefa import PEFA, shares_of, votes


@pytest.fixture
def run(checkpoint, stories, tmp_path):
    def go(kind, pairs=None, new=None, k=5, model=None, seed=0, **values):
        raw_X, raw_Y, _ = stories
        method = kind(model=str(model or checkpoint()), **values)
        method.seed = seed
        method.artifacts = Artifacts(tmp_path / "store")
        method.fit(raw_X, raw_Y, pairs)
        found = method.predict(new or raw_X, k)
        found.check(len(new or raw_X), k, len(raw_Y))
        return found, method

    return go


def test_votes():
    voters = TopK.ranked(np.array([[0, 1], [1, -1]]), np.array([[0.9, 0.8], [0.5, 0]]))
    known = csr_matrix(np.array([[1, 1, 0], [0, 0, 1]], np.float32))
    found = votes(voters, shares_of(known), 0.1).toarray()
    share = np.exp(-1.0) / (1 + np.exp(-1.0))
    np.testing.assert_allclose(found, [[(1 - share) / 2, (1 - share) / 2, share], [0, 0, 1]], atol=1e-6)
    # An instance without a known pair abstains: its vote is nobody's.
    some = shares_of(csr_matrix(np.array([[1, 1, 0], [0, 0, 0]], np.float32)))
    abstaining = votes(voters, some, 0.1).toarray()
    np.testing.assert_allclose(abstaining, [[(1 - share) / 2, (1 - share) / 2, 0], [0, 0, 0]], atol=1e-6)
    nobody = TopK(np.full((1, 2), -1, np.int32), np.full((1, 2), -np.inf, np.float32))
    assert votes(nobody, shares_of(known), 0.1).toarray().tolist() == [[0, 0, 0]]


def test_what_is_compared_at_a_time_changes_nothing(run, stories, monkeypatch):
    whole, _ = run(PEFA, stories[2])
    monkeypatch.setattr("xmcbench.methods.pefa._ROWS", 3)
    raw_X = stories[0]
    parts, method = run(PEFA, stories[2])
    assert parts.indices.tobytes() == whole.indices.tobytes()
    assert parts.scores.tobytes() == whole.scores.tobytes()
    batches = [len(batch) for batch in method.predict_batches(raw_X, 5)]
    assert batches == [3] * (len(raw_X) // 3) + [len(raw_X) % 3] * bool(len(raw_X) % 3)
    assert {"search", "search of instances"} <= {*method.notes}


@pytest.mark.parametrize("kind", [Embedder, PEFA])
def test_vectors_are_kept(kind, run, stories, checkpoint, tmp_path):
    expected, method = run(kind, stories[2])
    (tmp_path / "kept").mkdir()
    method.save(tmp_path / "kept")
    opened = kind(model=method.model)
    opened.load(tmp_path / "kept")
    found = opened.predict(stories[0], 5)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.scores, expected.scores)
    other = kind(model=str(checkpoint(pooling="cls")))
    with pytest.raises(UsageError, match="is not the model whose vectors were kept"):
        other.load(tmp_path / "kept")


def test_no_seed_changes_anything(run, stories):
    one, other = (run(PEFA, stories[2], seed=seed)[0] for seed in (0, 7))
    assert PEFA.deterministic
    assert one.scores.tobytes() == other.scores.tobytes()


def test_known_pairs_help(run, stories):
    """On the training texts themselves the nearest voter is right."""
    pairs = stories[2].toarray()
    hits = [
        np.take_along_axis(pairs, run(kind, known, k=2, **values)[0].indices, 1).mean()
        for kind, known, values in ((Embedder, None, {}), (PEFA, stories[2], {"neighbors": 1, "mix": 0.9}))
    ]
    assert hits[1] == 1.0
    assert hits[0] < 1.0


@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_another_similarity_of_the_model(run, stories, checkpoint, tmp_path, similarity):
    """Votes of at most 1 would count for nothing beside inner products without a bound."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    layers = [modules.Transformer(str(checkpoint(pooling=""))), modules.Pooling(16, "mean")]
    for name in (similarity, "cosine"):
        model = SentenceTransformer(modules=layers, device="cpu", similarity_fn_name=name)
        model.save(str(tmp_path / name))
    found, method = run(PEFA, stories[2], model=tmp_path / similarity)
    expected, _ = run(PEFA, stories[2], model=tmp_path / "cosine")
    assert np.array_equal(found.scores, expected.scores)
    assert method.notes["model"]["similarity"] == "cosine"
    assert not np.array_equal(found.scores, run(Embedder, model=tmp_path / similarity)[0].scores)


def test_labels_without_a_pair_are_ranked_by_their_text(run, stories):
    none = csr_matrix((30, 10), dtype=np.float32)
    plain, _ = run(Embedder)
    found, method = run(PEFA, none, mix=0.5)
    assert found.indices.tobytes() == plain.indices.tobytes()
    np.testing.assert_allclose(found.scores, plain.scores / 2, atol=1e-6)
    assert method.notes["voters"] == 0
    assert method.notes["search of instances"] == {"index": "exact", "items": 0}


def test_a_label_that_only_votes_bring(run, stories):
    """The label texts bring one candidate; a vote brings another, with the similarity of its own text."""
    new = Texts.from_lists([stories[0][0]])
    plain, _ = run(Embedder, None, new, k=10)
    last = int(plain.indices[0, -1])
    one = csr_matrix(([1.0], ([0], [last])), shape=(30, 10), dtype=np.float32)
    found, method = run(PEFA, one, new, k=1, candidates=1, neighbors=1, mix=0.5)
    assert found.indices.tolist() == [[last]]
    assert found.scores[0, 0] == pytest.approx(0.5 * plain.scores[0, -1] + 0.5, abs=1e-5)
    assert method.notes["voters"] == 1
    assert (method.notes["search"]["items"], method.notes["search of instances"]["items"]) == (10, 30)


def test_as_many_labels_as_are_asked_for(run):
    """Also of more than ``candidates``."""
    found, _ = run(PEFA, csr_matrix((30, 10), dtype=np.float32), k=10, candidates=1)
    assert (found.indices >= 0).all()


def test_the_temperature_counts(run, stories):
    one, other = (run(PEFA, stories[2], temperature=temperature)[0].scores for temperature in (0.05, 5.0))
    assert not np.array_equal(one, other)
