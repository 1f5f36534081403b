"""A limit on the memory that this process takes while it reads files of others.

A few kilobytes can ask for any number of gigabytes: compressed buffers, dictionaries, views, lists of nothing. The
kernel counts what is allocated, whoever allocates it, so this limit holds where a reader cannot tell in advance.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xmcbench.errors import DataError
from xmcbench.storage.reading import FLAG, Unreadable, raised, shown

#: Bytes that reading a part of a dataset may take.
MEMORY = 8 << 30

_STATE = Path("/proc/self/statm")

#: The limit that the process came with, and those of the blocks that run now, in bytes of the whole process.
_OWN = resource.getrlimit(resource.RLIMIT_DATA)[0]
_limits: list[int] = []
_lock = threading.Lock()


@contextmanager
def bounded_memory(path: Path, limit: int | None = None) -> Iterator[None]:
    """Read a file, in a block, without allocating more than ``limit`` further bytes (default: ``MEMORY``).

    Raises DataError, naming the file, where an allocation fails, and for Unreadable. An allocation of another thread
    can fail too while the block runs. Only Linux tells how much a process has; elsewhere the memory of the machine is
    the limit.
    """
    import pyarrow as pa

    allowed = raised(MEMORY if limit is None else limit)
    pool = pa.default_memory_pool()
    try:
        # Others reserve many times what they use, and all of it counts.
        pa.set_memory_pool(pa.system_memory_pool())
        with _limited(allowed):
            yield
    except Unreadable as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except MemoryError:
        raise DataError(
            f"cannot read {path}: it takes more memory than there is, or than the limit of {shown(allowed)}",
            f"{FLAG} {(allowed >> 30) + 1} raises the limit",
        ) from None
    finally:
        pa.set_memory_pool(pool)


@contextmanager
def _limited(allowed: int) -> Iterator[None]:
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
