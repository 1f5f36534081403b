"""The syntax of files, remembered in the cache by their content: parsing takes most of the time of a digest."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.storage import syntax
from xmcbench.storage.atomic import write_json
from xmcbench.storage.cache import cache_root
from xmcbench.storage.canonical import sha256_json
from xmcbench.storage.reading import read_text
from xmcbench.storage.syntax import Syntax, parsed


class _Readings:
    """kept: what was read of each file, by its module; None where a new version is read again."""

    kept: dict[tuple[Path, str], Syntax] | None = None


_readings = _Readings()


def notes_folder() -> Path:
    """The folder of what is remembered of files. Nothing in it is secret, so that cells may read it."""
    return cache_root() / "sources"


def syntax_of(file: Path, name: str) -> Syntax:
    """The syntax of the file of a module, which is read again when it has changed, unless ``keep_first`` was called.

    Raises OSError when it cannot be read.
    """
    kept = _readings.kept
    if kept is None:
        return _now(file, name)
    if (file, name) not in kept:
        kept[file, name] = _now(file, name)
    return kept[file, name]


def keep_first() -> None:
    """From now on, read each file once: in a process that has imported it, a later version means nothing."""
    _readings.kept = {}


def edited(files: Collection[Path]) -> list[Path]:
    """Those of some files that were read since ``keep_first`` and are different code now."""
    return [file for (file, name), read in (_readings.kept or {}).items() if file in files and _now(file, name) != read]


def _now(file: Path, name: str) -> Syntax:
    return _syntax(file, name, file.stat().st_mtime_ns)


@cache
def _syntax(file: Path, name: str, _changed: int) -> Syntax:
    content = file.read_bytes()
    is_package = file.name == "__init__.py"
    key = hashlib.sha256(b"\0".join([_reader(), name.encode(), b"package" * is_package, content])).hexdigest()
    note = notes_folder() / f"{key[:32]}.json"
    remembered = _remembered(note)
    if remembered is None:
        remembered = parsed(content, name, is_package)
        with suppress(StorageError):  # a cell may not write there
            write_json(note, _noted(remembered))
    return remembered


@cache
def _reader() -> bytes:
    """What decides how a file is read, besides its content: the code that reads it, and the version of Python."""
    return hashlib.sha256(Path(syntax.__file__).read_bytes()).digest() + sys.version.encode()


def _remembered(note: Path) -> Syntax | None:
    try:
        document = json.loads(read_text(note))
        found = Syntax(str(document["tree"]), tuple(map(str, document["imports"])))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if document == _noted(found) else None


def _noted(found: Syntax) -> dict[str, object]:
    """What is remembered of a file; ``seal`` covers the rest, so that a damaged note is not believed."""
    known: dict[str, object] = {"tree": found.tree, "imports": list(found.imports)}
    return {**known, "seal": sha256_json(known)}
