import itertools
import json
import os
import threading
import time
from types import SimpleNamespace

import pytest

from xmcbench import Artifacts
from xmcbench.errors import StorageError
from xmcbench.storage import artifact_store, artifacts
from xmcbench.storage.artifact_store import CONTENT, examine
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.locks import Claim, exclusive
from xmcbench.storage.source import Source

#: A file that is kept once, if another one is like it.
LARGE = 1 << 20


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


@pytest.mark.parametrize("kind", ["../records", "a/b", "", ".", ".hidden", "unfinished", "content", "a" * 200])
def test_a_kind_is_the_name_of_a_folder_of_its_own(tmp_path, kind):
    store = Artifacts(tmp_path / "artifacts")
    for act in (
        lambda: store.get(kind, {}, lambda folder: None),
        lambda: store.put(kind, {}, lambda folder: None, 1.0),
        lambda: store.unfinished(kind, {}),
    ):
        with pytest.raises(ValueError, match="the kind of an artifact is "):
            act()
    assert not [*tmp_path.rglob("*.lock")]


def test_a_build_that_fails_leaves_nothing(tmp_path):
    def build(folder):
        (folder / "half.txt").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="no space left"):
        Artifacts(tmp_path).get("tfidf", {}, build)
    assert not list(tmp_path.rglob("half.txt"))


def test_two_at_once_build_one(tmp_path, monkeypatch):
    built, inside = [], threading.Event()

    def build(folder):
        built.append(folder)
        inside.wait(20)

    # The second one has found the claim, and waits.
    monkeypatch.setattr(artifacts.time, "sleep", lambda seconds: inside.set())
    threads = [threading.Thread(target=Artifacts(tmp_path).get, args=("k", {}, build)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_who_waits_for_long_looks_rarely(tmp_path, monkeypatch):
    """Many processes may wait for one artifact, in a folder that many machines share."""
    clock, pauses = [0.0], []
    other = Claim(tmp_path / "k" / f"{'x' * 32}.claim")

    def sleep(seconds):
        pauses.append(seconds)
        clock[0] += seconds
        if clock[0] > 600:
            other.__exit__()

    monkeypatch.setattr(artifacts, "time", SimpleNamespace(sleep=sleep, perf_counter=lambda: clock[0]))
    monkeypatch.setattr(artifacts, "sha256_json", lambda _: "x" * 32)
    with other:
        Artifacts(tmp_path).get("k", {}, write(x=b"1"))
    assert pauses[0] == 0.1
    assert pauses == sorted(pauses)
    assert max(pauses) == 5.0
    assert len(pauses) < 200


def _damages(folder):
    """Return the damages that an artifact can take, by name."""
    cost, file = folder / "cost.json", folder / "a" / "x.bin"
    content = file.read_bytes()
    return {
        "cost emptied": lambda: cost.write_text(""),
        "cost changed": lambda: cost.write_text(cost.read_text().replace('"wall_s": ', '"wall_s": 1')),
        "sums missing": lambda: cost.write_text(json.dumps({"wall_s": 1.0, "identity": {}})),
        "cut": lambda: file.write_bytes(content[:-1]),
        "one bit": lambda: file.write_bytes(content[:5] + bytes([content[5] ^ 1]) + content[6:]),
        "removed": file.unlink,
        "a folder": lambda: (file.unlink(), file.mkdir()),
        "a pipe": lambda: (file.unlink(), os.mkfifo(file)),
    }


@pytest.mark.parametrize("kind", range(8))
def test_a_damaged_one_is_made_again_with_a_word(tmp_path, capfd, kind):
    build = write(**{"a/x.bin": b"0123456789" * 100})
    user = Artifacts(tmp_path)
    folder = user.get("tfidf", {}, build)
    name, damage = [*_damages(folder).items()][kind]
    damage()
    # The first user still holds it; that keeps nobody waiting.
    again = Artifacts(tmp_path)
    assert again.get("tfidf", {}, build) == folder, name
    assert (folder / "a" / "x.bin").read_bytes() == b"0123456789" * 100, name
    assert again.reused_s == 0
    assert f"{folder} is damaged and will be regenerated" in capfd.readouterr().err, name
    assert [*examine(tmp_path)] == [(folder, "")]
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}.lock"]


def test_a_damaged_file_is_not_linked_again(tmp_path):
    """Artifacts with the same content share a file: one that is made again must not get the damaged one."""
    good = b"x" * LARGE
    first = Artifacts(tmp_path).get("training", {"seed": 0}, write(weights=good))
    with (first / "weights").open("r+b") as stream:
        stream.write(b"y")
    folder = Artifacts(tmp_path).get("training", {"seed": 0}, write(weights=good))
    assert (folder / "weights").read_bytes() == good


def test_damage_inside_a_large_file_is_found_by_the_full_check(tmp_path, monkeypatch):
    monkeypatch.setattr(artifact_store, "_QUICK", 999)
    folder = Artifacts(tmp_path).get("tokens", {}, write(large=b"x" * 1000, small=b"x" * 999))
    for name, quick in (("small", True), ("large", False)):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(b"y" + content[1:])
        assert artifact_store.find_damage(folder) == (f"{name} has changed" if quick else "")
        assert dict(examine(tmp_path)) == {folder: f"{name} has changed"}
        (folder / name).write_bytes(content)
    (folder / "large").write_bytes(b"x" * 1001)
    assert artifact_store.find_damage(folder) == "large has 1001 bytes, not 1000"


def test_what_was_taken_and_made_is_listed(tmp_path):
    first, second = Artifacts(tmp_path), Artifacts(tmp_path)
    made = first.get("tfidf", {"data": "a"}, lambda folder: None)
    second.get("tfidf", {"data": "a"}, lambda folder: None)
    other = second.get("tokens", {"data": "a"}, lambda folder: None)
    assert first.used == [f"tfidf/{made.name}"]
    assert second.used == [f"tfidf/{made.name}", f"tokens/{other.name}"]


def test_one_that_is_made_from_another_cost_what_both_cost(tmp_path):
    def slow(folder):
        time.sleep(0.2)

    Artifacts(tmp_path).get("inner", {}, slow)
    store = Artifacts(tmp_path)
    outer = store.get("outer", {}, lambda folder: store.get("inner", {}, slow) and None)
    cost = json.loads((outer / "cost.json").read_text())["wall_s"]
    assert cost >= 0.2
    assert store.reused_s >= 0.2  # the inner one was there
    again = Artifacts(tmp_path)
    again.get("outer", {}, lambda folder: None)
    assert again.reused_s == pytest.approx(cost)


def write(**files):
    def build(folder):
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)

    return build


