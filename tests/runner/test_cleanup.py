"""Files that killed processes left in the cache, also on a machine that only runs tasks of a cluster."""

import os
from pathlib import Path

import pytest

from xmcbench.records import Store
from xmcbench.runner.executors.process import sweep
from xmcbench.runner.executors.ray import remote_task
from xmcbench.storage.locks import temporary_name
from xmcbench.storage.temporary import folder_in, temporary_path


def dead_name(target="", prefix="."):
    """Return a temporary name of a process that is gone: there is no number so high."""
    return temporary_name(target, prefix).replace(f"-{os.getpid()}-", "-99999999-")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "cache"


def of_a_run(folder):
    sweep(Store(folder / "runs"))


def of_a_cluster(_):
    remote_task._clean_up.__wrapped__()


@pytest.mark.parametrize("command", [of_a_run, of_a_cluster])
def test_the_next_command_removes_it_and_nothing_else(cache, tmp_path, command):
    received = cache / "received"
    left, kept, made = [], [], "a" * 32
    for folder in (cache / "labels", received / "artifacts" / "tokens", received / "trained" / made / "ranking"):
        (folder / made).mkdir(parents=True)
        unfinished = [dead_name(made), dead_name(), f"{made}.claim", f"{made}.claim.turn"]
        for name in (*unfinished, f"{made}.lock", "mine.claim"):
            (folder / name).touch()
            os.utime(folder / name, (0, 0))
        left += [folder / name for name in unfinished]
        kept += [folder / name for name in (made, f"{made}.lock", "mine.claim")]
    files = received / "files"
    files.mkdir()
    (files / "content.arrow").touch()
    left.append(files / dead_name("content.arrow"))
    left[-1].touch()
    file = temporary_path(files / "content.arrow")
    file.touch()
    with folder_in(received / "artifacts" / "tokens", Path("made")) as folder:
        command(tmp_path)
        assert not [path.name for path in left if path.exists()]
        assert all(path.exists() for path in (*kept, files / "content.arrow", folder, file))
