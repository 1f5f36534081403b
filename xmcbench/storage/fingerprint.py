"""SHA-256 of files and folders, remembered in the cache by path, size, and times of change."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.storage.atomic import write_json
from xmcbench.storage.canonical import sha256_file, sha256_json
from xmcbench.storage.locations import cache_root
from xmcbench.storage.reading import read_text

#: A file changed less than this many seconds ago could change again within the resolution of its time stamp.
_SETTLED_S = 2.0
#: Most files, and most folders, of a folder: a model has a dozen.
_MOST_FILES = 10_000


def fingerprint(*paths: Path) -> str:
    """Return the SHA-256 (hex) of a file, or of the names and the contents of several. Raises DataError."""
    path = paths[0]
    try:
        stats = [file.stat() for file in paths]
        states = [{"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "ctime_ns": stat.st_ctime_ns} for stat in stats]
        places = [os.fsencode(file.resolve()).hex() for file in paths]
        # The digest of several covers their names too, which links have of their own.
        names = [[os.fsencode(file.name).hex(), place] for file, place in zip(paths, places, strict=True)]
        note = cache_root() / "hashes" / f"{sha256_json(names if len(paths) > 1 else places[0])[:32]}.json"
        state = states[0] if len(paths) == 1 else {"of": sha256_json(states)}
        try:
            remembered = json.loads(read_text(note))
            digest = str(remembered["sha256"])
            if remembered == _note(path, state, digest):
                return digest
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # no valid note: hash the files
        sums = {file: sha256_file(file) for file in dict.fromkeys(paths)}  # some may be given twice
        digests = [[file.name, sums[file]] for file in paths]
        digest = digests[0][1] if len(paths) == 1 else sha256_json(digests)
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"cannot read {path}: {error}") from None
    changed = max(max(stat.st_mtime, stat.st_ctime) for stat in stats)
    if time.time() - changed > _SETTLED_S:
        with suppress(StorageError):  # without a writable cache this takes longer, but works
            write_json(note, _note(path, state, digest))
    return digest


def fingerprint_folder(folder: Path) -> str:
    """Return the SHA-256 (hex) over the paths and the contents of all files below a folder, hidden ones left out.

    Raises DataError when one cannot be read, UsageError for more than 10,000 files or folders.
    """
    files: list[Path] = []
    above: dict[str, set[str]] = {}  # folder -> the real paths of it and of those that lead to it
    for parent, below, names in os.walk(folder, onerror=_refuse, followlinks=True):
        real, before = os.path.realpath(parent), above.get(os.path.dirname(parent), set())
        if real in before:  # a link to a folder above it
            below.clear()
            continue
        above[parent] = before | {real}
        below[:] = [name for name in below if not name.startswith(".")]
        shown = (os.path.join(parent, name) for name in names if not name.startswith("."))
        files += map(Path, filter(os.path.isfile, shown))
        if max(len(files), len(above)) > _MOST_FILES:
            message = f"{folder} has more than {_MOST_FILES:,} files or folders"
            raise UsageError(message, "name a folder of a single model")
    return sha256_json([[file.relative_to(folder).as_posix(), fingerprint(file)] for file in sorted(files)])


def _refuse(error: OSError) -> NoReturn:
    raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


def _note(path: Path, state: Mapping[str, object], digest: str) -> dict[str, object]:
    """Return the note on a file; ``seal`` covers the rest, so that a damaged note is not believed."""
    known = {"path": ascii(str(path.resolve())), "state": dict(state), "sha256": digest}
    return {**known, "seal": sha256_json(known)}
