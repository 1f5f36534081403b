"""Plain, gzip and xz files behind one binary stream, their lines as text, and gzip files of reproducible bytes.

A few megabytes can unpack to any number of gigabytes: lines are bounded one by one and in all. Text is UTF-8, without
byte-order marks.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import math
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

from xmcbench.errors import DataError, StorageError
from xmcbench.storage import reading
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.reading import DOCUMENT, LINE, STREAM, Unreadable, check_size, raise_limit

#: The first bytes of a gzip file.
_GZIP = b"\x1f\x8b"
#: Decompressed bytes to read ahead, so that lines are found in C.
_BUFFER = 1 << 20
#: Endings of compressed files that are not written: what is read again by its ending would be damaged.
_UNWRITTEN = frozenset({".7z", ".bz2", ".lz4", ".xz", ".zip", ".zst"})


def suffix_of(path: Path) -> str:
    """The suffix of a file, without .gz."""
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


@contextmanager
def open_source(path: Path) -> Iterator[io.BufferedReader]:
    """The decompressed bytes of ``path``; its suffix (.gz, .xz) gives the compression.

    A gzip file without the suffix is read too: no text begins as one does. Raises DataError, on opening or while the
    block reads, also for a pointer of Git LFS.
    """
    reading.refuse_lfs_pointer(path, DataError)
    try:
        raw = reading.open_regular(path)
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
    """The lines of a stream of ``open_source``. Raises Unreadable for a line, or for lines, of too many bytes."""
    longest, most, total = raise_limit(LINE), raise_limit(STREAM), 0
    for number, line in enumerate(iter(partial(stream.readline, longest + 1), b""), 1):
        total += len(line)
        if len(line) > longest or total > most:
            check_size(len(line), LINE, f"line {number}")
            check_size(total, STREAM, "what it unpacks to")
        yield line


def read_all(stream: BinaryIO, limit: int, what: str = "it") -> bytes:
    """Return all bytes of a stream of ``open_source``. Raises Unreadable for more than ``limit``."""
    content = stream.read(raise_limit(limit) + 1)
    check_size(len(content), limit, what)
    return content


def read_document(path: Path) -> str:
    """Read the text of a file of one document. Raises DataError for one that is too large, or not in UTF-8."""
    with open_source(path) as stream:
        content = read_all(stream, DOCUMENT)
    try:
        return strip_marks(content).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path}: {error}", "full texts are in UTF-8") from None


@contextmanager
def atomic_gzip(path: Path) -> Iterator[IO[bytes]]:
    """A binary stream into ``path``, gzipped where its name ends in .gz; equal content gives equal bytes.

    Raises StorageError for the ending of another compression.
    """
    if path.suffix in _UNWRITTEN:
        raise StorageError(f"{path} would not be compressed: only .gz is", f"name it {path.with_suffix('.gz').name}")
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
    """Return the SHA-256 (hex) of a file's content without its compression."""
    with open_source(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def at(path: Path, line: int, what: str, hint: str = "") -> DataError:
    """The error of a broken line: file and 1-based line number first."""
    return DataError(f"{path}, line {line}: {what}", hint)


def lone_return(path: Path, line: int) -> DataError:
    """The error of a line with a carriage return that no line feed follows: programs differ in where the line ends."""
    return at(path, line, "has a line end of CR alone", "convert the line ends to LF, for example with tr '\\r' '\\n'")


def strip_marks(start: bytes, once: bool = False) -> bytes:
    """Return the beginning of a file without byte-order marks: a program may have put one before that of another."""
    stripped = start.removeprefix(BOM_UTF8)
    return stripped if once or stripped == start else strip_marks(stripped)


def number_lines(path: Path, keep_mark: bool = False) -> Iterator[tuple[int, str]]:
    """(number, line with its end) of a text file. Raises DataError with file and line for other bytes than UTF-8.

    keep_mark: the first line is a text, which may begin with a mark of its own; only one before it is removed.
    """
    with open_source(path) as stream:
        for number, line in enumerate(lines(stream), 1):
            try:
                text = (line if number > 1 else strip_marks(line, once=keep_mark)).decode()
            except UnicodeDecodeError:
                raise at(path, number, "is not UTF-8", "convert the file, for example with iconv") from None
            yield number, text


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, line without its end, LF or CRLF) of a text file. Raises DataError for a carriage return in a line."""
    for number, line in number_lines(path):
        text = line.rstrip("\r\n")
        if "\r" in text:
            raise lone_return(path, number)
        yield number, text


def read_texts(path: Path) -> Iterator[str]:
    """The lines of a file with one text per line; any character but the line end is part of a text."""
    return (line.removesuffix("\n").removesuffix("\r") for _, line in number_lines(path, keep_mark=True))


def parse_finite(text: str) -> float | None:
    """Return the finite number that a text is; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
