"""Calls of a method: its arguments, kept pre-trainings, and predictions for texts that are in no dataset."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Method, Texts, TopK, Unavailable
from xmcbench.environment import Compute
from xmcbench.errors import MethodError, StorageError
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store, store
from xmcbench.runner import prediction
from xmcbench.runner.plan import plan
from xmcbench.runner.predict_texts import predict_texts
from xmcbench.runner.prediction import Phases, predict
from xmcbench.runner.rows import Request
from xmcbench.runner.target import Target
from xmcbench.setting import Setting
from xmcbench.storage import temporary

TEXTS = tuple(Texts.from_lists([f"{side} {row}" for row in range(4)]) for side in ("train", "label", "test"))
PAIRS = csr_matrix(np.eye(4, dtype=np.float32))


class Pretrained(Method):
    """Counts its pre-trainings."""

    steps: int = 1
    trained = 0

    def pretrain(self, raw_X, raw_Y):
        """Draw something."""
        type(self).trained += 1
        self.notes["drawn"] = self.seed
        return {"scores": np.random.RandomState(self.seed).rand(len(raw_Y))}

    def fit(self, raw_X, raw_Y, pairs=None):
        """Keep what it is handed."""
        self.handed = (raw_X, raw_Y, pairs)

    def predict(self, raw_X, k=100):
        """Rank by what was drawn."""
        return TopK.from_scores(np.tile(self.pretrained["scores"], (len(raw_X), 1)), k)


@pytest.fixture
def run(tmp_path):
    """Call a method as the worker does; returns it and its predictions."""

    def go(kind, seed=0, texts=TEXTS, pairs=None, k=3, root=tmp_path / "artifacts", **values):
        method, phases = kind(**values), Phases()
        identity = {"method": "pretrained", "parameters": {"steps": getattr(method, "steps", 0)}}
        kept = {"artifacts": Artifacts(root), "identity": identity}
        parts = predict(method, texts, pairs, k, seed=seed, compute=Compute(), phases=phases, **kept)
        found = TopK.joined(parts, k, len(texts[2]))
        assert {"fit", "predict"} <= {*phases.seconds} <= {"pretrain", "fit", "predict"}
        return method, found

    return go


@pytest.fixture
def kind():
    """A class of its own for every test, which has not been trained yet."""
    Pretrained.trained = 0
    return Pretrained


def test_a_pretraining_is_kept_for_all_settings_with_its_notes(run, kind):
    first, one = run(kind)
    second, other = run(kind, pairs=PAIRS)
    assert kind.trained == 1
    assert np.array_equal(one.scores, other.scores)
    assert first.notes == second.notes == {"drawn": 0}
    assert second.handed == (*TEXTS[:2], PAIRS)
    assert second.artifacts.reused_s > first.artifacts.reused_s == 0


def test_a_fit_has_nothing_of_a_pretraining_but_its_arrays_and_notes(run, kind, monkeypatch):
    """The cell that makes the pre-training would else have other results than those that find it made."""

    def pretrain(self, raw_X, raw_Y):
        self.left, self.steps = True, self.steps + 1
        self.notes["steps"] = self.steps
        return {"scores": np.full(len(raw_Y), self.seed + self.artifacts.reused_s)}

    monkeypatch.setattr(kind, "pretrain", pretrain)
    for _ in range(2):
        method, _ = run(kind, steps=4)
        assert not hasattr(method, "left")
        assert (method.steps, method.notes) == (4, {"steps": 5})


def test_a_pretraining_that_returns_no_arrays_is_the_fault_of_the_method(run, kind, monkeypatch):
    monkeypatch.setattr(kind, "pretrain", lambda *_: None)
    with pytest.raises(
        MethodError, match=r"pretrain returned an object of type NoneType \(it must return a dict of arr"
    ):
        run(kind)


def test_every_seed_has_a_pretraining_of_its_own(run, kind):
    """Or an interval over seeds would leave out how much the pre-training depends on them."""
    found = [run(kind, seed)[1].scores for seed in (0, 1, 0)]
    assert kind.trained == 2
    assert not np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_other_parameters_and_other_texts_have_one_of_their_own(run, kind):
    other = Texts.from_lists(["other", "texts", "than", "those"])
    run(kind)
    run(kind, steps=2)
    run(kind, texts=(other, *TEXTS[1:]))
    run(kind, texts=(TEXTS[0], other, TEXTS[2]))
    assert kind.trained == 4
    run(kind, texts=(*TEXTS[:2], other))  # what is predicted later does not matter
    assert kind.trained == 4


def test_other_code_has_a_pretraining_of_its_own(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source = """
import numpy as np
from changing_rate import RATE
from xmcbench import Method, TopK

