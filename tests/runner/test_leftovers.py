"""What killed processes left in the cache, also on a machine that only runs tasks of a cluster."""

import os

import pytest

from xmcbench.environment import machine_tag
from xmcbench.records import Store
from xmcbench.runner.executors.ray import errand
from xmcbench.runner.leftovers import sweep
from xmcbench.storage.temporary import hold_file, hold_folder, remove_folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "cache"


def of_a_run(folder):
    sweep(Store(folder / "runs"))


def of_a_cluster(_):
    errand._clean_up.__wrapped__()


@pytest.mark.parametrize("command", [of_a_run, of_a_cluster])
def test_the_next_command_removes_it_and_nothing_else(cache, tmp_path, command):
    received = cache / "received"
    left, kept, made, tag = [], [], "a" * 32, machine_tag()
    for folder in (cache / "labels", received / "artifacts" / "tokens", received / "trained" / made / "ranking"):
        (folder / made).mkdir(parents=True)
        unfinished = [f".{made}.{tag}-abcdefgh.tmp", f".{tag}-abcdefgh.tmp", f"{made}.claim", f"{made}.claim.turn"]
        for name in (*unfinished, f"{made}.lock", "mine.claim"):
            (folder / name).touch()
            os.utime(folder / name, (0, 0))
        left += [folder / name for name in unfinished]
        kept += [folder / name for name in (made, f"{made}.lock", "mine.claim")]
    files = received / "files"
    files.mkdir()
    (files / "content.arrow").touch()
    (files / f".content.arrow.{tag}-abcdefgh.tmp").touch()
    held, folder = hold_folder(received / "artifacts" / "tokens", ".made.")
    descriptor, file = hold_file(files / "content.arrow")
    command(tmp_path)
    assert not [path.name for path in (*left, files / f".content.arrow.{tag}-abcdefgh.tmp") if path.exists()]
    assert all(path.exists() for path in (*kept, files / "content.arrow", folder, file))
    remove_folder(held, folder)
    os.close(descriptor)
