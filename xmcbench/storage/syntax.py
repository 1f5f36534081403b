"""The syntax of source files: a digest that comments, docstrings, annotations and formatting do not change.

Parsing the hundred modules of the methods takes a quarter of a second, so readings are remembered in the cache, by the
content of the file.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from xmcbench.errors import StorageError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.locations import cache_root
from xmcbench.storage.reading import Unreadable, read_bytes

#: Calls inside each other while a tree is read.
_DEEPEST = 20_000
#: Fields of a node that no result depends on.
_LEFT_OUT = ("annotation", "returns", "kind", "type_comment", "type_ignores")
#: Nodes that may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Most readings that are remembered.
_MOST = 2_000


class Syntax(NamedTuple):
    """tree: SHA-256 (hex) of a file's normalized syntax tree. imports: the names that it imports, absolute."""

    tree: str
    imports: tuple[str, ...]


class _Readings:
    """kept: the first reading of each file, by its module; None where a new version is read again."""

    kept: dict[tuple[Path, str], Syntax] | None = None


_readings = _Readings()


def syntax_of(file: Path, name: str) -> Syntax:
    """Return the syntax of a module's file, read again when it changes, unless ``keep_first`` was called."""
    kept = _readings.kept
    if kept is None:
        return _now(file, name)
    if (file, name) not in kept:
        kept[file, name] = _now(file, name)
    return kept[file, name]


def keep_first() -> None:
    """From now on, read each file once: in a process that has imported it, a later version means nothing."""
    _readings.kept = {}
    _memory(cache_root())  # before the cache is hidden from the cell


def find_edited(files: Collection[Path]) -> list[Path]:
    """Return the files that were read since ``keep_first`` and are different code now."""
    return [file for (file, name), read in (_readings.kept or {}).items() if file in files and _now(file, name) != read]


def _now(file: Path, name: str) -> Syntax:
    return _syntax(file, name, file.stat().st_mtime_ns)


@cache
def _syntax(file: Path, name: str, _changed: int) -> Syntax:
    return _memory(cache_root()).syntax(file.read_bytes(), name, file.name == "__init__.py")


class _Memory:
    """The readings of earlier processes, by the SHA-256 of all that they depend on."""

    def __init__(self, cache: Path) -> None:
        self._file = cache / "syntax.json"
        self._known: dict[str, Syntax] = {}
        self._is_changed, self._is_hidden = False, False
        try:
            self._known = msgspec.json.decode(read_bytes(self._file), type=dict[str, Syntax])
        except (FileNotFoundError, Unreadable, ValueError, msgspec.MsgspecError):
            pass  # none yet, or damaged
        except OSError:
            self._is_hidden = True  # as from a cell, which must not replace what it cannot read

    def syntax(self, content: bytes, name: str, is_package: bool) -> Syntax:
        """Return the syntax of a module with this content."""
        key = hashlib.sha256(b"\0".join([_reader(), name.encode(), b"%d" % is_package, content])).hexdigest()
        if key not in self._known:
            self._known[key] = _parse(content, name, is_package)
            self._is_changed = True
        return self._known[key]

    def save(self) -> None:
        """Write new readings to the cache, where that is possible; the oldest ones go where there are many."""
        if self._is_changed and not self._is_hidden:
            self._is_changed = False
            with suppress(StorageError), atomic_file(self._file) as stream:
                stream.write(msgspec.json.encode(dict([*self._known.items()][-_MOST:])))


_memory = cache(_Memory)


@cache
def _reader() -> bytes:
    """Return what reads syntax here: the version of Python, which may reject a file, and this module."""
    return repr(sys.version_info[:2]).encode() + hashlib.sha256(Path(__file__).read_bytes()).digest()


def save_readings() -> None:
    """Remember what was read, for later processes."""
    _memory(cache_root()).save()


def _parse(content: bytes, name: str, is_package: bool) -> Syntax:
    """Return the syntax of the source of a module. name: of the module. is_package: for an ``__init__.py``."""
    before = sys.getrecursionlimit()
    try:
        # A long chain of `elif` is a deep tree that Python itself compiles.
        sys.setrecursionlimit(max(before, _DEEPEST))
        reading = _Reading(name, is_package)
        reading.read(ast.parse(content))
        return Syntax(hashlib.sha256("".join(reading.parts).encode()).hexdigest(), tuple(reading.imports))
    except (SyntaxError, ValueError, RecursionError):  # a compiled module, or one that will not import
        return Syntax(hashlib.sha256(content).hexdigest(), ())
    finally:
        sys.setrecursionlimit(before)


class _Reading:
    """A syntax tree as text that is equal for all versions of Python that parse it alike, and the names it imports."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.parts: list[str] = []
        self.imports: dict[str, None] = {}
        self._module, self._is_package = module, is_package

    def read(self, node: object) -> None:
        """Add a node, a list of nodes, or a value."""
        # Not a generator: every run computes the digests of all methods, and nested generators take twice as long.
        if isinstance(node, ast.AST):
            self.parts.append(f"({type(node).__name__}")
            for field in node._fields:
                value: Any = getattr(node, field, None)
                if field in _LEFT_OUT or value is None:
                    continue
                if isinstance(value, list):
                    value = _without_typing(node, value)
                    if not value:
                        continue
                self.parts.append(f" {field}=")
                has_docstring = isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
                self.read(value[1:] if field == "body" and has_docstring else value)
            self.parts.append(")")
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports |= dict.fromkeys(self._imports_of(node))
        elif isinstance(node, list):
            for inner in node:
                self.read(inner)
        else:
            self.parts.append(f"{type(node).__name__}:{node!r}")

    def _imports_of(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            return
        named = node.module or ""
        if node.level:
            levels = node.level - self._is_package  # in a package `.` is the package itself
            named = f"{self._module.rsplit('.', levels)[0] if levels else self._module}.{named}".rstrip(".")
        yield named
        # `from package import module` names a module in the second half, `from module import name` does not.
        yield from (f"{named}.{alias.name}" for alias in node.names)


def _without_typing(node: ast.AST, nodes: list[Any]) -> list[Any]:
    """Return the nodes of a list in a node, without imports for type checkers."""
    if isinstance(node, ast.JoinedStr):  # Python 3.12.1 has an empty text behind some, others have none
        return [part for part in nodes if getattr(part, "value", None) != ""]
    kept: list[Any] = []
    for inner in nodes:
        tested = inner.test if isinstance(inner, ast.If) else None
        name = getattr(tested, "id", None) or getattr(tested, "attr", None)
        kept += _without_typing(inner, inner.orelse) if name == "TYPE_CHECKING" else [inner]
    return kept
