import mmap
import resource
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from xmcbench.errors import DataError
from xmcbench.storage import reading
from xmcbench.storage.reading import FLAG, VARIABLE, Unreadable, bounded_memory

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
