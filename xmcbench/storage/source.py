"""Digests of source code, which tell whether a result was made by the current code.

A digest covers the syntax trees of a module and of everything that it imports from its own package or folder, or from
``xmcbench.methods``, at any depth and inside functions too. Comments, docstrings, formatting, type-checking imports and
the arguments of ``raise`` are left out: a successful run does not depend on them. Packages of other authors
are listed, so that a caller can add their versions.

Two things are not seen: modules that are imported under a computed name, and data files that code reads.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

#: Modules of the harness that every result depends on: a method's input, its call, its output.
_EVERY_RESULT = ("xmcbench.texts", "xmcbench.topk", "xmcbench.runner.prediction")

#: The module name of a plug-in file starts with this.
PLUGIN_PREFIX = "xmcbench_plugin_"

#: Methods that plug-ins may build on: imports from here always count.
_METHODS = "xmcbench.methods"


class Source(NamedTuple):
    """digest: SHA-256 (hex) of the syntax trees. packages: what they import from other authors, sorted."""

    digest: str
    packages: tuple[str, ...]


def source_of(*objects: object) -> Source:
    """The source that the given modules, classes, functions or instances depend on.

    The modules that give a method its data and take its predictions are always included.
    """
    return _source(tuple(sorted({*map(_module_name, objects), *_EVERY_RESULT})))


def source_digest(method: type) -> str:
    """SHA-256 (hex) of the source of a method. A result of another source is stale."""
    return source_of(method).digest


def joined(digests: Sequence[str]) -> str:
    """The digest of several sources that a result runs through; of one it is that one."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def module_digest(*modules: str) -> str:
    """SHA-256 (hex) of the source of the named modules and of what they import from their own packages."""
    return _source(tuple(sorted(modules))).digest


@dataclass(frozen=True)
class _Package:
    """The code of one author: a package, a single module, or the folder of a plug-in file or of a script.

    prefix: the dotted name of the package or module; empty for a folder, whose modules are imported by bare names.
    root: the folder of the package, or the file of a single module.
    """

    prefix: str
    root: Path

    @classmethod
    def of(cls, module: str) -> _Package:
        """The package that a module belongs to.

        Each subpackage of xmcbench is separate, so that a change of the leaderboard is not a change of a method.
        """
        if module.startswith(PLUGIN_PREFIX) or module == "__main__":
            return cls("", _file_of(module).parent)
        parts = module.split(".")
        for length in range(2 if parts[0] == "xmcbench" else 1, len(parts) + 1):
            prefix = ".".join(parts[:length])
            spec = find_spec(prefix)
            if spec is None:
                break
            if spec.origin is not None:  # else a folder that several authors put packages into
                origin = Path(spec.origin)
                return cls(prefix, origin.parent if spec.submodule_search_locations else origin)
        raise ModuleNotFoundError(f"no source of {module}")

    def files(self, module: str) -> Iterator[tuple[str, Path]]:
        """The files that importing a module runs, by name, parents first. Empty for a foreign name."""
        if self.root.is_file():
            if module == self.prefix:
                yield module, self.root
            return
        if self.prefix and module != self.prefix and not module.startswith(f"{self.prefix}."):
            return
        parts = module.removeprefix(self.prefix).strip(".").split(".") if module != self.prefix else []
        for length in range(len(parts) + 1):
            base = self.root.joinpath(*parts[:length])
            name = ".".join(filter(None, [self.prefix, *parts[:length]]))
            found = next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)
            if not name:
                continue  # the folder of a plug-in file is not a package
            if found is not None:
                yield name, found
            elif not base.is_dir():  # a folder without __init__.py is a package too
                return  # a name inside the module before it

    def imported(self, name: str) -> bool:
        """Whether an absolute import of this name reads a file of the package."""
        first = next(self.files(name), None)
        if first is None or self.prefix:
            return first is not None
        # An installed package takes precedence over a module of the same name beside a plug-in file.
        try:
            spec = find_spec(first[0])
        except (ValueError, ModuleNotFoundError):
            spec = None
        return spec is None or spec.origin is None or Path(spec.origin).resolve() == first[1].resolve()


@dataclass(frozen=True)
class _File:
    """A parsed file. tree: SHA-256 (hex) of its syntax tree; imports: the names that it imports, absolute."""

    tree: str
    imports: tuple[str, ...]


def _module_name(thing: object) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    return str((thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)).__module__)


def _file_of(module: str) -> Path:
    file = getattr(sys.modules[module], "__file__", None)
    if file is None:
        raise ModuleNotFoundError(f"no source of {module}")
    return Path(file).resolve()


def _source(modules: tuple[str, ...]) -> Source:
    trees: dict[str, str] = {}
    foreign: set[str] = set()
    waiting: list[tuple[_Package, Iterable[tuple[str, Path]]]] = []
    for module in modules:
        package = _Package.of(module)
        # The name of a plug-in file may not be importable.
        own = _file_of(module) if not package.prefix else None
        waiting.append((package, [(own.stem, own)] if own else package.files(module)))
    while waiting:
        package, files = waiting.pop()
        for name, file in files:
            if name in trees:
                continue
            parsed = _parsed(file, name, file.stat().st_mtime_ns)
            trees[name] = parsed.tree
            for imported in parsed.imports:
                if package.imported(imported):
                    waiting.append((package, package.files(imported)))
                elif f"{imported}.".startswith(f"{_METHODS}."):
                    methods = _Package.of(_METHODS)
                    waiting.append((methods, methods.files(imported)))
                else:
                    foreign.add(imported.split(".")[0])
    digest = hashlib.sha256()
    for name in sorted(trees):
        digest.update(f"{name} {trees[name]}\n".encode())
    packages = sorted(foreign - sys.stdlib_module_names - {"xmcbench", ""})
    return Source(digest.hexdigest(), tuple(packages))


@cache
def _parsed(file: Path, name: str, _changed: int) -> _File:
    content = file.read_bytes()
    try:
        tree = _without_type_checking(ast.parse(content))
    except (SyntaxError, ValueError):  # a compiled module, or one that will not import
        return _File(hashlib.sha256(content).hexdigest(), ())
    imports = dict.fromkeys(_imports(tree, name, file.name == "__init__.py"))
    return _File(hashlib.sha256(_canonical(tree).encode()).hexdigest(), tuple(imports))


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
