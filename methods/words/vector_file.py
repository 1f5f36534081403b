"""Word vectors from files in the formats of GloVe and word2vec; nothing here unpickles."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterator
from contextlib import redirect_stdout
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xmcbench import Unavailable, UsageError, installation, refuse_lfs_pointer

#: Longer than any line of a file of vectors; another binary file may have no line end at all.
_LINE = 1_000_000
#: Bytes by which binary is told from text, and of a binary file that are read at a time.
_SAMPLE, _CHUNK = 1 << 16, 1 << 20
#: What no text holds.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_FORMATS = "GloVe text or word2vec text or binary, plain or .gz"

_Stream = gzip.GzipFile | BufferedReader


class _Record(NamedTuple):
    """A word, its vector as float32, and its place in the file, for messages."""

    word: str
    vector: np.ndarray
    place: str


def read(
    path: Path, max_words: int | None = None, wanted: Collection[str] | None = None
) -> tuple[list[str], np.ndarray]:
    """Return the first ``max_words`` words of a file, those that are wanted, and their vectors, float32 [words, d]. The
    format is detected: a first line of two numbers is word2vec's, one of a word and at least two numbers is GloVe's. A
    word that comes again is left out. Raises UsageError, with the line, if the file is missing, in another format,
    damaged or not finite, and Unavailable for a pointer of Git LFS."""
    refuse_lfs_pointer(path)
    words: dict[str, None] = {}
    values = bytearray()
    try:
        with _open_stream(path) as stream:
            dimensions, records = _records(stream, max_words)
            for record in records:
                if not np.isfinite(record.vector).all():
                    raise ValueError(f"{record.place}: the vector of {record.word!r} is not finite")
                if record.word not in words and (wanted is None or record.word in wanted):
                    words[record.word] = None
                    values += record.vector.tobytes()
    except (ValueError, EOFError, OSError, zlib.error, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"{path} is not a file of word vectors: {reason}",
            f"formats: {_FORMATS}; `xmcbench ls methods NAME` says which names a method takes instead of a file",
        ) from error
    vectors = np.frombuffer(values, np.float32) if words else np.empty(0, np.float32)
    return list(words), vectors.reshape(len(words), dimensions)


def _open_stream(path: Path) -> _Stream:
    with path.open("rb") as stream:
        compressed = path.suffix == ".gz" or stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if compressed else path.open("rb")


def _records(stream: _Stream, most: int | None) -> tuple[int, Iterator[_Record]]:
    """Return the number of dimensions and the first ``most`` records of a file. Raises ValueError."""
    first = stream.readline(_LINE).removeprefix(codecs.BOM_UTF8)
    fields, rest = first.split(), iter(lambda: stream.readline(_LINE), b"")
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        count, dimensions = map(int, fields)
        if not count or not 0 < dimensions < _LINE:
            raise ValueError(f"line 1 says {count} words of {dimensions} numbers")
        if _is_binary(stream, dimensions):
            return dimensions, _binary(stream, count, dimensions, most)
        return dimensions, _text(rest, count, dimensions, most)
    if len(fields) > 2 and _numbers(fields[1:]) is not None:
        return len(fields) - 1, _text(chain([first], rest), None, len(fields) - 1, most)
    raise ValueError("line 1 is neither 'words dimensions' nor a word with its vector")


def _is_binary(stream: _Stream, dimensions: int) -> bool:
    """Return whether binary vectors follow, not lines of text; the stream stays at its place. Where the next line is a
    word with its vector, it is text. Else, bytes of float32 are soon no text, and what is not certainly binary is
    refused with its line."""
    start = stream.tell()
    line = stream.readline(_LINE)
    stream.seek(start)
    sample = stream.read(_SAMPLE)
    stream.seek(start)
    return _vector(line, dimensions) is None and (_CONTROL.search(sample) is not None or not _is_utf8(sample))


def _is_utf8(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _numbers(fields: list[bytes]) -> np.ndarray | None:
    """Return numbers as float32, infinite where they are beyond it; None if one of the fields is no number."""
    if any(b"_" in field for field in fields):  # Python reads 1_0 as 10
        return None
    try:
        with np.errstate(over="ignore"):
            return np.array([float(field) for field in fields], np.float32)
    except ValueError:
        return None


def _vector(line: bytes, dimensions: int) -> tuple[bytes, np.ndarray] | None:
    """Return the word of a line and its vector; None if the line is not a word and so many numbers. The word may hold
    spaces, unless a number is behind the last one: that is a vector of another length."""
    word, *fields = line.rstrip().rsplit(None, dimensions) or [b""]
    vector = _numbers(fields) if len(fields) == dimensions else None
    parts = word.split()
    if vector is None or not parts or (len(parts) > 1 and _numbers(parts[-1:]) is not None):
        return None
    return word, vector


def _text(lines: Iterator[bytes], count: int | None, dimensions: int, most: int | None) -> Iterator[_Record]:
    """Yield the records of a text format. count: the words that the header of word2vec's format states; None for
    GloVe's, which has no header, and in some of whose published files (840B) a word holds spaces."""
    read, said = 0, "is" if count is None else "says"
    for number, line in enumerate(lines, 1 if count is None else 2):
        if read == most:
            return
        if not line.strip():
            continue
        found = _vector(line, dimensions)
        if found is None or (count is not None and len(found[0].split()) > 1):
            raise ValueError(f"line {number} is not a word and {dimensions} numbers, as line 1 {said}")
        read += 1
        if count is not None and read > count:
            raise ValueError(f"line {number} is a word more than the {count} that line 1 says")
        yield _Record(found[0].decode(errors="replace"), found[1], f"line {number}")
    if count is not None and read < count and read != most:
        raise ValueError(f"it ends after {read} of the {count} words that line 1 says")


