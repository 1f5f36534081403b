"""Methods inside methods: which part a name is, and which ranking is taken for which pairs."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Method, Texts, TopK
from xmcbench.environment import Compute
from xmcbench.errors import MethodError, UnknownName, UsageError
from xmcbench.plugins.loading import load
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner.parts import Part, keep_ranking, ranking_key, source, through
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


class User(Frequent):
    """A method of parts: those that its parameter names."""

    parts: str = "bm25,bm25:lucene,bm25:quick,glove,glove:,hybrid"

    def uses(self):
        return tuple(self.parts.split(","))


class Blind(Frequent):
    """The same without a look at the pairs."""

    supervision = "unused"
    deterministic = True


BM25 = load("bm25")
TEXTS = (Texts.from_lists(["a", "b"]), Texts.from_lists(["x", "y", "z"]), Texts.from_lists(["c"]))


def make_pairs(*labels):
    return csr_matrix((np.ones(len(labels), np.float32), (np.zeros(len(labels), int), labels)), shape=(2, 3))


@pytest.fixture
def part(tmp_path, monkeypatch):
    def make(kind, seed=0):
        monkeypatch.setattr(kind, "trained", 0)
        outer = Method.__new__(type("Outer", (Frequent,), {}))
        outer.seed, outer.artifacts, outer.compute = seed, Artifacts(tmp_path), Compute()
        return Part("part", "part", {}, kind, outer)

    return make


def test_a_ranking_is_that_of_its_pairs(part):
    one = part(Frequent)
    best = [
        one.ranking(TEXTS, pairs, 3)[0].indices[0, 0] for pairs in (make_pairs(1), make_pairs(0), None, make_pairs(1))
    ]
    assert best == [1, 0, 2, 1]
    assert Frequent.trained == 3


def test_a_ranking_may_be_larger_than_files_of_others(part, monkeypatch):
    monkeypatch.setattr("xmcbench.topk._ROWS", 1)
    monkeypatch.setattr("xmcbench.storage.arrays.ARRAYS", 24)  # one of its two rows
    texts = (*TEXTS[:2], Texts.from_lists(["c", "d"]))
    assert part(Frequent).ranking(texts, make_pairs(1), 3)[0].indices.tolist() == [[1, 0, 2]] * 2


def test_pairs_that_a_part_does_not_look_at_do_not_count(part):
    one = part(Blind)
    for pairs in (make_pairs(0), make_pairs(1), None):
        assert one.ranking(TEXTS, pairs, 3)[0].indices.tolist() == [[2, 1, 0]]  # as without pairs
    assert Blind.trained == 1
    part(Blind, seed=1).ranking(TEXTS, None, 3)
    assert Blind.trained == 0  # counted from anew, and nothing was trained again


def test_a_finished_cell_leaves_its_ranking(part, tmp_path):
    one = part(Frequent)
    TopK.from_scores(np.array([[0.0, 5.0, 1.0]]), 3).save(tmp_path / "kept.npz")
    method = Frequent()
    method.seed, method.artifacts = 0, one.outer.artifacts
    keep_ranking(ranking_key("part", method, TEXTS, make_pairs(0), 3, 0), method, tmp_path / "kept.npz", 7.0)
    assert one.ranking(TEXTS, make_pairs(0), 3)[0].indices.tolist() == [[1, 2, 0]]
    assert one.outer.artifacts.reused_s == 7.0
    assert one.ranking(TEXTS, make_pairs(2), 3)[0].indices[0, 0] == 2  # another cell
    # Run again, by force, a method whose scores no seed decides.
    TopK.from_scores(np.array([[9.0, 5.0, 1.0]]), 3).save(tmp_path / "again.npz")
    keep_ranking(ranking_key("part", method, TEXTS, make_pairs(0), 3, 0), method, tmp_path / "again.npz", 7.0)
    assert one.ranking(TEXTS, make_pairs(0), 3)[0].indices.tolist() == [[0, 1, 2]]


def test_a_ranking_is_copied_where_files_cannot_be_linked(part, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    one = part(Frequent)
    TopK.from_scores(np.array([[0.0, 5.0, 1.0]]), 3).save(tmp_path / "kept.npz")
    method = Frequent()
    method.seed, method.artifacts = 0, one.outer.artifacts
    with monkeypatch.context() as patch:
        patch.setattr("xmcbench.runner.parts.os.link", refuse)
        keep_ranking(ranking_key("part", method, TEXTS, make_pairs(0), 3, 0), method, tmp_path / "kept.npz", 7.0)
    assert one.ranking(TEXTS, make_pairs(0), 3)[0].indices.tolist() == [[1, 2, 0]]


def test_the_source_of_a_method_is_that_of_its_parts_too():
    kind = Part.of("hybrid", User()).kind
    values = {"parts": "tfidf,bm25:lucene,tfidf"}
    hybrid, registry = kind(**values), Registry()
    assert [cls.__name__ for cls, _ in through(hybrid)] == ["Hybrid", "Tfidf", "BM25"]
    assert all(set(used).isdisjoint({"analyzer", "label_text"}) for _, used in through(hybrid))
    assert source(hybrid).digest == registry.resolve("hybrid", values).source_sha256
    assert {"numpy", "scipy", "bm25s"} <= {*source(hybrid).packages}
    assert source(Frequent()) == source_of(Frequent)


def test_a_part_is_named_by_the_method_that_has_it():
    """Its results would not be stale when the part changes."""
    with pytest.raises(MethodError, match=r"User has the part tfidf, which its `uses` does not name \(return it there"):
        Part.of("tfidf", User())
    assert Part.of(" glove ", User()).name == "glove"


def test_a_ranking_is_made_again_when_a_part_of_its_method_changes(part, monkeypatch):
    """The ranking of B in A was kept when C in B had other code, or other values under the preset that B names."""

    class Nested(Frequent):
        trained = 0

        def uses(self):
            return ("inner",)

    made = {"kind": Frequent, "values": {}}
    monkeypatch.setattr(Part, "of", lambda spec, outer: Part(spec, spec, made["values"], made["kind"], outer))
    one = part(Nested)

    def count_trainings():
        one.ranking(TEXTS, make_pairs(1), 3)
        return Nested.trained

    assert [count_trainings(), count_trainings()] == [1, 1]
    made["kind"] = BM25
    assert [count_trainings(), count_trainings()] == [2, 2]
    made["values"] = {"k1": 0.5}
    assert [count_trainings(), count_trainings()] == [3, 3]
    made["values"] = {}
    assert count_trainings() == 3


def test_names_of_parts():
    outer = User()
    assert Part.of("bm25", outer).spec == "bm25"
    assert Part.of("bm25:lucene", outer).values["k1"] == 1.2
    assert Part.of("glove", outer).spec == "glove:quick"
    for spec in ("bm25:quick", "glove:"):  # planning and the cell read a name alike
        with pytest.raises(UnknownName, match="unknown preset '.*' of "):
            Part.of(spec, outer)
        with pytest.raises(UsageError, match=f"hybrid uses '{spec}': unknown preset '.*' of .*known: "):
            Registry().resolve("hybrid", {"parts": spec})
    own = Part.of("hybrid", outer).kind(parts="hybrid,bm25")
    with pytest.raises(UsageError, match="hybrid cannot be a part of itself"):
        Part.of("hybrid", own)


INNER = """
import numpy as np
from xmcbench import Method, TopK

