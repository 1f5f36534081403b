"""Predictions for texts that are in no dataset."""

import numpy as np
import pytest

from xmcbench import Texts, Unavailable
from xmcbench.errors import MethodError, StorageError
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store, store
from xmcbench.runner.plan import plan
from xmcbench.runner.predict_texts import predict_texts
from xmcbench.runner.rows import Request
from xmcbench.runner.target import Target
from xmcbench.setting import Setting
from xmcbench.storage import temporary

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
TEXTS = Texts.from_lists(["ab", "abcde"])


@pytest.fixture
def asked(at_hand, plugin, tiny, tmp_path):
    """Ask a method for the best labels of the texts."""
    store, registry = Store(tmp_path / "runs"), Registry([plugin(METHODS)])

    def ask(method, k, **parameters):
        request = Request(str(tiny), Setting.of("ez"), methods=[method], overrides={method: parameters})
        (cell,) = plan([request], registry, store).cells
        return predict_texts(cell, Target(store), TEXTS, k)

    ask.store = store
    return ask


@pytest.mark.parametrize("k", [1, 3])
def test_a_method_is_asked_for_new_texts(asked, k):
    found = asked("lengths", k)
    assert found.indices.tolist() == np.array([[2, 1, 3], [5, 4, 6]])[:, :k].tolist()
    assert not [*asked.store.root.rglob("*.json")], "nothing is recorded"


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
