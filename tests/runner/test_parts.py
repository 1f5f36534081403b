"""Methods inside methods: which part a name is, and which ranking is taken for which pairs."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Method, Texts, TopK
from xmcbench.environment import Compute
from xmcbench.errors import UnknownName, UsageError
from xmcbench.plugins.registry import Registry
from xmcbench.runner.parts import Part, keep_ranking, source, through
from xmcbench.storage.source import source_of


class Frequent(Method):
    """Labels by their number of known pairs, those of the last one first where none is known."""

    supervision = "optional"
    trained = 0

    def fit(self, raw_X, raw_Y, pairs=None):
        type(self).trained += 1
        self.scores = np.arange(len(raw_Y)) if pairs is None else np.asarray(pairs.sum(axis=0)).ravel()

    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.tile(self.scores, (len(raw_X), 1)), k)


class Blind(Frequent):
    """The same without a look at the pairs."""

    supervision = "unused"
    deterministic = True


TEXTS = (Texts.from_lists(["a", "b"]), Texts.from_lists(["x", "y", "z"]), Texts.from_lists(["c"]))


def known(*labels):
    return csr_matrix((np.ones(len(labels), np.float32), (np.zeros(len(labels), int), labels)), shape=(2, 3))


@pytest.fixture
def part(tmp_path, monkeypatch):
    def made(kind, seed=0):
        monkeypatch.setattr(kind, "trained", 0)
        outer = Method.__new__(type("Outer", (Frequent,), {}))
        outer.seed, outer.artifacts, outer.compute = seed, Artifacts(tmp_path), Compute()
        return Part("part", "part", {}, kind, outer)

    return made


def test_a_ranking_is_that_of_its_pairs(part):
    one = part(Frequent)
    best = [one.ranking(TEXTS, pairs, 3)[0].indices[0, 0] for pairs in (known(1), known(0), None, known(1))]
    assert best == [1, 0, 2, 1]
    assert Frequent.trained == 3


def test_pairs_that_a_part_does_not_look_at_do_not_count(part):
    one = part(Blind)
    for pairs in (known(1), known(0), None):
        one.ranking(TEXTS, pairs, 3)
    assert Blind.trained == 1
    part(Blind, seed=1).ranking(TEXTS, None, 3)
    assert Blind.trained == 0  # counted from anew, and nothing was trained again


def test_a_finished_cell_leaves_its_ranking(part, tmp_path):
    one = part(Frequent)
    TopK.from_scores(np.array([[0.0, 5.0, 1.0]]), 3).save(tmp_path / "kept.npz")
    method = Frequent()
    method.seed, method.artifacts = 0, one.outer.artifacts
    keep_ranking("part", method, TEXTS, known(0), 3, tmp_path / "kept.npz", 7.0)
    assert one.ranking(TEXTS, known(0), 3)[0].indices.tolist() == [[1, 2, 0]]
    assert one.outer.artifacts.reused_s == 7.0
    assert one.ranking(TEXTS, known(2), 3)[0].indices[0, 0] == 2  # another cell


def test_a_ranking_is_copied_where_files_cannot_be_linked(part, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    one = part(Frequent)
    TopK.from_scores(np.array([[0.0, 5.0, 1.0]]), 3).save(tmp_path / "kept.npz")
    method = Frequent()
    method.seed, method.artifacts = 0, one.outer.artifacts
    with monkeypatch.context() as patch:
        patch.setattr("xmcbench.runner.parts.os.link", refuse)
        keep_ranking("part", method, TEXTS, known(0), 3, tmp_path / "kept.npz", 7.0)
    assert one.ranking(TEXTS, known(0), 3)[0].indices.tolist() == [[1, 2, 0]]


def test_the_source_of_a_method_is_that_of_its_parts_too():
    kind = Part.of("hybrid", Frequent()).kind
    values = {"parts": "tfidf,bm25:lucene,tfidf"}
    hybrid, registry = kind(**values), Registry()
    assert [each.__name__ for each, _ in through(hybrid)] == ["Hybrid", "Tfidf", "BM25"]
    assert source(hybrid).digest == registry.source("hybrid", values)
    assert {"numpy", "scipy", "bm25s"} <= {*source(hybrid).packages}
    assert source(Frequent()) == source_of(Frequent)


def test_names_of_parts():
    outer = Frequent()
    assert Part.of("bm25", outer).spec == "bm25"
    assert Part.of("bm25:lucene", outer).values["k1"] == 1.2
    assert Part.of("glove", outer).spec == "glove:quick"
    for spec in ("bm25:quick", "glove:"):  # planning and the cell read a name alike
        with pytest.raises(UnknownName, match="unknown preset '.*' of "):
            Part.of(spec, outer)
        with pytest.raises(UnknownName, match="unknown preset '.*' of "):
            Registry().used("hybrid", {"parts": spec})
    with pytest.raises(UsageError, match="bm25 cannot be a part of itself"):
        Part.of("bm25", Part.of("bm25", outer).kind())
