import errno
import gzip
import os
import resource
import shutil
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from xmcbench.errors import StorageError
from xmcbench.storage.atomic import atomic_file, atomic_folder, copy, write_json, write_text


def test_a_failed_write_keeps_the_old_file_and_leaves_no_trace(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(RuntimeError), atomic_file(tmp_path / "a.txt") as stream:
        stream.write(b"new")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.fixture
def file_size_limit():
    """Allow files of this process 100,000 bytes; the system answers more with an error, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def in_pieces(stream):
    for _ in range(1000):
        stream.write(bytes(1000))


def in_an_archive(stream):
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("large", bytes(1_000_000))


def in_gzip(stream):
    with gzip.GzipFile(fileobj=stream, mode="wb") as packed:
        packed.write(os.urandom(1_000_000))


@pytest.mark.usefixtures("file_size_limit")
@pytest.mark.parametrize(
    "write",
    [in_pieces, in_an_archive, in_gzip, lambda stream: np.save(stream, np.zeros(200_000))],
    ids=["pieces", "zip", "gzip", "numpy"],
)
def test_a_full_disk_is_one_clear_line(tmp_path, write):
    with pytest.raises(StorageError, match="no space left to write .*a.txt"), atomic_file(tmp_path / "a.txt") as stream:
        write(stream)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_at_the_end_is_one_clear_line(tmp_path, number, monkeypatch):
    def full(_):
        raise OSError(number, "full")

    monkeypatch.setattr("xmcbench.storage.atomic.os.fsync", full)
    with pytest.raises(StorageError, match="no space left to write .*a.txt"):
        write_text(tmp_path / "a.txt", "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [ConnectionError("server down"), TimeoutError("late"), OSError(errno.ENOSPC, "full elsewhere")]
)
def test_an_error_of_the_block_is_not_that_of_the_file(tmp_path, error):
    with pytest.raises(type(error)) as raised, atomic_file(tmp_path / "a.txt") as stream:
        stream.write(b"some")
        raise error
    assert raised.value is error
    assert list(tmp_path.iterdir()) == []


def test_numpy_has_its_own_words_for_a_full_disk(tmp_path):
    with pytest.raises(StorageError, match="no space left to write .*f "), atomic_folder(tmp_path / "f"):
        raise OSError("10000 requested and 5000 written")
    with pytest.raises(OSError, match="cannot be reached"), atomic_folder(tmp_path / "f"):
        raise OSError("the hub cannot be reached")


def test_a_link_stays_and_a_pipe_is_not_replaced(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match=r"pipe: it is not a regular file \(choose another name\)"):
        write_text(tmp_path / "pipe", "new")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_is_whole_or_not_there(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "f") as folder:
        (folder / "x").write_text("")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(tmp_path / "f") as folder:
        (folder / "x").write_text("1")
    assert (tmp_path / "f" / "x").read_text() == "1"


@pytest.mark.parametrize("error", [OSError(errno.EBUSY, "Device or resource busy"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", [0, 1, 2])
def test_a_folder_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch, call, error):
    """At a mount point it cannot be moved; and the user may press Ctrl-C at any time."""
    path = tmp_path / "f"
    path.mkdir()
    (path / "x").write_text("old")
    replace, remove, calls = os.replace, shutil.rmtree, []

    def fail(do):
        def called(*arguments, **options):
            calls.append(do)
            if len(calls) == call + 1:
                raise error
            do(*arguments, **options)

        return called

    monkeypatch.setattr(os, "replace", fail(replace))
    monkeypatch.setattr(shutil, "rmtree", fail(remove))
    with suppress(StorageError, KeyboardInterrupt, OSError), atomic_folder(path) as folder:
        (folder / "x").write_text("new")
    monkeypatch.undo()
    assert (path / "x").read_text() == ("new" if call == 2 else "old")


@pytest.mark.parametrize("below", ["x", "below/x"])
def test_a_file_in_the_place_of_the_folder(tmp_path, below):
    (tmp_path / "out").write_text("mine")
    with (
        pytest.raises(StorageError, match="cannot write .*x: a file is in the place of its folder") as raised,
        atomic_file(tmp_path / "out" / below),
    ):
        pass
    assert raised.value.hint == "choose another folder"
    assert (tmp_path / "out").read_text() == "mine"


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_what_the_block_meets_elsewhere_is_not_a_failed_write(tmp_path):
    with pytest.raises(FileNotFoundError, match="weights"), atomic_folder(tmp_path / "f"):
        (tmp_path / "weights").read_text()
    with pytest.raises(StorageError, match="cannot write .*f: No such file"), atomic_folder(tmp_path / "f") as folder:
        (folder / "below" / "x").write_text("")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_replaces_what_is_there_and_a_file_is_not_copied_onto_itself(tmp_path):
    source, other = tmp_path / "source", tmp_path / "below" / "other"
    source.write_bytes(b"new")
    copy(source, other)
    assert other.read_bytes() == b"new"
    other.write_bytes(b"something else")
    copy(source, other)
    assert other.read_bytes() == b"new"
    before = source.stat()
    copy(source, source)
    assert (source.stat().st_ino, source.read_bytes()) == (before.st_ino, b"new")


def test_a_file_that_cannot_be_read_to_its_end_is_the_one_that_is_named(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "source").write_text("new")
    monkeypatch.setattr("xmcbench.storage.atomic.shutil.copyfileobj", fail)
    with pytest.raises(StorageError, match=r"cannot read .*source: Input/output error"):
        copy(tmp_path / "source", tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_file_that_cannot_be_read_is_the_one_that_is_named(tmp_path):
    for there in (False, True):
        if there:
            (tmp_path / "other").write_text("old")
        with pytest.raises(StorageError, match=r"cannot read .*absent: No such file"):
            copy(tmp_path / "absent", tmp_path / "other")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("umask", "file", "folder"), [(0o022, 0o644, 0o755), (0o007, 0o660, 0o770), (0o077, 0o600, 0o700)]
)
def test_files_and_folders_have_the_mode_that_the_umask_says(tmp_path, umask, file, folder):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "text")
        write_text(tmp_path / "a.txt", "replaced")
        with atomic_folder(tmp_path / "b"):
            pass
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a.txt", "b")] == [file, folder]


def test_json_is_the_same_whatever_the_order_of_its_keys(tmp_path):
    write_json(tmp_path / "a.json", {"b": "\u00e9", "a": [1]})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n "a": [\n  1\n ],\n "b": "\u00e9"\n}\n'
