"""The syntax of source files: a digest that comments, docstrings, annotations and formatting do not change."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Calls inside each other while a tree is read.
_DEEPEST = 20_000
#: Fields of a node that no result depends on.
_LEFT_OUT = ("annotation", "returns", "kind", "type_comment", "type_ignores")


class Syntax(NamedTuple):
    """tree: SHA-256 (hex) of a file's normalized syntax tree. imports: the names that it imports, absolute."""

    tree: str
    imports: tuple[str, ...]


class _Readings:
    """kept: the first reading of each file, by its module; None where a new version is read again."""

    kept: dict[tuple[Path, str], Syntax] | None = None


_readings = _Readings()


def syntax_of(file: Path, name: str) -> Syntax:
    """Return the syntax of the file of a module, read again when it has changed, unless ``keep_first`` was called.

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
    """Return the files that were read since ``keep_first`` and are different code now."""
    return [file for (file, name), read in (_readings.kept or {}).items() if file in files and _now(file, name) != read]


def _now(file: Path, name: str) -> Syntax:
    return _syntax(file, name, file.stat().st_mtime_ns)


@cache
def _syntax(file: Path, name: str, _changed: int) -> Syntax:
    return parsed(file.read_bytes(), name, file.name == "__init__.py")


def parsed(content: bytes, name: str, is_package: bool) -> Syntax:
    """Return the syntax of the source of a module. name: of the module. is_package: for an ``__init__.py``."""
    try:
        with _recursion(_DEEPEST):
            tree = _WithoutTypeChecking().visit(ast.parse(content))
            parts: list[str] = []
            _write(tree, parts.append)
            imports = dict.fromkeys(_imports(tree, name, is_package))
            return Syntax(hashlib.sha256("".join(parts).encode()).hexdigest(), tuple(imports))
    except (SyntaxError, ValueError, RecursionError):  # a compiled module, or one that will not import
        return Syntax(hashlib.sha256(content).hexdigest(), ())


@contextmanager
def _recursion(limit: int) -> Iterator[None]:
    """Allow deep recursion for a block: a long chain of ``elif`` is a deep tree that Python itself compiles."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class _WithoutTypeChecking(ast.NodeTransformer):
    """Removes what only type checkers import."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        name = getattr(node.test, "id", None) or getattr(node.test, "attr", None)
        return node.orelse if name == "TYPE_CHECKING" else node


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            named = node.module or ""
            if node.level:
                levels = node.level - is_package  # in a package `.` is the package itself
                named = f"{module.rsplit('.', levels)[0] if levels else module}.{named}".rstrip(".")
            yield named
            # `from package import module` names a module in the second half, `from module import name` does not.
            yield from (f"{named}.{alias.name}" for alias in node.names)


def _write(node: object, write: Callable[[str], None]) -> None:
    """Write a syntax tree as text that is equal for all versions of Python that parse it alike."""
    # Not a generator: every run computes the digests of all methods, and nested generators take twice as long.
    if isinstance(node, ast.AST):
        write(f"({type(node).__name__}")
        for field in node._fields:
            value: Any = getattr(node, field, None)
            if isinstance(node, ast.JoinedStr):  # Python 3.12.1 has an empty text behind some, others have none
                value = [part for part in value if getattr(part, "value", None) != ""]
            if field in _LEFT_OUT or value is None or value == []:
                continue
            write(f" {field}=")
            if field == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                value = value[1:] if ast.get_docstring(node, clean=False) is not None else value
            _write(value, write)
        write(")")
    elif isinstance(node, list):
        for inner in node:
            _write(inner, write)
    else:
        write(f"{type(node).__name__}:{node!r}")