def _binary(stream: _Stream, count: int, dimensions: int, most: int | None) -> Iterator[_Record]:
    """word2vec's binary format, a header and each word, a space and its vector; some files have line ends between. The
    records are followed to the end of the file, ``most`` or not: they are only right if the last one ends there."""
    why = f"it is read as binary, since line 2 is not a word and {dimensions} numbers, but"
    data, at, size = b"", 0, 4 * dimensions
    for number in range(1, count + 1):
        while (space := data.find(b" ", at)) < 0 or len(data) - space - 1 < size:
            more = stream.read(_CHUNK)
            if not more or (space < 0 and len(data) - at > _LINE):
                raise ValueError(f"{why} word {number} of {count} has no vector")
            data, at = data[at:] + more, 0
        word = data[at:space].lstrip(b"\n")
        if b"\n" in word:
            raise ValueError(f"{why} word {number} of {count} holds a line end")
        if most is None or number <= most:
            # Some published files break a word within a character.
            vector = np.frombuffer(data, "<f4", dimensions, space + 1)
            yield _Record(word.decode(errors="replace"), vector, f"word {number}")
        at = space + 1 + size
    if (data[at:] + stream.read(_CHUNK)).strip():
        raise ValueError(f"{why} more than the {count} words that line 1 says follow")


def sha256(path: Path) -> str:
    """SHA-256 (hex) of a file. Raises UsageError if it cannot be read."""
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise UsageError(f"{path} is not a file of word vectors", f"formats: {_FORMATS}")
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read the word vectors {path}: {reason}", f"formats: {_FORMATS}") from error


def download_path(name: str) -> Path:
    """Return the path at which gensim keeps vectors that it has downloaded."""
    folder = os.path.expanduser(os.environ.get("GENSIM_DATA_DIR", "~/gensim-data"))
    return Path(folder) / name / f"{name}.gz"


def download(name: str) -> Path:
    """The file of vectors of this name from gensim-data, downloaded if missing (gensim verifies the checksum). Only the
    path is requested: gensim would otherwise run the Python file that comes with the data. Raises Unavailable if the
    network is needed and missing, UsageError for an unknown name."""
    try:
        import gensim.downloader
    except ImportError:
        raise Unavailable(
            "downloading word vectors needs gensim", f"{installation('gensim')}; or give the path of a file"
        ) from None
    try:
        with redirect_stdout(sys.stderr):  # its progress bar
            known = gensim.downloader.info()["models"]
            if name not in known:
                raise UsageError(f"gensim has no word vectors {name!r}", f"known: {', '.join(sorted(known))}")
            return Path(gensim.downloader.load(name, return_path=True))
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: no network and no cached list
        raise Unavailable(
            f"cannot download the word vectors {name!r}: {error}",
            f"on a machine with a network: python -m gensim.downloader --download {name}; or give a path",
        ) from error
