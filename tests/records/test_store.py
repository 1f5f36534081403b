"""A runs folder: what gives way to what, and what is removed that a killed run left."""

import errno
import json
import multiprocessing
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from xmcbench.environment import machine, machine_tag
from xmcbench.errors import StorageError
from xmcbench.metrics import TruePairs
from xmcbench.processes.process_tree import new_mark
from xmcbench.records import Store
from xmcbench.records.packing import pack
from xmcbench.records.ranks import Truth
from xmcbench.records.record import RanksFacts
from xmcbench.setting import Setting
from xmcbench.storage import locks, temporary
from xmcbench.storage.locks import Heartbeat, hold_shared, temporary_name
from xmcbench.storage.temporary import folder_in, scratch, sweep_scratch, temporary_path


def dead_name(target="", prefix="."):
    """Return a temporary name of a process that is gone: there is no number so high."""
    return temporary_name(target, prefix).replace(f"-{os.getpid()}-", "-99999999-")


def test_a_result_gives_way_to_a_result_only(tmp_path, record):
    """Also under --force, and with other code: what failed or ran out of time is returned, and not written."""
    store = Store(tmp_path)
    store.write(record(status="failed"))
    good = store.write(record(value=0.5))
    for status in ("timeout", "failed", "skipped"):
        assert store.write(record(status=status, code="tomorrow")).status == status
        assert store.find(good.cell) == good
    better = store.write(record(value=0.6))
    assert store.find(good.cell) == better
    store.record_path(good.cell).write_text("damaged")
    assert store.write(record(status="failed")) == store.find(good.cell)


@pytest.fixture
def staged_result(tmp_path, record):
    """A store with a result, and another one of the same cell in a second store, each with its files."""
    stores = Store(tmp_path / "runs"), Store(tmp_path / "staged")
    results = []
    for store, value in zip(stores, (0.5, 0.6), strict=True):
        result = record(value=value)
        facts = RanksFacts(file="ranks.npz", sha256="0" * 64, truth_sha256="1" * 64)
        results.append(msgspec.structs.replace(result, ranks=facts))
        for path in (
            store.predictions_path(result.cell),
            store.ranks_path(result.cell),
            store.truth_path(result.cell.dataset, "1" * 64),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}")
    stores[0].write(results[0])
    return *stores, results[1]


def files_of(store, cell):
    return [path.read_text() for path in (store.predictions_path(cell), store.ranks_path(cell))]


def test_a_record_takes_its_files_along(staged_result, monkeypatch):
    store, staged, better = staged_result
    monkeypatch.setattr(Truth, "load", lambda path: SimpleNamespace(digest="1" * 64))
    assert store.write(better, staged) == store.find(better.cell)
    assert files_of(store, better.cell) == ["0.6", "0.6"]
    assert store.truth_path(better.cell.dataset, "1" * 64).read_text() == "0.5"  # equal, and others may read it


def test_a_damaged_truth_is_replaced(staged_result):
    store, staged, better = staged_result
    truth = Truth(TruePairs(np.array([0]), np.array([1]), 2), np.array([1, 1]), 2)
    facts = msgspec.structs.replace(better.ranks, truth_sha256=truth.digest)
    better = msgspec.structs.replace(better, ranks=facts)
    store.truth_path(better.cell.dataset, truth.digest).write_bytes(b"damaged")
    truth.save(staged.truth_path(better.cell.dataset, truth.digest))
    store.write(better, staged)
    assert store.truth(better).digest == truth.digest


@pytest.fixture
def full_disk(staged_result, monkeypatch):
    """Write the second result where a function finds the disk full; the first one has to stay."""

    def write(function):
        store, staged, better = staged_result
        earlier = store.find(better.cell)
        with monkeypatch.context() as patch:
            patch.setattr(function, raising(OSError(errno.ENOSPC, "No space left on device")))
            with pytest.raises(StorageError, match="no space left to write"):
                store.write(better, staged)
        assert store.find(better.cell) == earlier
        assert files_of(store, better.cell) == ["0.5", "0.5"]

    return write


def test_a_result_whose_files_cannot_be_written_replaces_nothing(full_disk):
    full_disk("xmcbench.storage.atomic.os.fsync")


