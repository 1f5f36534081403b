"""The syntax tree of one file: its digest, and what it imports."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

#: Attributes of the class of a method that no result depends on: a cell has every value that it runs with.
_NAMED_VALUES = ("presets", "ablation", "choices")


#: Calls inside each other while a tree is read.
_DEEPEST = 20_000


@dataclass(frozen=True)
class Syntax:
    """tree: SHA-256 (hex) of a file's syntax tree; imports: the names that it imports, absolute."""

    tree: str
    imports: tuple[str, ...]


def parsed(content: bytes, name: str, is_package: bool) -> Syntax:
    """The syntax of the source of a module. name: of the module; is_package: whether it is an ``__init__.py``."""
    try:
        with _recursion(_DEEPEST):
            tree = ast.parse(content)
            tree = _Strip("xmcbench.Doc" in _imports(tree, name, is_package)).visit(tree)
            _leave_out_named_values(tree)
            imports = dict.fromkeys(_imports(tree, name, is_package))
            return Syntax(hashlib.sha256(_canonical(tree).encode()).hexdigest(), tuple(imports))
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


class _Strip(ast.NodeTransformer):
    """Removes imports for type checkers and descriptions of parameters."""

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


def _methods(tree: ast.Module) -> list[ast.ClassDef]:
    """The classes of methods: derived from ``Method``, or from what a method that ships with xmcbench defines."""
    bases, found = {"xmcbench.Method"}, []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            shipped = node.module.startswith("xmcbench.methods")
            own = {"Method"} if node.module in ("xmcbench", "xmcbench.method") else set()
            bases |= {_bound(alias) for alias in node.names if shipped or alias.name in own}
        elif isinstance(node, ast.ClassDef) and not bases.isdisjoint(map(ast.unparse, node.bases)):
            bases.add(node.name)
            found.append(node)
    return found


def _leave_out_named_values(tree: ast.Module) -> None:
    """Remove the attributes of methods that name sets of values, and what the module has for them alone.

    That is: imports, and names with a leading underscore, which other modules do not import. An attribute that the
    module itself reads remains, and so does a function of such a name.
    """
    classes = _methods(tree)
    named = [
        each
        for node in classes
        for each in node.body
        if _target(each) in _NAMED_VALUES and not isinstance(each, ast.FunctionDef)
    ]
    read = _read(tree, but=named)
    removed = [each for each in named if _target(each) not in read]
    if not removed:
        return
    for node in classes:
        node.body = [each for each in node.body if each not in removed]
    while dead := _defining(tree, {name for name in _orphans(tree, removed) if name.startswith("_")}):
        removed += dead
        tree.body = [each for each in tree.body if each not in dead]
    orphans = _orphans(tree, removed)
    for each in tree.body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            each.names = [alias for alias in each.names if _bound(alias) not in orphans]
    tree.body = [each for each in tree.body if not isinstance(each, ast.Import | ast.ImportFrom) or each.names]


def _orphans(tree: ast.Module, removed: Iterable[ast.AST]) -> set[str]:
    """The names that only removed statements read."""
    return set().union(*map(_read, removed)) - _read(tree)


def _defining(tree: ast.Module, names: Collection[str]) -> list[ast.stmt]:
    """The statements of a module that define one of these names."""
    return [each for each in tree.body if _target(each) in names]


def _bound(alias: ast.alias) -> str:
    """The name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def _target(statement: ast.stmt) -> str | None:
    """The one name that a statement defines: by an assignment, or as a function."""
    match statement:
        case ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]) | ast.FunctionDef(name=name):
            return name
    return None


def _read(tree: ast.AST, but: Iterable[ast.AST] = ()) -> set[str]:
    """The names and attributes that are read in a tree, outside some parts of it."""
    left_out = {id(inner) for each in but for inner in ast.walk(each)}
    nodes = [node for node in ast.walk(tree) if id(node) not in left_out]
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


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