def inodes(*files):
    return len({file.stat().st_ino for file in files})


def test_large_files_with_the_same_content_are_kept_once(tmp_path):
    store, same, other = Artifacts(tmp_path), b"x" * LARGE, b"x" * (LARGE - 1) + b"y"
    first = store.get("training", {"seed": 0}, write(weights=same, copy=same, small=same[:-1]))
    second = store.get("embeddings", {"seed": 1}, write(vectors=same, others=other, small=same[:-1]))
    assert inodes(first / "weights", first / "copy", second / "vectors") == 1
    assert inodes(first / "weights", second / "others") == 2
    assert inodes(first / "small", second / "small") == 2
    assert (second / "vectors").read_bytes() == same
    assert {file.name for file in (tmp_path / CONTENT).iterdir()} == {
        sha256_file(first / "weights"),
        sha256_file(second / "others"),
    }
    assert (first / "weights").stat().st_nlink == 4
    assert sorted(os.listdir(second)) == ["cost.json", "others", "small", "vectors"]


def test_a_file_system_without_hard_links_keeps_every_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    store, same = Artifacts(tmp_path), b"x" * LARGE
    folders = [store.get("training", {"seed": seed}, write(weights=same)) for seed in (0, 1)]
    assert inodes(*(folder / "weights" for folder in folders)) == 2
    assert [(folder / "weights").read_bytes() for folder in folders] == [same, same]
    assert sorted(os.listdir(folders[1])) == ["cost.json", "weights"]


def free(lock):
    with exclusive(lock, wait=False) as claim:
        return claim.held


def test_what_is_used_is_held_until_the_store_goes(tmp_path):
    first, second = Artifacts(tmp_path), Artifacts(tmp_path)
    lock = first.get("tfidf", {}, lambda folder: None).with_suffix(".lock")
    second.get("tfidf", {}, lambda folder: None)
    state = second.unfinished("training", {})
    assert not state.exists()
    assert second.unfinished("training", {}) == state != second.unfinished("training", {"seed": 1})
    assert not free(lock)
    assert not free(state.with_suffix(".lock"))
    del first
    assert not free(lock)
    del second
    assert free(lock)
    assert free(state.with_suffix(".lock"))


