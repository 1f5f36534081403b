"""Digests of source code, which tell whether a result was made by the current code.

A digest covers the syntax trees of a module and of everything that it imports from its own package or folder, or from
``xmcbench.methods``, at any depth and inside functions too. Comments, docstrings, annotations, formatting, and imports
for type checkers are left out, and so is a module or package called ``presets``: a record has every value that its cell
ran with. The content of ``files`` that a class declares counts too. Packages of other authors are listed, so that a
caller can add their versions.

Two things are not seen: modules that are imported by a call, and top-level modules that are installed beside a
method's, which count as packages of other authors.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from xmcbench.storage.canonical import sha256_file, sha256_json
from xmcbench.storage.reading import Unreadable
from xmcbench.storage.syntax import save_readings, syntax_of

#: Modules of the harness that every result depends on: a method's input, its call, its output.
_EVERY_RESULT = ("xmcbench.label_texts", "xmcbench.texts", "xmcbench.topk", "xmcbench.runner.prediction")
#: The module name of a plug-in file starts with this.
PLUGIN_PREFIX = "xmcbench_plugin_"
#: What a module beside a plug-in ends in. The digest of a compiled one is that of its bytes.
_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)
#: The name of modules and packages that hold named sets of values.
_PRESETS = "presets"
#: Methods that plug-ins may build on: imports from here always count.
_METHODS = "xmcbench.methods"


class Source(NamedTuple):
    """digest: SHA-256 (hex) of the syntax trees. packages: what they import from other authors, sorted."""

    digest: str
    packages: tuple[str, ...]


def source_of(*objects: object) -> Source:
    """Return the source that the given modules, classes, functions or instances depend on.

    The modules that give a method its data and take its predictions are always included. Raises OSError for a declared
    file that cannot be read.
    """
    return Sources().of(*objects)


def join_digests(digests: Sequence[str], parts: str = "[]") -> str:
    """Return the digest of the sources that a result runs through; of a single one, its own digest.

    parts: the parameters of all but the first, which a preset may decide, as a list in canonical JSON: no record and no
    source has them.
    """
    if len(digests) == 1:
        return digests[0]
    # Canonical JSON of both, written out: a board joins tens of thousands of combinations.
    listed = '","'.join(digests)
    return hashlib.sha256(f'[["{listed}"],{parts}]'.encode()).hexdigest()


def modules_digest(*modules: str) -> str:
    """Return the SHA-256 (hex) of the source of the named modules, without the modules that they import."""
    found = {name: list(_Package.of(name).files(name))[-1][1] for name in modules}
    return sha256_json({name: syntax_of(file, name).tree for name, file in found.items()})


def plugin_files(plugin: Path) -> list[Path]:
    """Return a plug-in file, and the files that it imports from its own folder, at any depth. Raises OSError."""
    return [*_imports_of_plugin(plugin)]


def shadowed_files(plugin: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files beside a plug-in file that it names in an import for which Python takes another file, and that
    one. Raises OSError."""
    package = _Package("", plugin.parent)
    for imported in dict.fromkeys(chain.from_iterable(_imports_of_plugin(plugin).values())):
        for module, file in tuple(package.files(imported))[:1]:
            if other := _find_other(module, file):
                yield file, other


def _imports_of_plugin(plugin: Path) -> dict[Path, tuple[str, ...]]:
    """Return the ``plugin_files``, with the names that each imports."""
    package = _Package("", plugin.parent)
    found: dict[Path, tuple[str, ...]] = {}
    waiting = [(plugin.stem, plugin)]
    while waiting:
        name, file = waiting.pop()
        if file not in found:
            found[file] = syntax_of(file, name).imports
            for imported in found[file]:
                waiting += package.files_of_import(imported)
    return found


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
        """Return the package that a module belongs to; the subpackages of xmcbench are separate."""
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
        """Yield the files that importing a module runs, by name, parents first. Empty for a foreign name."""
        if self.root.is_file():
            if module == self.prefix:
                yield module, self.root
            return
        if self.prefix and module != self.prefix and not module.startswith(f"{self.prefix}."):
            return
        parts = module.removeprefix(self.prefix).strip(".").split(".") if module != self.prefix else []
        for length in range(len(parts) + 1):
            # Strings: thousands of paths are looked at for a plan.
            base = os.path.join(self.root, *parts[:length])
            name = ".".join(filter(None, [self.prefix, *parts[:length]]))
            if not name:
                continue  # the folder of a plug-in file is not a package
            # In the order of Python's finder: a compiled module comes before a source of the same name.
            names = (os.path.join(base, "__init__.py"), *(f"{base}{suffix}" for suffix in _SUFFIXES))
            found = next(filter(os.path.isfile, names), None)
            if found is not None:
                yield name, Path(found)
            elif not os.path.isdir(base):  # a folder without __init__.py is a package too
                return  # a name inside the module before it

    def files_of_import(self, name: str) -> tuple[tuple[str, Path], ...]:
        """Return the files of the package that an absolute import of this name runs; none for code of other authors."""
        files = tuple(self.files(name))
        if not files or self.prefix:
            return files
        # An installed package takes precedence over a module of the same name beside a plug-in file.
        return () if _find_other(*files[0]) else files


