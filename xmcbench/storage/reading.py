"""Reading bytes that others may have written: regular files only, and no more than a limit.

Every reader of a file from outside goes through here, so that a FIFO does not block, and a file of a few megabytes that
unpacks to many gigabytes ends in one line instead of a full memory. The limits are far above what real data need;
``--max-unpacked``, or $XMCBENCH_MAX_UNPACKED, raises all of them.
"""

from __future__ import annotations

import os
import stat
import zipfile
from io import BufferedReader
from pathlib import Path

from xmcbench.errors import UsageError

#: Bytes of a file that is read as a whole: a record, a card, a settings file, published figures, a remark.
DOCUMENT = 64 << 20
#: Bytes of one line of a text file.
LINE = 16 << 20
#: Bytes of all arrays of an .npz file. The predictions of LF-Amazon-1M, the largest dataset of the paper, take 1.2 GB.
ARRAYS = 2 << 30
#: Bytes of a text file that is read line by line, which takes no memory but time, and room in the cache.
STREAM = 64 << 30

#: The compressions of a zip archive that are unpacked piece by piece: of others, some KB fill the memory at once.
PIECEWISE = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})

#: GiB that every limit is raised to.
VARIABLE, FLAG = "XMCBENCH_MAX_UNPACKED", "--max-unpacked"


class Unreadable(ValueError):
    """A file that is not read: it is not a regular one, or larger than its limit."""


def raised(limit: int) -> int:
    """The limit, or what the user has raised it to, in bytes. Raises UsageError for any other value."""
    given = os.environ.get(VARIABLE, "")
    try:
        return max(limit, int(float(given) * (1 << 30))) if given else limit
    except (ValueError, OverflowError):
        raise UsageError(f"${VARIABLE} is {given!r}", f"a number of GiB, as {FLAG} takes") from None


def check_size(size: int, limit: int, what: str = "it") -> None:
    """Raise Unreadable, naming the limit and what raises it, for more bytes than are allowed."""
    allowed = raised(limit)
    if size > allowed:
        needed = -(-size >> 30) if size >= 1 << 30 else 1
        raise Unreadable(f"{what} takes more than the limit of {shown(allowed)}: {FLAG} {needed} raises it")


def open_regular(path: Path) -> BufferedReader:
    """The bytes of a regular file. Raises OSError where it cannot be opened, Unreadable for a FIFO or a device.

    Opening a FIFO would wait for somebody to write into it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("it is not a regular file")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, limit: int = DOCUMENT) -> bytes:
    """The bytes of a regular file. Raises OSError, and Unreadable for more bytes than ``limit``."""
    with open_regular(path) as stream:
        check_size(os.fstat(stream.fileno()).st_size, limit)
        # A file that grows while it is read, or one of /proc, whose size is 0.
        content = stream.read(raised(limit) + 1)
        check_size(len(content), limit)
        return content


def read_text(path: Path, limit: int = DOCUMENT) -> str:
    """The text of a regular file in UTF-8, with or without a byte-order mark. Raises what ``read_bytes`` raises, and
    UnicodeDecodeError, a ValueError."""
    return read_bytes(path, limit).decode("utf-8-sig")


def shown(size: int) -> str:
    """A number of bytes in GiB or MiB."""
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):,.1f} MiB"
