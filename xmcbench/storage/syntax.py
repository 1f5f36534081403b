"""The syntax tree of one file: its digest, and what it imports.

Parsing takes most of the time of a digest, so results are remembered in the cache, by content.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xmcbench.errors import StorageError
from xmcbench.storage.atomic import write_json
from xmcbench.storage.cache import cache_root
from xmcbench.storage.canonical import sha256_json
from xmcbench.storage.reading import read_text


@dataclass(frozen=True)
class Syntax:
    """tree: SHA-256 (hex) of a file's syntax tree; imports: the names that it imports, absolute."""

    tree: str
    imports: tuple[str, ...]


@cache
def syntax_of(file: Path, name: str, _changed: int) -> Syntax:
    """The syntax of the file of a module. _changed: when it was written, so that a new version is read again.

    Raises OSError when it cannot be read.
    """
    content = file.read_bytes()
    is_package = file.name == "__init__.py"
    key = hashlib.sha256(b"\0".join([_reader(), name.encode(), b"package" * is_package, content])).hexdigest()
    note = cache_root() / "sources" / f"{key[:32]}.json"
    remembered = _remembered(note)
    if remembered is None:
        remembered = _parsed(content, name, is_package)
        with suppress(StorageError):  # a cell may not write there
            write_json(note, _noted(remembered))
    return remembered


@cache
def _reader() -> bytes:
    """What decides how a file is read, besides its content: this module, and the version of Python."""
    return hashlib.sha256(Path(__file__).read_bytes()).digest() + sys.version.encode()


def _remembered(note: Path) -> Syntax | None:
    try:
        document = json.loads(read_text(note))
        found = Syntax(str(document["tree"]), tuple(map(str, document["imports"])))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if document == _noted(found) else None


def _noted(syntax: Syntax) -> dict[str, object]:
    """What is remembered of a file; ``seal`` covers the rest, so that a damaged note is not believed."""
    known: dict[str, object] = {"tree": syntax.tree, "imports": list(syntax.imports)}
    return {**known, "seal": sha256_json(known)}


def _parsed(content: bytes, name: str, is_package: bool) -> Syntax:
    try:
        tree = _without_type_checking(ast.parse(content))
    except (SyntaxError, ValueError):  # a compiled module, or one that will not import
        return Syntax(hashlib.sha256(content).hexdigest(), ())
    imports = dict.fromkeys(_imports(tree, name, is_package))
    return Syntax(hashlib.sha256(_canonical(tree).encode()).hexdigest(), tuple(imports))


def _without_type_checking(tree: ast.Module) -> ast.Module:
    class Strip(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
            self.generic_visit(node)
            name = getattr(node.test, "id", None) or getattr(node.test, "attr", None)
            return node.orelse if name == "TYPE_CHECKING" else node

    stripped: ast.Module = Strip().visit(tree)
    return stripped


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


def _canonical(tree: ast.AST) -> str:
    """A syntax tree as text, equal for all versions of Python that parse it alike."""
    parts: list[str] = []
    _write(tree, parts.append)
    return "".join(parts)


def _write(node: object, write: Callable[[str], None]) -> None:
    # Not a generator: every run computes the digests of all methods, and nested generators take twice as long.
    if isinstance(node, ast.AST):
        write(f"({type(node).__name__}")
        for field in node._fields:
            value: Any = getattr(node, field, None)
            if isinstance(node, ast.JoinedStr):  # Python 3.12.1 has an empty text behind some, others have none
                value = [each for each in value if getattr(each, "value", None) != ""]
            if field in ("kind", "type_comment", "type_ignores") or value is None or value == []:
                continue
            write(f" {field}=")
            if field == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                value = value[1:] if ast.get_docstring(node, clean=False) is not None else value
            if isinstance(node, ast.Raise) and isinstance(value, ast.Call):
                value = value.func  # the message is left out
            _write(value, write)
        write(")")
    elif isinstance(node, list):
        for each in node:
            _write(each, write)
    else:
        write(f"{type(node).__name__}:{node!r}")