def test_one_that_was_removed_meanwhile_is_made_again(tmp_path):
    built = []

    def build(folder):
        built.append(folder)

    for _ in range(2):
        folder = Artifacts(tmp_path).get("tfidf", {}, build)
        (folder / "cost.json").unlink()
    assert len(built) == 2


def test_a_temporary_folder_is_held_and_goes_however_the_block_ends(tmp_path):
    store = Artifacts(tmp_path / "artifacts")
    with pytest.raises(ZeroDivisionError), store.temporary() as folder:
        assert folder.parent == store.root
        (folder / "x").touch()
        assert not free(folder / ".lock")
        1 / 0  # noqa: B018
    assert not folder.exists()


def test_a_store_without_a_root_goes_with_its_object():
    store = Artifacts()
    root = store.get("tfidf", {}, lambda folder: None).parents[1]
    assert root == store.root
    del store
    assert not root.exists()


def test_what_is_made_of_texts_for_a_single_use_goes_with_the_object(tmp_path):
    def build(folder):
        (folder / "x.txt").write_text("hello")

    store = Artifacts(tmp_path, single_use="a" * 64)
    kept = store.get("tfidf", {"labels": "b" * 64}, build)
    gone = store.get("tokens", {"texts": {"digest": "a" * 64}}, build)
    store.put("ranking", {"texts": ["b" * 64, "a" * 64]}, build, 1.0)
    assert (gone / "x.txt").read_text() == "hello"
    assert [*tmp_path.glob("*/*/cost.json")] == [kept / "cost.json"]
    assert store.used == [f"tfidf/{kept.name}"]
    del store
    assert not gone.exists()


def test_other_code_makes_an_artifact_of_its_own(tmp_path, monkeypatch):
    """The source and the packages of the build and of what it uses are part of the key."""

    def places():
        return [
            Artifacts(tmp_path).get("tfidf", {"data": "a"}, lambda folder: None, uses=(json,)),
            Artifacts(tmp_path).unfinished("tfidf", {"data": "a"}, json),
        ]

    now = places()
    assert places() == now
    asked = []
    for changed in (Source("0" * 64, ("numpy",)), Source("1" * 64, ("numpy",)), Source("1" * 64, ("scipy",))):
        monkeypatch.setattr(artifacts, "source_of", lambda *uses, source=changed: asked.append(uses) or source)
        made = places()
        assert not {*made} & {*now}
        now = made
    assert all(json in uses for uses in asked)


def test_the_cost_of_one_does_not_hold_what_was_taken_before(tmp_path, monkeypatch):
    seconds = itertools.count(step=100.0)
    monkeypatch.setattr(artifacts.time, "perf_counter", lambda: next(seconds))
    Artifacts(tmp_path).get("first", {}, lambda folder: None)
    store = Artifacts(tmp_path)
    store.get("first", {}, lambda folder: None)
    assert store.reused_s == 100.0
    second = store.get("second", {}, lambda folder: None)
    assert json.loads((second / "cost.json").read_text())["wall_s"] == 100.0


def test_who_is_taken_over_leaves_the_work_of_the_other(tmp_path):
    """A process that was not heard of for so long that another machine has made the artifact."""
    built = []

    def build(folder):
        (folder / "x.txt").write_text(f"{len(built)}")
        built.append(folder)
        if len(built) == 1:
            claim = folder.with_name(f"{folder.name.split('.')[1]}.claim")
            os.utime(claim, (0, 0))
            claim.write_text(json.dumps({"owner": "another-machine:x:1:2:3"}))
            os.utime(claim, (0, 0))
            other = Artifacts(tmp_path).get("tfidf", {}, build)
            assert (other / "x.txt").read_text() == "1"

    store = Artifacts(tmp_path)
    folder = store.get("tfidf", {}, build)
    assert (folder / "x.txt").read_text() == "1"
    assert len(built) == 2
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}.lock"]


def test_waiting_for_another_process_is_not_counted_twice(tmp_path):
    inside = threading.Event()

    def build(folder):
        inside.set()
        time.sleep(0.5)

    first, second, third = (Artifacts(tmp_path) for _ in range(3))
    thread = threading.Thread(target=first.get, args=("k", {}, build))
    thread.start()
    inside.wait()
    second.get("k", {}, build)
    thread.join()
    third.get("k", {}, build)
    assert third.reused_s >= 0.5 > 2 * second.reused_s


