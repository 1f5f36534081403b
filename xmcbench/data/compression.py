"""Plain, gzip and xz files behind one binary stream, and gzip files whose bytes depend on their content only.

A few megabytes can unpack to any number of gigabytes, so what is read line by line is bounded, line by line and in all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.lfs import refuse_lfs_pointer
from xmcbench.storage.reading import LINE, STREAM, Unreadable, check_size, open_regular, raised

#: The first bytes of a gzip file.
_GZIP = b"\x1f\x8b"

#: Decompressed bytes to read ahead, so that lines are found in C.
_BUFFER = 1 << 20


def suffix_of(path: Path) -> str:
    """The suffix of a file, without .gz."""
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


@contextmanager
def open_source(path: Path) -> Iterator[io.BufferedReader]:
    """The decompressed bytes of ``path``; its suffix (.gz, .xz) gives the compression.

    A gzip file without the suffix is read too: no text begins as one does. Raises DataError if the file is missing,
    unreadable, truncated, not in the format of its suffix, or a pointer of Git LFS, on opening or while the block
    reads.
    """
    refuse_lfs_pointer(path, DataError)
    try:
        raw = open_regular(path)
    except FileNotFoundError:
        raise DataError(f"no file at {path}") from None
    except (Unreadable, OSError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    with raw:
        try:
            yield io.BufferedReader(_decompress(raw, path.suffix), _BUFFER)
        except Unreadable as error:
            raise DataError(f"cannot read {path}: {error}") from None
        except EOFError:
            raise DataError(f"{path} is truncated", "an interrupted download? download it again") from None
        except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            kind = "xz" if path.suffix == ".xz" else "gzip"
            named = f", or remove the suffix {path.suffix} from a plain file" if path.suffix in (".gz", ".xz") else ""
            raise DataError(f"{path} is damaged or not a {kind} file: {error}", f"download it again{named}") from None


def _decompress(raw: io.BufferedReader, suffix: str) -> io.RawIOBase:
    if suffix == ".xz":
        return cast(io.RawIOBase, lzma.LZMAFile(raw))
    is_packed = suffix == ".gz" or raw.peek(2).startswith(_GZIP)
    return cast(io.RawIOBase, gzip.GzipFile(fileobj=raw, mode="rb") if is_packed else raw)


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a stream of ``open_source``, whose block turns the error for one that is too long into a DataError.

    Raises Unreadable for a line, or for lines, of more bytes than are allowed.
    """
    longest, most, total = raised(LINE), raised(STREAM), 0
    for number, line in enumerate(iter(partial(stream.readline, longest + 1), b""), 1):
        total += len(line)
        if len(line) > longest or total > most:
            check_size(len(line), LINE, f"line {number}")
            check_size(total, STREAM, "what it unpacks to")
        yield line


def read_all(stream: BinaryIO, limit: int, what: str = "it") -> bytes:
    """Return all bytes of a stream of ``open_source``. Raises Unreadable for more than ``limit``."""
    content = stream.read(raised(limit) + 1)
    check_size(len(content), limit, what)
    return content


def whole_lines(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines of a stream of ``open_source`` in blocks of about ``size`` bytes, each ended by a newline.

    Raises Unreadable as ``lines`` does.
    """
    rest, total, ended = b"", 0, 0
    while chunk := stream.read(size):
        total += len(chunk)
        check_size(total, STREAM, "what it unpacks to")
        head, newline, tail = (rest + chunk).rpartition(b"\n")
        if newline:
            ended += head.count(b"\n") + 1
            yield head + newline
        if len(tail) > LINE + size:
            check_size(len(tail), LINE + size, f"line {ended + 1}")
        rest = tail
    if rest:
        yield rest + b"\n"


@contextmanager
def atomic_gzip(path: Path) -> Iterator[IO[bytes]]:
    """A binary stream into ``path``, gzipped where its name ends in .gz; equal content gives equal bytes."""
    with atomic_file(path) as stream:
        if path.suffix != ".gz":
            yield stream
        else:
            # No file name and no time stamp in the header.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=stream, mtime=0) as packed:
                yield cast(IO[bytes], packed)


def find_source(folder: Path, *names: str) -> Path | None:
    """The first of the named files, each as ``name.gz`` or plain, in ``folder``; None if there is none."""
    candidates = [folder / f"{name}{suffix}" for name in names for suffix in (".gz", "")]
    return next((path for path in candidates if path.is_file()), None)


def sha256_unpacked(path: Path) -> str:
    """SHA-256 (hex) of a file's content without its compression."""
    with open_source(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
