"""Import of methods, from installed packages and from plug-in files.

Only a separate process does that, because an import can end, hang or break its process. The run itself has
descriptions (``xmcbench.plugins.registry``).
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import inspect
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

from xmcbench.errors import PluginError, UnknownName, UsageError, XmcbenchError, summarize
from xmcbench.method import Method
from xmcbench.plugins.description import GROUP, Description, contract_problem
from xmcbench.storage.source import PLUGIN_PREFIX, shadowed_files

#: Plug-in files that are being imported.
_IMPORTING: list[Path] = []
#: The source of each plug-in file that ``import_file`` has imported, by the name of its module.
_SOURCES: dict[str, bytes] = {}
#: Folders of plug-in files, whose modules are imported from source.
_FOLDERS: list[Path] = []


@dataclass(frozen=True)
class Imported:
    """A method by name: its origin, and its class, or the problem."""

    name: str
    origin: str
    method: type[Method] | None
    problem: str = ""

    def usable(self) -> type[Method]:
        """Return the class. Raises PluginError when it is broken, Unavailable when a package is missing."""
        if self.method is None:
            raise PluginError(f"{self.name} ({self.origin}): {self.problem}")
        Description.of(self.method).check_packages(self.name)
        return self.method


def load(name: str) -> type[Method]:
    """Return the class of a method: from a plug-in file that was imported here, else from an installed package.

    Of several files the last one that was asked for counts. Raises UnknownName, PluginError and Unavailable.
    """
    modules = [module for called, module in [*sys.modules.items()] if called.startswith(PLUGIN_PREFIX)]
    in_files = chain.from_iterable(map(_methods_in, reversed(modules)))
    found = next((method for method in in_files if method.name == name), None)
    return (found or from_point(point(name))).usable()


def import_file(path: Path) -> None:
    """Import a plug-in file, so that ``load`` finds its methods, here and in the processes that this one starts.

    A file that was imported before is imported again if it has changed, and is the last one in any case. Raises
    PluginError where it cannot be imported or defines no method, and UsageError if there is no such file.
    """
    check_file(path)
    name, source = _module_name(path), path.read_bytes()
    before = sys.modules.pop(name, None)
    if before is not None and _SOURCES.get(name) == source:
        sys.modules[name] = before
        return
    found = from_file(path)
    if found[0].method is None and found[0].origin == str(path):  # the origin of a class is a line of the file
        found[0].usable()
    if name not in _SOURCES:
        _import_elsewhere(path)
    _SOURCES[name] = source


def points() -> list[metadata.EntryPoint]:
    """Return the entry points of the installed packages."""
    return [*metadata.entry_points(group=GROUP)]


def point(name: str) -> metadata.EntryPoint:
    """Return the entry point of this name. Raises UnknownName."""
    known = {point.name: point for point in points()}
    if name not in known:
        raise UnknownName("method", name, known)
    return known[name]


def origin_of(point: metadata.EntryPoint) -> str:
    """Return the class of an entry point, and its package, in words."""
    return f"{point.value} in {distribution_of(point)}"


def distribution_of(point: metadata.EntryPoint) -> str:
    """Return the package of an entry point."""
    return _distribution_name(point.dist) if point.dist else "?"


@lru_cache
def _distribution_name(distribution: metadata.Distribution) -> str:
    return distribution.name  # parses all metadata of the package, which may have many entry points


def from_point(point: metadata.EntryPoint) -> Imported:
    """Return the method of an entry point. Raises KeyboardInterrupt: a user may stop a run while it plans."""
    return _describe(point.name, origin_of(point), point.load)


def from_file(path: Path) -> list[Imported]:
    """Return the methods that a plug-in file defines, each under its ``method_name``. Raises UsageError for no file.

    A file that cannot be imported, or defines no method, is one entry with a reason.
    """
    check_file(path)
    origin = str(path)
    # get_type_hints looks up the module of a class in sys.modules: register the file there under a unique name.
    module_name = _module_name(path)
    spec = importlib.util.spec_from_file_location(module_name, path, loader=_FromSource(module_name, str(path)))
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", "--plugin takes a .py file with a subclass of Method")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    _import_from(path.resolve().parent)  # a plug-in may import modules beside it
    _IMPORTING.append(path)
    try:
        _check_beside(path)
        spec.loader.exec_module(module)
    except BaseException as error:  # as in _describe
        sys.modules.pop(module_name, None)
        return [Imported(path.stem, origin, None, f"cannot be imported: {summarize(error)}{line_of(error, str(path))}")]
    finally:
        _IMPORTING.pop()
    return _methods_in(module, path) or [Imported(path.stem, origin, None, "defines no subclass of xmcbench.Method")]


def _methods_in(module: ModuleType, path: Path | None = None) -> list[Imported]:
    """Return the methods that the module of a plug-in file defines. path: as it was given."""
    # A class with two names is one method.
    members = dict.fromkeys(member for _, member in inspect.getmembers(module, inspect.isclass))
    classes = [
        member
        for member in members
        if issubclass(member, Method)
        and member.__module__ == module.__name__
        and not inspect.isabstract(member)
        and not member.__name__.startswith("_")  # a base of others
    ]
    file = path or module.__file__
    return [_describe(method_name(cls), f"{file}:{_line(cls)}", lambda cls=cls: cls) for cls in classes]  # type: ignore[misc]


def _module_name(path: Path) -> str:
    """Return the name of the module of a plug-in file, without a dot, which would be read as a package."""
    stem = path.stem.replace(".", "_")
    return f"{PLUGIN_PREFIX}{stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"


def _import_elsewhere(path: Path) -> None:
    """Let new processes, as of joblib, import a plug-in file by the name of its module: pickled functions have it."""
    folder = Path(mkdtemp(prefix="plugin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    code = f"from pathlib import Path\n\nfrom {__name__} import from_file\n\nfrom_file(Path({str(path.resolve())!r}))\n"
    (folder / f"{_module_name(path)}.py").write_text(code, encoding="utf-8")
    sys.path.append(str(folder))


class _FromSource(SourceFileLoader):
    """Imports a file from its source.

    Python's cache compares the size and the second of the last change, so it can be older than an edited plug-in.
    """

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Raise OSError: without the time of the last change, nothing compiled is read or written."""
        raise OSError(path)


