"""Reading within bounds: regular files only, limits on size and memory, and pointers of Git LFS."""

import gzip
import mmap
import os
import resource
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from xmcbench.data.text_files import lines, open_source
from xmcbench.errors import DataError, Unavailable, UsageError
from xmcbench.storage import arrays, reading
from xmcbench.storage.arrays import read_arrays
from xmcbench.storage.reading import (
    FLAG,
    VARIABLE,
    Unreadable,
    bounded_memory,
    open_regular,
    read_bytes,
    read_text,
    refuse_lfs_pointer,
)


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, read_text, open_regular, read_arrays):
        thread = threading.Thread(target=_refuse, args=(read, tmp_path / "pipe"), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), read


def _refuse(read, path):
    with pytest.raises(Unreadable, match="not a regular file"):
        read(path)


def test_a_device_and_a_folder_are_refused(tmp_path):
    with pytest.raises(Unreadable, match="not a regular file"):
        read_bytes(tmp_path / ".." / "/dev/zero")
    with pytest.raises((Unreadable, IsADirectoryError)):
        read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none")


def test_the_limit_is_named_and_the_flag_raises_it(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 5000)
    assert read_bytes(path, 5000) == b"x" * 5000
    with pytest.raises(Unreadable, match=rf"limit of 0\.0 MiB: {FLAG} 1 raises it"):
        read_bytes(path, 4999)
    monkeypatch.setenv(VARIABLE, "1")
    assert len(read_bytes(path, 10)) == 5000
    for given in ("much", "-5", "0", "nan", "inf", "1e10"):
        monkeypatch.setenv(VARIABLE, given)
        with pytest.raises(UsageError, match=rf"{VARIABLE} is '{given}' \(a number of GiB, as {FLAG} takes\)"):
            read_bytes(path)


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "x").write_bytes("\ufeffname = 1".encode())
    assert read_text(tmp_path / "x") == "name = 1"


def test_a_small_archive_of_large_arrays_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(1 << 20, np.int8))
    assert (tmp_path / "bomb.npz").stat().st_size < 5000
    assert len(read_arrays(tmp_path / "bomb.npz", "a")[0]) == 1 << 20
    monkeypatch.setattr(arrays, "ARRAYS", 1 << 19)
    with pytest.raises(ValueError, match=f"unpacks to takes more than the limit of 0.5 MiB: {FLAG} 1"):
        read_arrays(tmp_path / "bomb.npz", "a")


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"short\n" + b"x" * 3000))
    with open_source(path) as stream:
        assert [len(line) for line in lines(stream)] == [6, 3000]
    monkeypatch.setattr("xmcbench.data.text_files.LINE", 1000)
    with pytest.raises(DataError, match=rf"x\.gz: line 2 takes .*{FLAG}"), open_source(path) as stream:
        list(lines(stream))


def test_many_lines_are_refused_in_all(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1000))
    monkeypatch.setattr("xmcbench.data.text_files.STREAM", 2000)
    with pytest.raises(DataError, match="what it unpacks to takes"), open_source(path) as stream:
        list(lines(stream))


def test_limits_of_a_real_size_are_shown_in_units():
    with pytest.raises(Unreadable, match=rf"it takes more than the limit of 2\.0 GiB: {FLAG} 10 raises it"):
        reading.check_size(10 << 30, reading.ARRAYS)


counted = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux counts the memory of a process")
MIB = 1 << 20


def limit():
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def allocate(size):
    """Take memory from the kernel: an array may come from memory that the process has freed, which counts already."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError from error


@counted
def test_what_a_block_may_allocate_is_bounded_and_only_there(monkeypatch):
    before = limit()
    with bounded_memory(Path("x"), 64 * MIB):
        allocate(16 * MIB)
    refused = pytest.raises(DataError, match=rf"cannot read x: it takes more memory .* limit of 64\.0 MiB \({FLAG} 1 ")
    with refused, bounded_memory(Path("x"), 64 * MIB):
        allocate(256 * MIB)
    assert limit() == before
    allocate(256 * MIB)
    monkeypatch.setattr(reading, "MEMORY", 64 * MIB)
    with refused, bounded_memory(Path("x")):
        allocate(256 * MIB)
    monkeypatch.setenv(VARIABLE, "1")
    with bounded_memory(Path("x")):
        allocate(256 * MIB)


def test_arrow_takes_from_the_system_what_it_uses_and_no_more():
    """Its other pools reserve gigabytes, which would count."""
    before = pa.default_memory_pool().backend_name
    with bounded_memory(Path("x")):
        assert pa.default_memory_pool().backend_name == "system"
    assert pa.default_memory_pool().backend_name == before


@counted
def test_the_lowest_limit_of_nested_blocks_holds():
    with bounded_memory(Path("outer"), 128 * MIB):
        outer = limit()
        with bounded_memory(Path("inner"), 1024 * MIB):
            assert limit() == outer
        with pytest.raises(DataError, match="cannot read inner"), bounded_memory(Path("inner"), 16 * MIB):
            allocate(64 * MIB)
        assert limit() == outer
        allocate(64 * MIB)


@counted
def test_a_block_that_another_thread_ends_first_leaves_no_limit():
    before, entered, left = limit(), threading.Event(), threading.Event()

    def other():
        with bounded_memory(Path("other"), 512 * MIB):
            entered.set()
            left.wait(20)

    thread = threading.Thread(target=other)
    with bounded_memory(Path("this"), 1024 * MIB):
        thread.start()
        entered.wait(20)
    left.set()
    thread.join(20)
    assert limit() == before


def test_a_file_beyond_a_limit_is_named():
    with pytest.raises(DataError, match="cannot read x: too much"), bounded_memory(Path("x")):
        raise Unreadable("too much")


def test_without_a_count_of_memory_there_is_no_limit(monkeypatch):
    monkeypatch.setattr(reading, "_STATE", Path("/none"))
    before = limit()
    with bounded_memory(Path("x"), 1):
        assert limit() == before
    with pytest.raises(DataError, match="more memory than there is"), bounded_memory(Path("x")):
        raise MemoryError


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"


@pytest.mark.parametrize("content", [POINTER, POINTER.replace(b"\n", b"\r\n")])
def test_a_pointer_is_named_with_the_command_that_fetches_the_file(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(
        Unavailable, match=r"model\.safetensors is a Git LFS pointer, not the file itself \(.*: git lfs pull\)"
    ):
        refuse_lfs_pointer(tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="is a Git LFS pointer"):
        refuse_lfs_pointer(tmp_path / "model.safetensors", DataError)
    with pytest.raises(ValueError, match="it is a Git LFS pointer: git lfs pull fetches the file"):
        read_arrays(tmp_path / "model.safetensors", "a")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", POINTER[:43], b"x" + POINTER, POINTER[:43] + b"oid is a word"])
def test_other_files_are_not_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    refuse_lfs_pointer(tmp_path / "file")


def test_a_file_that_cannot_be_read_is_left_to_its_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none", "."):
        refuse_lfs_pointer(tmp_path / name)
