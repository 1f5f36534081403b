"""Reading files that somebody else may have written: regular files only, and no more than a limit.

Every reader of a file from outside goes through here, so that a FIFO does not block, and a file of a few megabytes that
unpacks to many gigabytes ends in one line instead of a full memory. The limits are far above the needs of real data;
``--max-unpacked``, or $XMCBENCH_MAX_UNPACKED, raises all of them.
"""

from __future__ import annotations

import os
import resource
import stat
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from xmcbench.errors import DataError, Unavailable, UsageError, XmcbenchError

#: Bytes of a file that is read as a whole: a record, a card, a settings file, published figures, a remark.
DOCUMENT = 64 << 20
#: Bytes of one line of a text file.
LINE = 16 << 20
#: Bytes of all arrays of an .npz file. The predictions of LF-Amazon-1M, the largest dataset of the paper, take 1.2 GB.
ARRAYS = 2 << 30
#: Bytes of a text file that is read line by line, which takes no memory but time, and room in the cache.
STREAM = 64 << 30
#: Bytes of memory that reading a part of a dataset may take.
MEMORY = 8 << 30
#: The compressions of a zip archive that are unpacked piece by piece: of others, some KB fill the memory at once.
PIECEWISE = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
#: GiB that every limit is raised to.
VARIABLE, FLAG = "XMCBENCH_MAX_UNPACKED", "--max-unpacked"
#: A pointer of Git LFS, the few lines that a clone has in place of a large file: its beginning, a later line, its most
#: bytes.
_LFS_VERSION, _LFS_SUM, _LFS_LONGEST = b"version https://git-lfs.github.com/spec/", b"\noid sha256:", 1024
#: The memory of this process as the kernel counts it.
_STATE = Path("/proc/self/statm")
#: The limit on memory that the process came with, and those of the blocks that run now, in bytes of the whole process.
_OWN = resource.getrlimit(resource.RLIMIT_DATA)[0]
_limits: list[int] = []
_lock = threading.Lock()


class Unreadable(ValueError):
    """A file that is not read: it is not a regular one, or larger than its limit."""


def raise_limit(limit: int) -> int:
    """Return the limit, or the higher one that the user has set, in bytes. Raises UsageError for any other value."""
    given = os.environ.get(VARIABLE, "")
    try:
        return max(limit, int(parse_gib(given) * (1 << 30))) if given else limit
    except ValueError:
        raise UsageError(f"${VARIABLE} is {given!r}", f"a number of GiB, as {FLAG} takes") from None


def parse_gib(text: str) -> float:
    """Return a number of GiB. Raises ValueError for anything else, and for 2^20 or more."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1 << 20:
        raise ValueError(f"{text!r} is not a number of GiB")
    return value


def check_size(size: int, limit: int, what: str = "it") -> None:
    """Raise Unreadable, naming the limit and the flag that raises it, for more bytes than are allowed."""
    allowed = raise_limit(limit)
    if size > allowed:
        needed = -(-size >> 30) if size >= 1 << 30 else 1
        raise Unreadable(f"{what} takes more than the limit of {_format(allowed)}: {FLAG} {needed} raises it")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading bytes. Raises OSError, and Unreadable for anything else: a FIFO would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("it is not a regular file")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, limit: int = DOCUMENT) -> bytes:
    """Return the bytes of a regular file. Raises OSError, and Unreadable for more bytes than ``limit``."""
    with open_regular(path) as stream:
        check_size(os.fstat(stream.fileno()).st_size, limit)
        # A file that grows while it is read, or one of /proc, whose size is 0.
        content = stream.read(raise_limit(limit) + 1)
        check_size(len(content), limit)
        return content


def read_text(path: Path, limit: int = DOCUMENT) -> str:
    """Return the text of a regular file in UTF-8, with or without a byte-order mark. Raises OSError and ValueError."""
    return read_bytes(path, limit).decode("utf-8-sig")


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is a pointer of Git LFS; False for an unreadable file, whose reader says why."""
    try:
        with open_regular(path) as stream:
            start = stream.read(_LFS_LONGEST)
    except (OSError, Unreadable):
        return False
    return start.startswith(_LFS_VERSION) and _LFS_SUM in start


def refuse_lfs_pointer(path: Path, kind: type[XmcbenchError] = Unavailable) -> None:
    """Raise an error of this kind for a file that is a pointer of Git LFS."""
    if is_lfs_pointer(path):
        raise kind(f"{path} is a Git LFS pointer, not the file itself", "fetch the file: git lfs pull")


@contextmanager
def bounded_memory(path: Path, limit: int | None = None) -> Iterator[None]:
    """Read a file, in a block, without allocating more than ``limit`` further bytes (default: ``MEMORY``).

    A few kilobytes can ask for any number of gigabytes: compressed buffers, dictionaries, views, lists of nothing. The
    kernel counts every allocation, so this limit holds where a reader cannot tell in advance. An allocation of another
    thread can fail too. Elsewhere than on Linux, the memory of the machine is the limit. Raises DataError, naming the
    file, where an allocation fails, and for Unreadable.
    """
    import pyarrow as pa

    allowed = raise_limit(MEMORY if limit is None else limit)
    pool = pa.default_memory_pool()
    try:
        # Other pools reserve many times what they use, and all of it counts.
        pa.set_memory_pool(pa.system_memory_pool())
        with _limit_memory(allowed):
            yield
    except Unreadable as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except MemoryError:
        raise DataError(
            f"cannot read {path}: it takes more memory than there is, or than the limit of {_format(allowed)}",
            f"{FLAG} {(allowed >> 30) + 1} raises the limit",
        ) from None
    finally:
        pa.set_memory_pool(pool)


@contextmanager
def _limit_memory(allowed: int) -> Iterator[None]:
    if not _STATE.exists():
        yield
        return
    # The kernel holds private writable memory against the limit; this is its count of it.
    limit = int(_STATE.read_text().split()[5]) * resource.getpagesize() + allowed
    with _lock:
        _limits.append(limit)
        _set_lowest()
    try:
        yield
    finally:
        with _lock:
            _limits.remove(limit)
            _set_lowest()


def _set_lowest() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (*_limits, _OWN) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits, default=resource.RLIM_INFINITY), hard))


def _format(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):,.1f} MiB"