def _find_other(module: str, file: Path) -> Path | None:
    """Return the file that Python imports under the name of a module, if it is not that one."""
    try:
        spec = find_spec(module)
    except (ValueError, ModuleNotFoundError):
        return None
    if spec is None or spec.origin is None or Path(spec.origin).resolve() == file.resolve():
        return None
    return Path(spec.origin)


#: A package, and the files of it that an import runs, by name.
_Import = tuple[_Package, tuple[tuple[str, Path], ...]]


class _Module(NamedTuple):
    """tree: the digest of its syntax tree. imports: of its package and of methods. foreign: the packages of others."""

    tree: str
    imports: tuple[_Import, ...]
    foreign: frozenset[str]


def _module_name(thing: object) -> str:
    while isinstance(thing, partial):
        thing = thing.func
    if isinstance(thing, ModuleType):
        return thing.__name__
    return str((thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)).__module__)


def _list_declared(thing: object) -> Iterator[tuple[str, str]]:
    """Yield the files that a class, or that of an instance, declares in ``files``: as written, and their SHA-256."""
    for cls in (thing if inspect.isclass(thing) else type(thing)).__mro__:
        declared = vars(cls).get("files")
        for name in declared if isinstance(declared, tuple | list) else ():
            path = _file_of(cls.__module__).parent / Path(name).expanduser()
            try:
                yield name, sha256_file(path)
            except Unreadable:
                raise OSError(errno.EINVAL, "not a regular file", str(path)) from None


def _file_of(module: str) -> Path:
    file = getattr(sys.modules[module], "__file__", None)
    if file is None:
        raise ModuleNotFoundError(f"no source of {module}")
    return Path(file).resolve()


class Sources:
    """The sources of several objects. A module, and what an import runs, is read once, on first use."""

    def __init__(self) -> None:
        self._modules: dict[tuple[_Package, Path], _Module] = {}
        self._imports: dict[tuple[_Package, str], _Import | None] = {}

    def of(self, *objects: object) -> Source:
        """Return what ``source_of`` returns for them."""
        source = self.of_modules(*map(_module_name, objects), *_EVERY_RESULT)
        files = {name: sha256 for declaring in objects for name, sha256 in _list_declared(declaring)}
        return source._replace(digest=sha256_json([source.digest, files])) if files else source

    def of_modules(self, *modules: str) -> Source:
        """Return the source that the named modules depend on."""
        trees: dict[str, str] = {}
        foreign: set[str] = set()
        waiting: list[_Import] = []
        for module in sorted({*modules}):
            package = _Package.of(module)
            # The name of a plug-in file may not be importable.
            own = _file_of(module) if not package.prefix else None
            waiting.append((package, ((own.stem, own),) if own else tuple(package.files(module))))
        while waiting:
            package, files = waiting.pop()
            for name, file in files:
                if name not in trees and _PRESETS not in name.split("."):
                    read = self._module(package, name, file)
                    trees[name] = read.tree
                    waiting += read.imports
                    foreign |= read.foreign
        save_readings()
        digest = hashlib.sha256()
        for name in sorted(trees):
            digest.update(f"{name} {trees[name]}\n".encode())
        packages = sorted(foreign - sys.stdlib_module_names - {"xmcbench", ""})
        return Source(digest.hexdigest(), tuple(packages))

    def _module(self, package: _Package, name: str, file: Path) -> _Module:
        if (package, file) not in self._modules:
            parsed = syntax_of(file, name)
            found = {imported: self._resolve(package, imported) for imported in parsed.imports}
            foreign = frozenset(imported.split(".")[0] for imported, files in found.items() if files is None)
            self._modules[package, file] = _Module(parsed.tree, tuple(filter(None, found.values())), foreign)
        return self._modules[package, file]

    def _resolve(self, package: _Package, imported: str) -> _Import | None:
        """Return the files that an import in this package runs; None for code of other authors."""
        if (package, imported) not in self._imports:
            found = None
            if files := package.files_of_import(imported):
                found = package, files
            elif f"{imported}.".startswith(f"{_METHODS}."):
                methods = _Package.of(_METHODS)
                found = methods, tuple(methods.files(imported))
            self._imports[package, imported] = found
        return self._imports[package, imported]