def test_what_is_damaged_as_soon_as_it_is_made_is_an_error(tmp_path):
    with pytest.raises(StorageError, match="is damaged right after it was made"):
        Artifacts(tmp_path).get("k", {}, write(**{"cost.json": b"mine"}))


def test_shared_files_that_cannot_be_removed_are_an_error_that_names_one(tmp_path, monkeypatch):
    def unlink(*_, **__):
        raise OSError(30, "Read-only file system")

    store = Artifacts(tmp_path)
    folder = store.get("k", {}, lambda folder: (folder / "x").write_bytes(b"x" * LARGE) and None)
    (folder / "x").unlink()
    (content,) = (tmp_path / CONTENT).iterdir()
    monkeypatch.setattr(artifact_store.Path, "unlink", unlink)
    with pytest.raises(StorageError, match=f"cannot write {content}: Read-only file system"):
        artifact_store.forget_content(tmp_path)


def test_a_claim_of_a_lost_machine_holds_nobody_up(tmp_path):
    folder = Artifacts(tmp_path).get("tfidf", {}, write(x=b"1"))
    (folder / "cost.json").unlink()
    claim = folder.with_suffix(".claim")
    claim.write_text(json.dumps({"owner": "another-machine:x:1:2:3"}))
    os.utime(claim, (0, 0))
    Artifacts(tmp_path).get("tfidf", {}, write(x=b"1"))
    assert (folder / "cost.json").exists()
    assert not claim.exists()


def test_what_is_made_with_pairs_is_in_the_folder_of_its_training(tmp_path):
    """So are temporary files and checkpoints, unless they are of something that cells share."""
    shared, own, part = (tmp_path / name for name in ("artifacts", f"trained/{'a' * 32}", f"trained/{'b' * 32}"))
    store = Artifacts(shared, own=own, parts={"part": part})
    places = []

    def build(folder):
        with store.temporary() as temporary:
            (folder / "file").write_bytes(b"x" * LARGE)
            unfinished = store.unfinished("training", {})
            places.append([path.parent for path in (folder, temporary, unfinished)])

    def place(**how):
        store.get("kind", {}, build, **how)
        return places.pop()

    assert place() == [shared / "kind", shared, shared / "unfinished"]
    assert place(own=True) == [own / "kind", own, own / "unfinished"]
    with store.of_part("part"):
        assert place(own=True) == [part / "kind", part, part / "unfinished"]
        assert store.unfinished("training", {}).parent == part / "unfinished"
    with store.of_part("unknown"):
        assert store.unfinished("training", {}).parent == own / "unfinished"
    with store.temporary() as temporary:
        assert temporary.parent == own
    assert [name.rpartition("/")[0] for name in store.used] == [
        "kind",
        f"trained/{'a' * 32}/kind",
        f"trained/{'b' * 32}/kind",
    ]
    for name in store.used:
        assert (artifact_store.locate(tmp_path, name) / "file").stat().st_size == LARGE
    assert artifact_store.list_stores(tmp_path) == [shared, own, part]
    # A link in the shared folder could be read by all.
    assert [file.stat().st_nlink for file in tmp_path.rglob("file")].count(1) == 2


def test_a_result_takes_the_place_of_another_one(tmp_path):
    store = Artifacts(tmp_path)
    for content, cost in ((b"1", 1.0), (b"1", 2.0), (b"2", 3.0)):
        store.put("kind", {}, write(x=content), cost, own=True)
        folder = store.get("kind", {}, write(x=b"0"), own=True)
        assert (folder / "x").read_bytes() == content
        assert json.loads((folder / "cost.json").read_text())["wall_s"] == {2.0: 1.0}.get(cost, cost)
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        ["kind", folder.name, f"{folder.name}.lock", "cost.json", "x"]
    )


def test_a_store_of_its_own_has_one_place_for_everything(tmp_path):
    """As in a script."""
    store = Artifacts(tmp_path)
    assert store.get("kind", {}, write(x=b"1"), own=True) == store.get("kind", {}, write(x=b"1"))
    store.put("kind", {"a": 1}, write(x=b"1"), 1.0, own=True)
    assert store.get("kind", {"a": 1}, write(x=b"1")).parent == tmp_path / "kind"