class Method_(Method):
    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)

    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.tile(np.arange(self.labels), (len(raw_X), 1)), k)
"""
OUTER = """
from xmcbench import Method, Part

class {name}(Method):
    def uses(self):
        return ("{part}",)

    def fit(self, raw_X, raw_Y, pairs=None):
        self.texts = raw_X, raw_Y

    def predict(self, raw_X, k=100):
        return Part.of("{part}", self).ranking((*self.texts, raw_X), None, k)[0]
"""
LEARNER = """
import numpy as np
from xmcbench import Method, Part, TopK

class Learner(Method):
    def uses(self):
        return ("inner",)

    def pretrain(self, raw_X, raw_Y):
        return {"best": Part.of("inner", self).ranking((raw_X, raw_Y, raw_X), None, 1)[0].indices}

    def fit(self, raw_X, raw_Y, pairs=None):
        self.label, self.labels = self.pretrained["best"][0, 0], len(raw_Y)

    def predict(self, raw_X, k=100):
        order = (self.label + np.arange(self.labels)) % self.labels
        return TopK.from_scores(np.tile(-np.argsort(order), (len(raw_X), 1)), k)
"""


def test_results_through_parts_of_parts_and_through_a_pre_training_are_stale_with_them(
    inside, tiny, installed, plugin, tmp_path
):
    """A refresh took the ranking, or the pre-training, of the older code, and called the result fresh."""
    installed("inner_package", "inner", INNER)
    installed("middle_package", "middle", OUTER.format(name="Method_", part="inner"))
    outer = OUTER.format(name="Outer", part="middle")
    run = ("run", "--dataset", tiny, "--setting", "ez", "--runs", "runs")
    run += ("--plugin", plugin(outer, "outer.py"), "--plugin", plugin(LEARNER, "learner.py"))
    run += ("--methods", "inner,middle,outer,learner", "--refresh")

    def best():
        """The first label of every method."""
        ended = inside(*run)
        assert ended.returncode == 0, ended.stderr
        store = Store(tmp_path / "runs")
        return {
            record.cell.method: TopK.load(store.predictions_path(record.cell)).indices[0, 0].item()
            for record in store.records()
        }

    assert best() == {"inner": 9, "middle": 9, "outer": 9, "learner": 9}
    module = tmp_path / "inner_package" / "inner_package_module.py"
    module.write_text(module.read_text().replace("np.arange(self.labels)", "-np.arange(self.labels)"))
    assert best() == {"inner": 0, "middle": 0, "outer": 0, "learner": 0}