class Changing(Method):
    def pretrain(self, raw_X, raw_Y):
        return {"scores": np.full(len(raw_Y), RATE)}
    def fit(self, raw_X, raw_Y, pairs=None): ...
    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.tile(self.pretrained["scores"], (len(raw_X), 1)), k)
"""
    plugin = tmp_path / "plugin.py"
    plugin.write_text(source)
    from xmcbench.plugins.loading import from_file

    found = []
    for text in ("RATE = 1.0\n", "RATE = 1.0  # the same\n", "RATE = 2.5\n"):
        (tmp_path / "changing_rate.py").write_text(text)
        sys.modules.pop("changing_rate", None)
        (entry,) = from_file(plugin)
        found.append(float(run(entry.usable())[1].scores[0, 0]))
    assert found == [1.0, 1.0, 2.5]
    assert len(list((tmp_path / "artifacts" / "pretraining").glob("*/pretrained.safetensors"))) == 2


def test_what_is_handed_is_what_it_is_asked_for(run, kind):
    method, found = run(kind, seed=7, pairs=PAIRS, k=5)
    assert method.seed == 7
    assert found.indices.shape == (4, 5)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda self, raw_X, k=100: np.zeros((4, k)), "predict returned an object of type ndarray"),
        (lambda self, raw_X, k=100: TopK.from_scores(np.zeros((4, 4)), k - 1), "predictions have the shapes"),
        (lambda self, raw_X, k=100: TopK.from_scores(np.zeros((3, 4)), k), "predictions have 3 rows, not 4"),
        (lambda self, raw_X, k=100: TopK.from_scores(np.zeros((5, 4)), k), "predictions have 5 rows or more, not 4"),
        (lambda self, raw_X, k=100: TopK([[0] * k] * 4, [[1.0] * k] * 4), "the indices are of type list, not an arr"),
        (lambda self, raw_X, k=100: TopK(make_scores(4, k).indices, [[1.0] * k] * 4), "the scores are of type list"),
        (lambda self, raw_X, k=100: TopK(None, None), "the indices are of type NoneType"),
        (lambda self, raw_X, k=100: TopK(np.array(0), np.array(1.0)), "the indices are of type ndarray, not an arr"),
    ],
)
def test_an_answer_that_is_none_is_the_fault_of_the_method(run, kind, monkeypatch, body, reason):
    monkeypatch.setattr(kind, "predict", body)
    with pytest.raises(MethodError, match=reason):
        run(kind)


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        (
            lambda self, raw_X, k=100: TopK.from_scores(np.zeros((4, 4)), k),
            "predict_batches returned an object of type TopK",
        ),
        (lambda self, raw_X, k=100: iter([np.zeros((4, k))]), "predict returned an object of type ndarray"),
        (lambda self, raw_X, k=100: iter([]), "predictions have 0 rows, not 4"),
        (lambda self, raw_X, k=100: iter([make_scores(2, k), make_scores(1, k)]), "predictions have 3 rows, not 4"),
        (lambda self, raw_X, k=100: (make_scores(3, k) for _ in range(9)), "predictions have 6 rows or more, not 4"),
        (lambda self, raw_X, k=100: iter([make_scores(3, k), make_scores(1, k + 1)]), "predictions have the shapes"),
        (
            lambda self, raw_X, k=100: iter(
                [make_scores(3, k), TopK(make_scores(1, k).indices + 2, make_scores(1, k).scores)]
            ),
            "row 3",
        ),
        (lambda self, raw_X, k=100: iter([TopK(make_scores(4, k).indices, [[1.0] * k] * 4)]), "scores are of type"),
    ],
)
def test_batches_are_held_to_the_same_rules(run, kind, monkeypatch, batches, reason):
    monkeypatch.setattr(kind, "predict_batches", batches)
    with pytest.raises(MethodError, match=reason):
        run(kind)


def make_scores(rows, k):
    """Predictions of some rows: labels 0, 1, ..."""
    return TopK.from_scores(np.tile(np.arange(4.0)[::-1], (rows, 1)), k)


def test_a_batch_is_predicted_when_it_is_asked_for(kind, tmp_path, monkeypatch):
    """So that it can be written and dropped before the next one; the writing is not time of the method."""
    made, clock = [], SimpleNamespace(now=0.0)
    monkeypatch.setattr(prediction.time, "perf_counter", lambda: clock.now)

    def batches(self, raw_X, k=100):
        for row in range(len(raw_X)):
            made.append(row)
            clock.now += 1
            yield make_scores(1, k)
        self.notes["done"] = True

    monkeypatch.setattr(kind, "predict_batches", batches)
    method, phases, kept = kind(), Phases(), {"artifacts": Artifacts(tmp_path), "identity": {}}
    parts = predict(method, TEXTS, None, 3, seed=0, compute=Compute(), phases=phases, **kept)
    assert (kind.trained, made) == (1, [])
    for row, part in enumerate(parts):
        assert (made[-1], len(part)) == (row, 1)
        clock.now += 100
    assert phases.seconds["predict"] == 4
    assert method.notes["done"]


def test_notes_that_are_not_json_are_the_fault_of_the_method(run, kind, monkeypatch):
    def pretrain(self, raw_X, raw_Y):
        self.notes["drawn"] = np.arange(3)
        return {}

    monkeypatch.setattr(kind, "pretrain", pretrain)
    with pytest.raises(MethodError, match="notes are not JSON"):
        run(kind)


METHODS = """
    import numpy as np
    from xmcbench import Method, TopK, Unavailable

    class Lengths(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = np.arange(len(raw_Y))

        def predict(self, raw_X, k=100):
            own = np.array([len(text) for text in raw_X])
            return TopK.from_scores(-np.abs(own[:, None] - self.labels).astype(np.float32), k)

    class Lacking(Lengths):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise Unavailable("the weights are not here", "get-weights")

    class Broken(Lengths):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise ValueError("no luck")
"""
NEW_TEXTS = Texts.from_lists(["ab", "abcde"])


@pytest.fixture
def asked(at_hand, plugin, tiny, tmp_path):
    """Ask a method for the best labels of the texts."""
    store, registry = Store(tmp_path / "runs"), Registry([plugin(METHODS)])

    def ask(method, k, **parameters):
        request = Request(str(tiny), Setting.of("ez"), methods=[method], overrides={method: parameters})
        (cell,) = plan([request], registry, store).cells
        return predict_texts(cell, Target(store), NEW_TEXTS, k)

    ask.store = store
    return ask


@pytest.mark.parametrize("k", [1, 3])
def test_a_method_is_asked_for_new_texts(asked, k):
    found = asked("lengths", k)
    assert found.indices.tolist() == np.array([[2, 1, 3], [5, 4, 6]])[:, :k].tolist()
    assert not [*asked.store.root.rglob("*.json")], "nothing is recorded"


def test_predictions_may_be_larger_than_files_of_others(asked, monkeypatch):
    monkeypatch.setattr("xmcbench.topk._ROWS", 1)
    monkeypatch.setattr("xmcbench.storage.arrays.ARRAYS", 8 * 200)  # one of its two rows of 200 labels
    assert asked("lengths", 200).indices[:, 0].tolist() == [2, 5]


def test_nothing_that_is_made_of_the_texts_is_kept(asked):
    """Of built-in methods, whose rankings others may use, and of methods that have them made."""
    asked("tfidf", 3)
    asked("hybrid", 3, parts="tfidf,bm25")
    (kept,) = asked.store.artifacts.glob("*/*/cost.json")
    assert kept.parent.parent.name == "tfidf"
    assert not asked.store.record_files()
    assert not asked.store.files("logs")


def test_a_runs_folder_that_cannot_be_written_is_not_needed(asked, monkeypatch):
    """A file system that can only be read; who writes these tests may write everywhere."""

    def folder_in(parent):
        if parent == asked.store.root:
            raise StorageError(f"cannot write {parent}: Read-only file system")
        return temporary.folder_in(parent)

    monkeypatch.setattr(store, "folder_in", folder_in)
    found = asked("lengths", 3)
    assert found.indices.tolist() == [[2, 1, 3], [5, 4, 6]]
    assert not asked.store.root.exists()
    with pytest.raises(MethodError, match="no luck") as raised:
        asked("broken", 3)
    assert raised.value.hint == "", "the log is gone"
    asked.store.root.touch()
    with pytest.raises(StorageError, match="cannot write"):
        asked("lengths", 3)


def test_what_stands_in_the_way_is_said(asked):
    with pytest.raises(Unavailable, match="the weights are not here"):
        asked("lacking", 3)
    assert not asked.store.files("logs")
    with pytest.raises(MethodError, match="broken: failed: ValueError: no luck|ValueError: no luck") as raised:
        asked("broken", 3)
    (log,) = asked.store.files("logs")
    assert raised.value.hint == f"log: {log}"
    assert log.name.startswith("text-broken-s0-")


def test_a_log_that_cannot_be_kept_is_not_named(asked):
    asked.store.root.mkdir()
    (asked.store.root / "logs").touch()
    with pytest.raises(MethodError, match="ValueError: no luck") as raised:
        asked("broken", 3)
    assert raised.value.hint == ""
