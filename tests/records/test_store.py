"""A runs folder: what gives way to what, and what is removed that a killed run left."""

from xmcbench.records import Store
from xmcbench.storage.lock import in_use
from xmcbench.storage.temporary import hold_file, hold_folder, scratch, sweep_scratch


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


def test_what_a_killed_run_left_is_swept_and_nothing_else(tmp_path, record):
    store = Store(tmp_path)
    written = store.write(record())
    place = store.record_path(written.cell)
    artifacts = store.artifacts / "training"
    unfinished = store.artifacts / "unfinished" / "training-1"
    for folder in (artifacts, unfinished):
        folder.mkdir(parents=True)
    busy, kept = hold_file(place)
    held, being_made = hold_folder(artifacts, ".name.")
    left = [place.with_name(".record.json.abcdefgh.tmp"), unfinished / ".checkpoint.safetensors.123.tmp"]
    others = [place.with_name("notes.tmp"), place.with_name(".tmp"), unfinished / "checkpoint.safetensors"]
    for path in (*left, *others):
        path.write_text("x")
    (artifacts / ".name.abcdefgh.tmp").mkdir()
    (store.artifacts / ".abcdefgh.tmp").mkdir()
    with in_use(unfinished.with_suffix(".lock")):
        store.sweep()
        assert [path.exists() for path in left] == [False, True]
    store.sweep()
    assert [path.exists() for path in left] == [False, False]
    assert all(path.exists() for path in (*others, place, kept, being_made))
    assert not (artifacts / ".name.abcdefgh.tmp").exists()
    assert not (store.artifacts / ".abcdefgh.tmp").exists()
    assert busy != held


def test_scratch_folders_of_dead_processes_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("xmcbench-abcdefgh.tmp", "xmcbench-results", "xmcbench-abcdefgh", "other.tmp"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "xmcbench-linked__.tmp").symlink_to(tmp_path / "xmcbench-results")
    with scratch() as folder:
        sweep_scratch()
        assert folder.is_dir()
        assert not (tmp_path / "xmcbench-abcdefgh.tmp").exists()
        assert (tmp_path / "xmcbench-results" / "inner").is_dir()
        assert {path.name for path in tmp_path.iterdir()} == {
            *("xmcbench-results", "xmcbench-abcdefgh", "other.tmp", "xmcbench-linked__.tmp"),
            folder.name,
        }
    assert not folder.exists()
