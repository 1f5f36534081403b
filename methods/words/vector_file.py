"""Word vectors from files in the formats of GloVe and word2vec (read by gensim); nothing here unpickles."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Collection
from contextlib import redirect_stdout
from io import BufferedReader
from itertools import islice
from pathlib import Path

import numpy as np

from xmcbench import Unavailable, UsageError

#: Longer than the first line of any file of vectors; another binary file may have no line end at all.
_LINE = 1_000_000
_FORMATS = "GloVe text or word2vec text or binary, plain or .gz"


def read(
    path: Path, max_words: int | None = None, wanted: Collection[str] | None = None
) -> tuple[list[str], np.ndarray]:
    """The first ``max_words`` words of a file, those that are wanted, and their vectors, float32 [words, d].

    The format is detected: a first line of two numbers is word2vec's (text or binary), one of a word and at least two
    numbers is GloVe's. Raises UsageError if the file is missing, in another format, damaged or not finite.
    """
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused below
            words, vectors = _read(path, max_words, wanted)
    # gensim raises different errors, depending on the damage.
    except (ValueError, EOFError, OSError, zlib.error, AssertionError, IndexError, MemoryError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"{path} is not a file of word vectors: {reason}",
            f"formats: {_FORMATS}; `xmcbench ls methods NAME` says which names a method takes instead of a file",
        ) from error
    if not np.isfinite(vectors).all():
        word = words[int((~np.isfinite(vectors).all(axis=1)).argmax())]
        raise UsageError(f"the vector of {word!r} in {path} is not finite")
    return words, vectors


def _read(path: Path, max_words: int | None, wanted: Collection[str] | None) -> tuple[list[str], np.ndarray]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as stream:
        first, second = stream.readline(_LINE).split(), stream.readline(_LINE).split()
    if len(first) == 2 and all(field.isdigit() for field in first):
        binary = not (len(second) == int(first[1]) + 1 and _numbers(second[1:]))
        words, vectors = _word2vec(path, binary, max_words)
        found = {place: word for place, word in enumerate(words) if word is not None}
        kept = {place: word for place, word in found.items() if wanted is None or word in wanted}
        return list(kept.values()), vectors[list(kept)]
    if len(first) > 2 and _numbers(first[1:]):
        with opened(path, "rb") as stream:
            return _glove(stream, len(first) - 1, max_words, wanted)
    raise ValueError("its first line is neither 'words dimensions' nor a word with its vector")


def _numbers(fields: list[bytes]) -> bool:
    try:
        return all(isinstance(float(field), float) for field in fields)
    except ValueError:
        return False


def _glove(
    stream: gzip.GzipFile | BufferedReader, dimensions: int, max_words: int | None, wanted: Collection[str] | None
) -> tuple[list[str], np.ndarray]:
    """GloVe's text format, which has no header; in some published files (840B) a word holds spaces."""
    vectors: dict[str, np.ndarray] = {}
    for number, line in enumerate(islice(iter(lambda: stream.readline(_LINE), b""), max_words), 1):
        if not line.strip():
            continue
        word, *values = line.rstrip().rsplit(None, dimensions)
        if len(values) != dimensions or not _numbers(values):
            raise ValueError(f"line {number} is not a word and {dimensions} numbers")
        name = word.decode(errors="replace")
        if wanted is None or name in wanted:
            vectors.setdefault(name, np.array(values, np.float32))
    return list(vectors), np.array(list(vectors.values()), np.float32).reshape(len(vectors), dimensions)


def _word2vec(path: Path, binary: bool, max_words: int | None) -> tuple[list[str | None], np.ndarray]:
    """The words of the file, with None for each that was there before, and their vectors."""
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        raise Unavailable("word vectors in word2vec's format need gensim", "pip install gensim") from None
    # Some published binary files break a word within a character.
    found = KeyedVectors.load_word2vec_format(str(path), binary=binary, limit=max_words, unicode_errors="replace")
    if not len(found) or not found.vector_size:
        raise ValueError("it holds no vector")
    return list(found.index_to_key), np.asarray(found.vectors, np.float32)


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
    folder = Path(os.environ.get("GENSIM_DATA_DIR", "~/gensim-data")).expanduser()
    return folder / name / f"{name}.gz"


def downloaded(name: str) -> Path:
    """The file of vectors of this name from gensim-data, downloaded if missing (gensim verifies the checksum).

    Only the path is requested: gensim would otherwise run the Python file that comes with the data. Raises
    Unavailable if the network is needed and missing, UsageError for an unknown name.
    """
    try:
        import gensim.downloader
    except ImportError:
        raise Unavailable("downloading word vectors needs gensim", "pip install gensim") from None
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