def _import_from(folder: Path) -> None:
    """Make the modules in a folder importable, last of all, and import them and those of its packages from source."""
    if folder in _FOLDERS:
        return
    _FOLDERS.append(folder)

    def finder(path: str) -> FileFinder:
        try:
            inside = Path(path).relative_to(folder)
        except ValueError:
            raise ImportError(path) from None
        if not all(part.isidentifier() for part in inside.parts):
            raise ImportError(path)  # the packages of an environment inside the folder
        return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromSource, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.pop(str(folder), None)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _check_beside(path: Path) -> None:
    """Raise ImportError where a module that a plug-in file imports has the name of one beside another plug-in file.

    Python has one module of a name, so that the second plug-in would run the code of the first.
    """
    for file, other in shadowed_files(path):
        if (other.parent.parent if other.stem == "__init__" else other.parent) in _FOLDERS:
            raise ImportError(f"{file} and {other}, of another plug-in, have one name: rename one of them")


def check_file(path: Path) -> None:
    """Raise UsageError unless there is such a file with Python code."""
    if not path.is_file():
        raise UsageError(f"no plug-in file at {path}", "--plugin takes a .py file with a subclass of Method")
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file", "--plugin takes a .py file with a subclass of Method")


def line_of(error: BaseException, file: str | None = None) -> str:
    """Return the last line of a file (default: any but those that import) in a traceback: " (FILE:LINE)", or none."""
    imports = (__file__, metadata.__file__, importlib.__file__)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        is_wanted = name == file if file else not (name.startswith("<") or name in imports)
        if is_wanted:
            return f" ({name}:{frame.lineno})"
    return ""


def _describe(name: str, origin: str, import_it: Callable[[], object]) -> Imported:
    try:
        method = import_it()
        problem = contract_problem(method)
        if not problem:
            Description.of(method)  # type: ignore[arg-type]
    except XmcbenchError as error:
        return Imported(name, origin, None, str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import can raise anything, even SystemExit; a listing must survive it
        return Imported(name, origin, None, f"cannot be imported: {summarize(error)}{line_of(error)}")
    return Imported(name, origin, None if problem else method, problem)  # type: ignore[arg-type]


def check_not_importing() -> None:
    """Raise UsageError while a plug-in file is being imported: any run that it starts would import it again."""
    if _IMPORTING:
        raise UsageError("it starts a run on import", 'move that below `if __name__ == "__main__":`')


def method_name(cls: type) -> str:
    """Return the name of a method in a plug-in file: the words of its class name in lower case, joined by hyphens.

    A word begins with a capital; several capitals are an acronym (``MyBM25`` -> my-bm25, ``LLMRerank`` -> llm-rerank).
    """
    name = cls.__name__
    parts = (
        f"-{letter}"
        if letter.isupper() and (before.islower() or before.isdigit() or (before.isupper() and after.islower()))
        else letter
        for before, letter, after in zip(f" {name}", name, f"{name[1:]} ", strict=False)
    )
    return "".join(parts).lower()


def _line(method: type) -> int:
    try:
        return inspect.getsourcelines(method)[1]
    except OSError:
        return 1
