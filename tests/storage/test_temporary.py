import os

import pytest

from xmcbench.storage import temporary
from xmcbench.storage.atomic import atomic_folder, write_text
from xmcbench.storage.locks import temporary_name
from xmcbench.storage.temporary import folder_in, scratch, temporary_path


def dead_name(target="", prefix="."):
    """Return a temporary name of a process that is gone: there is no number so high."""
    return temporary_name(target, prefix).replace(f"-{os.getpid()}-", "-99999999-")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    """As in a new process, which has not swept anything."""
    monkeypatch.setattr(temporary, "_swept", set())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def make_scratch(_):
    with scratch():
        pass


def make_inside(folder):
    with folder_in(folder):
        pass


def make_beside(folder):
    with atomic_folder(folder / "made"):
        pass


def write_file(folder):
    write_text(folder / "made", "text")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (make_scratch, dead_name(prefix="xmcbench-")),
        (make_inside, dead_name()),
        (make_beside, dead_name("other")),
        (write_file, dead_name("other")),
    ],
    ids=["scratch", "inside", "beside", "file"],
)
def test_whoever_makes_the_next_one_removes_what_was_left(tmp_path, make, name):
    left = tmp_path / name
    (left / "inner").mkdir(parents=True)
    busy = temporary_path(tmp_path / "busy")
    busy.touch()
    others = {tmp_path / name for name in (".other.tmp", dead_name().replace("-99999999-", "-x-"), "xmcbench-results")}
    for path in others:
        path.touch()
    temporary._swept.clear()
    make(tmp_path)
    assert {*tmp_path.iterdir()} - {tmp_path / "made"} == {*others, busy}


def test_a_process_sweeps_a_folder_once(tmp_path, monkeypatch):
    """A run writes thousands of records into one folder."""
    swept = []
    monkeypatch.setattr(temporary, "_sweep", lambda folder, _: swept.append(folder))
    for name in ("a", "b", "below/c"):
        write_text(tmp_path / name, "text")
    assert swept == [tmp_path, tmp_path / "below"]


def test_a_scratch_folder_is_private(tmp_path):
    before = os.umask(0)
    try:
        with scratch() as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
