"""Plain, gzip and xz files behind one binary stream, and gzip files whose bytes depend on their content only."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file

#: Decompressed bytes to read ahead, so that lines are found in C.
_BUFFER = 1 << 20


@contextmanager
def open_source(path: Path) -> Iterator[BinaryIO]:
    """The decompressed bytes of ``path``; its suffix (.gz, .xz, else plain) gives the compression.

    Raises DataError if the file is missing, unreadable, truncated or not in the format of its suffix, on opening or
    while the block reads.
    """
    try:
        raw = path.open("rb")
    except OSError as error:
        reason = "no file at" if isinstance(error, FileNotFoundError) else "cannot read"
        detail = "" if isinstance(error, FileNotFoundError) else f": {error.strerror}"
        raise DataError(f"{reason} {path}{detail}") from None
    with raw:
        try:
            yield cast(BinaryIO, io.BufferedReader(_decompressed(raw, path.suffix), _BUFFER))
        except EOFError:
            raise DataError(f"{path} is truncated", "an interrupted download? download it again") from None
        except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            kind = "gzip" if path.suffix == ".gz" else "xz"
            raise DataError(
                f"{path} is damaged or not a {kind} file: {error}",
                f"download it again, or remove the suffix {path.suffix} from a plain file",
            ) from None


def _decompressed(raw: BinaryIO, suffix: str) -> io.RawIOBase:
    if suffix == ".gz":
        return cast(io.RawIOBase, gzip.GzipFile(fileobj=raw, mode="rb"))
    return cast(io.RawIOBase, lzma.LZMAFile(raw) if suffix == ".xz" else raw)


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