def write_in_process(store, record, staged):
    """Write a record in a process of its own, which may be killed. Returns its exit code."""
    process = multiprocessing.get_context("fork").Process(target=store.write, args=(record, staged))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, whose locks the child needs none of
        process.start()
    process.join()
    return process.exitcode


@pytest.fixture
def before_a_move(staged_result, monkeypatch):
    """Call a function, with the target, before a file of the second result is moved to its place.

    done: files that were moved before.
    """
    store, _, better = staged_result
    targets = [place(better.cell) for place in (store.record_path, store.predictions_path, store.ranks_path)]
    targets.append(store.truth_path(better.cell.dataset, better.ranks.truth_sha256))

    def patch(function, done=0):
        replace, moves = os.replace, []

        def move(source, target):
            if target in targets:
                moves.append(target)
                if len(moves) == done + 1:
                    function(target)
            replace(source, target)

        monkeypatch.setattr(os, "replace", move)

    return patch


@pytest.mark.parametrize("done", range(5))
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "own"])
def test_a_record_is_never_beside_predictions_of_another(staged_result, before_a_move, packed, done):
    """A packed record stays until the next one is packed."""
    store, staged, better = staged_result
    if packed:
        assert pack(store) == 1
    before_a_move(lambda target: os._exit(9), done)
    assert write_in_process(store, better, staged) == (9 if done < 4 else 0)
    found, predictions = Store(store.root).find(better.cell), store.predictions_path(better.cell)
    if found is not None and predictions.exists():
        assert predictions.read_text() == str(found.metrics["self"].values["P@1"])
    assert found is not None or not packed


def test_whoever_is_killed_between_the_files_leaves_a_cell_that_runs_again(staged_result, before_a_move):
    store, staged, better = staged_result
    before_a_move(lambda target: os._exit(9))
    assert write_in_process(store, better, staged) == 9
    assert store.find(better.cell) is None


@pytest.mark.parametrize("done", range(4))
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_result_that_cannot_be_moved_replaces_nothing(staged_result, before_a_move, error, done):
    store, staged, better = staged_result
    earlier, targets = store.find(better.cell), []

    def refuse(target):
        targets.append(target)
        raise error

    before_a_move(refuse, done)
    with pytest.raises((StorageError, KeyboardInterrupt)) as raised:
        store.write(better, staged)
    if isinstance(error, OSError):
        assert raised.value.message == f"cannot write {targets[0]}: Input/output error"
    assert store.find(better.cell) == earlier
    assert files_of(store, better.cell) == ["0.5", "0.5"]
    assert not list(store.root.rglob("*.tmp"))


@pytest.mark.parametrize("place", ["ranks_path", "predictions_path"])
def test_a_folder_in_the_place_of_a_file_costs_no_result(staged_result, place):
    store, staged, better = staged_result
    earlier, folder = store.find(better.cell), getattr(store, place)(better.cell)
    folder.unlink()
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot write"):
        store.write(better, staged)
    assert store.find(better.cell) == earlier
    assert (folder / "inside").is_dir()


def test_results_move_to_another_disk(staged_result, monkeypatch):
    store, staged, better = staged_result
    monkeypatch.setattr(os, "link", raising(OSError(errno.EXDEV, "Invalid cross-device link")))
    assert store.write(better, staged) == store.find(better.cell)
    assert files_of(store, better.cell) == ["0.6", "0.6"]


