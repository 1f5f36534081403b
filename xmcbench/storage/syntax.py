"""The syntax tree of one file: its digest, and what it imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Syntax:
    """tree: SHA-256 (hex) of a file's syntax tree; imports: the names that it imports, absolute."""

    tree: str
    imports: tuple[str, ...]


def parsed(content: bytes, name: str, is_package: bool) -> Syntax:
    """The syntax of the source of a module. name: of the module; is_package: whether it is an ``__init__.py``."""
    try:
        tree = ast.parse(content)
        tree = _Strip("xmcbench.Doc" in _imports(tree, name, is_package)).visit(tree)
    except (SyntaxError, ValueError):  # a compiled module, or one that will not import
        return Syntax(hashlib.sha256(content).hexdigest(), ())
    imports = dict.fromkeys(_imports(tree, name, is_package))
    return Syntax(hashlib.sha256(_canonical(tree).encode()).hexdigest(), tuple(imports))


class _Strip(ast.NodeTransformer):
    """Removes what no result depends on: imports for type checkers, descriptions of parameters, and ``choices``."""

    def __init__(self, documented: bool) -> None:
        self._documented = documented

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        name = getattr(node.test, "id", None) or getattr(node.test, "attr", None)
        return node.orelse if name == "TYPE_CHECKING" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self._documented and getattr(node.func, "id", None) == "Doc":
            node.args = []  # its text; a keyword may be part of what a cell is
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.body = [each for each in node.body if not _says_choices(each)]
        return node


def _says_choices(statement: ast.stmt) -> bool:
    """Whether this is the attribute of a method that says where the values of its presets come from, all as text."""
    match statement:
        case ast.AnnAssign(target=ast.Name("choices"), value=ast.Dict() as said):
            pass
        case ast.Assign(targets=[ast.Name("choices")], value=ast.Dict() as said):
            pass
        case _:
            return False
    return all(isinstance(each, ast.Constant) for each in (*said.keys, *said.values))


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
