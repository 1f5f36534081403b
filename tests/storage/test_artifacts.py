import json
import threading

import pytest

from xmcbench import Artifacts
from xmcbench.errors import DataError, StorageError


def test_is_built_once_and_its_cost_counted_when_reused(tmp_path):
    built = []

    def build(folder):
        built.append(folder)
        (folder / "x.txt").write_text("hello")

    first, second = Artifacts(tmp_path), Artifacts(tmp_path)
    folder = first.get("tfidf", {"data": "a"}, build)
    assert (folder / "x.txt").read_text() == "hello"
    assert second.get("tfidf", {"data": "a"}, build) == folder
    assert len(built) == 1
    assert first.reused_s == 0
    assert second.reused_s == json.loads((folder / "cost.json").read_text())["wall_s"] > 0
    assert second.get("tfidf", {"data": "b"}, build) != folder
    assert len(built) == 2


def test_a_build_that_fails_leaves_nothing(tmp_path):
    def build(folder):
        (folder / "half.txt").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="no room left"):
        Artifacts(tmp_path).get("tfidf", {}, build)
    assert not list(tmp_path.rglob("half.txt"))


def test_two_at_once_build_one(tmp_path):
    built, inside = [], threading.Event()

    def build(folder):
        built.append(folder)
        inside.wait(1)

    threads = [threading.Thread(target=Artifacts(tmp_path).get, args=("k", {}, build)) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.set()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_a_damaged_one_is_named(tmp_path):
    folder = Artifacts(tmp_path).get("tfidf", {}, lambda folder: None)
    (folder / "cost.json").write_text("")
    with pytest.raises(DataError, match="is damaged: .*delete the folder"):
        Artifacts(tmp_path).get("tfidf", {}, lambda folder: None)