@pytest.fixture
def memory():
    """A folder on another disk than that of temporary files."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or folder.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("/dev/shm is not a disk of its own")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        yield Path(name)


def test_a_disk_that_is_full_when_results_move_replaces_nothing(staged_result, full_disk, memory):
    """The predictions are on a disk of their own, by a symbolic link."""
    store, staged, better = staged_result
    predictions = store.root / "predictions"
    shutil.copytree(predictions, memory / "predictions")
    shutil.rmtree(predictions)
    predictions.symlink_to(memory / "predictions")
    full_disk("shutil.copyfileobj")
    assert store.write(better, staged) == store.find(better.cell)
    assert files_of(store, better.cell) == ["0.6", "0.6"]
    assert not list(memory.rglob("*.tmp"))


def test_a_copy_in_the_place_of_another_cell_is_not_its_record(tmp_path, record):
    """A run showed the figures of another seed."""
    store = Store(tmp_path)
    one, other = (store.write(record(seed=seed)) for seed in (0, 1))
    shutil.copy(store.record_path(one.cell), store.record_path(other.cell))
    for look in (store.find, store.find_intact):
        assert look(one.cell) == one
        with pytest.raises(StorageError, match="holds a record that belongs at .*s0.*is it a copy"):
            look(other.cell)


def test_links_that_lead_in_a_circle(tmp_path, record):
    store = Store(tmp_path / "runs")
    written = store.write(record())
    for name in ("a", "b"):
        (tmp_path / "runs" / "records" / name).symlink_to(tmp_path / "runs" / "records")
    assert store.records() == [written]
    assert not store.left_out


def raising(error):
    def raise_it(*_):
        raise error

    return raise_it


@pytest.mark.parametrize("root", ["artifacts", f"trained/{'b' * 32}"])
def test_what_a_killed_run_left_is_swept_and_nothing_else(tmp_path, record, root):
    store = Store(tmp_path)
    written = store.write(record())
    place = store.record_path(written.cell)
    root = tmp_path / root
    artifacts = root / "training"
    unfinished, own = (root / "unfinished" / name for name in (f"training-{'a' * 32}", "mine"))
    for folder in (artifacts, unfinished, own):
        folder.mkdir(parents=True)
    kept = temporary_path(place)
    kept.touch()
    left = [
        place.with_name(dead_name("record.json")),
        unfinished / ".checkpoint.safetensors.123.tmp",
    ]
    others = [
        place.with_name("notes.tmp"),
        place.with_name(".tmp"),
        unfinished / "checkpoint.safetensors",
        own / ".x.tmp",
        # As Python's own tempfile names what another program writes.
        store.root / ".settings.tmp",
        place.with_name(".report.q1_draft.tmp"),
        root / ".abcdefgh.tmp",
        *(folder / "2024" / "may" / "insurance.claim" for folder in (store.root / "logs", root)),
        root / "training" / "insurance.claim",
        store.log_path(written.cell).with_name("mine.claim"),
    ]
    for path in (*left, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (0, 0))
    folders = [artifacts / dead_name("name"), root / dead_name()]
    for folder in folders:
        folder.mkdir()
    with folder_in(artifacts, artifacts / "name") as being_made:
        with hold_shared(unfinished.with_suffix(".lock")):
            store.sweep()
            assert [path.exists() for path in left] == [False, True]
        store.sweep()
        assert not any(path.exists() for path in (*left, *folders))
        assert all(path.exists() for path in (*others, place, kept, being_made))


@pytest.mark.parametrize(
    "name", [f"{dead_name()}/", f"ranking/{dead_name('a' * 32)}/", "ranking/CLAIM"], ids=["folder", "artifact", "claim"]
)
def test_each_leftover_of_a_training_is_seen_between_what_is_settled(tmp_path, name):
    store = Store(tmp_path)
    ranking = store.training("b" * 32) / "ranking"
    (ranking / ("c" * 32)).mkdir(parents=True)
    (ranking / f"{'c' * 32}.lock").touch()
    left = store.training("b" * 32) / name.replace("CLAIM", f"{'c' * 32}.claim")
    if name.endswith("/"):
        left.mkdir()
    else:
        left.write_text("{}")
        os.utime(left, (0, 0))
    store.sweep()
    assert not left.exists()
    assert len([*ranking.iterdir()]) == 2


def test_a_sweep_leaves_the_claim_of_a_living_build(tmp_path):
    """Its process may be too busy to touch it."""
    store = Store(tmp_path)
    claim = store.artifacts / "training" / f"{'a' * 32}.claim"
    claim.parent.mkdir(parents=True)
    claim.write_text(json.dumps({"owner": f"{machine()}:{new_mark()}"}))
    os.utime(claim, (0, 0))
    store.sweep()
    assert claim.exists()
    claim.write_text(json.dumps({"owner": "another-machine:x"}))
    os.utime(claim, (0, 0))
    store.sweep()
    assert not claim.exists()


def test_what_another_machine_writes_is_swept_when_it_is_old(tmp_path):
    """Its processes are not known here."""
    store, here = Store(tmp_path), machine_tag()
    there = f"{int(here, 16) ^ 1:06x}"
    names = [dead_name(), dead_name().replace(here, there), dead_name().replace(here, there)]
    for name in names:
        (tmp_path / name).mkdir()
    os.utime(tmp_path / names[2], (0, 0))
    store.sweep()
    assert [path.name for path in tmp_path.iterdir()] == [names[1]]
    with store.staging() as staged:
        assert staged.root.name.startswith(f".{here}-")
        assert staged.root in store.stagings()


def test_a_folder_in_use_is_touched_so_that_no_other_machine_takes_it_for_old(tmp_path, monkeypatch):
    """A cell may run for days, in a folder whose entries do not change."""
    monkeypatch.setattr(temporary, "heartbeat", Heartbeat(0.01))
    store = Store(tmp_path)
    with store.staging() as staged:
        os.utime(staged.root, (0, 0))
        deadline = time.monotonic() + 20
        while staged.root.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        monkeypatch.setattr(locks, "machine_tag", lambda: "000000")  # there, no process of ours is known
        store.sweep()
        assert staged.root.is_dir()
    assert staged.root not in temporary.heartbeat._held


def test_a_scratch_folder_of_another_machine_stays_for_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch() as folder, monkeypatch.context() as other:
        other.setattr(locks, "machine_tag", lambda: "000000")
        sweep_scratch()
        assert folder.is_dir()
        os.utime(folder, (0, 0))
        sweep_scratch()
        assert not folder.exists()


def test_dead_claims_are_swept_and_others_stay(tmp_path, record):
    store = Store(tmp_path)
    made = store.claim(record().cell)
    with store.pretraining_claim("a" * 64) as held:
        made.path.parent.mkdir(parents=True)
        made.path.write_text("{}")
        os.utime(made.path, (0, 0))
        store.sweep()
        assert held.path.exists()
        assert not made.path.exists()


def test_scratch_folders_of_dead_processes_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, linked = (dead_name(prefix="xmcbench-") for _ in range(2))
    others = ("xmcbench-results", "xmcbench-abcdefgh", "xmcbench-abcdefgh.tmp", "other.tmp")
    for name in (left, *others):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / linked).symlink_to(tmp_path / "xmcbench-results")
    with scratch() as folder:
        sweep_scratch()
        assert folder.is_dir()
        assert all((tmp_path / name / "inner").is_dir() for name in others)
        assert {path.name for path in tmp_path.iterdir()} == {*others, linked, folder.name}
    assert not folder.exists()


def test_how_records_spell_a_dataset(tmp_path, record):
    """A record that cannot be read says nothing."""
    store = Store(tmp_path)
    assert store.dataset_named("Tiny") is None
    path = store.record_path(store.write(record("tfidf")).cell)
    path.with_name("a.json").write_text("{")
    assert [store.dataset_named(name) for name in ("tiny", "TINY", "Tiny", "other")] == ["Tiny"] * 3 + [None]


def test_records_of_a_dataset_and_a_setting_are_read_without_the_others(tmp_path, record):
    store, full = Store(tmp_path), Setting.of("full")
    own = [store.write(record(setting=setting)) for setting in (Setting.of("ez"), full)]
    assert pack(store) == 2
    own.append(store.write(record("bm25", setting=full)))
    other = store.record_path(own[2].cell).with_name("a.json")
    other.write_text("{")
    elsewhere = tmp_path / "records/other/full/a.json"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("{")
    for dataset, setting, found, damaged in (
        ("TINY", None, own, {other}),
        ("Tiny", full, own[1:], {other}),
        (None, full, own[1:], {other, elsewhere}),
        ("tiny", Setting.of("ez"), own[:1], set()),
        ("tin", None, [], set()),
    ):
        assert {record.key for record in store.records(dataset, setting)} == {record.key for record in found}
        assert {*store.left_out} == damaged


def test_a_record_that_goes_away_while_it_is_looked_for_is_none(tmp_path, record, monkeypatch):
    store = Store(tmp_path)
    one, other = (store.write(record(seed=seed)) for seed in (0, 1))
    gone = store.record_path(one.cell)
    files = store.record_files()
    monkeypatch.setattr(Store, "record_files", lambda _, suffix=".json": files if suffix == ".json" else [])
    monkeypatch.setattr(Path, "exists", lambda _: True)
    gone.unlink()
    assert store.find(one.cell) is None
    assert (store.records(), store.left_out) == ([other], {})
