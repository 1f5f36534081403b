"""Finding methods: entry points of the group ``xmcbench.methods`` and plug-in files.

A plug-in that is broken is an entry with its reason; it never breaks a listing or another method.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar, get_args

from xmcbench import parameters
from xmcbench.errors import PluginError, Unavailable, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method, Supervision
from xmcbench.records import Cell, Standing
from xmcbench.storage.source import PLUGIN_PREFIX, joined, source_digest

GROUP = "xmcbench.methods"
#: The preset that is taken where nothing else is asked for and the method has it: a few minutes on two cores.
DEFAULT_PRESET = "quick"

_Loaded = TypeVar("_Loaded")

#: Plug-in files that are being imported.
_IMPORTING: list[Path] = []


@dataclass(frozen=True)
class Entry:
    """One method by name: where it comes from, and the class or the reason why there is none.

    plugin: the file of a method that is not installed.
    """

    name: str
    origin: str
    method: type[Method] | None
    problem: str = ""
    plugin: Path | None = None

    @property
    def missing(self) -> dict[str, str]:
        """Packages the method needs that are not installed: import name -> what to ``pip install``."""
        packages = self.method.packages if self.method else {}
        return {name: install for name, install in packages.items() if not _installed(name)}

    def usable(self) -> type[Method]:
        """The class. Raises PluginError when it is broken, Unavailable when a package is missing."""
        if self.method is None:
            raise PluginError(f"{self.name} ({self.origin}): {self.problem}")
        if self.missing:
            raise Unavailable(
                f"{self.name} needs {', '.join(self.missing)}", f"pip install {' '.join(self.missing.values())}"
            )
        return self.method


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        return False


class Registry:
    """All methods by name, in alphabetical order. An entry point is imported when its entry is asked for."""

    def __init__(self, plugins: Iterable[Path] = ()) -> None:
        """Entry points of the installed packages, then the plug-in files.

        A file goes before an installed plug-in of the same name, which ``notes`` says: that is how a plug-in is edited.
        Raises UsageError when two others claim one name: both origins are named, none wins silently.
        """
        self.notes: list[str] = []
        self._origins: dict[str, str] = {}
        self._replaceable: set[str] = set()
        self._load: dict[str, Callable[[], Entry]] = {}
        foreign: set[str] = set()
        for point in metadata.entry_points(group=GROUP):
            distribution = point.dist.name if point.dist else "?"
            origin = f"{point.value} in {distribution}"
            self._add(point.name, origin, partial(_entry, point.name, origin, point.load))
            if distribution != "xmcbench":
                foreign.add(point.name)
        self._replaceable = foreign
        for path in plugins:
            for entry in from_file(path):
                self._add(entry.name, entry.origin, partial(_itself, entry))

    def _add(self, name: str, origin: str, load: Callable[[], Entry]) -> None:
        other = self._origins.get(name)
        if other is not None and name in self._replaceable:
            self._replaceable.discard(name)
            self.notes.append(f"{name} is taken from {origin}, not from {other}")
        elif other is not None:
            raise UsageError(
                f"two methods are called {name!r}: {other} and {origin}",
                "rename one, or uninstall the package that brings the other",
            )
        self._origins[name] = origin
        self._load[name] = cache(load)

    def __iter__(self) -> Iterator[Entry]:
        return iter([self._load[name]() for name in sorted(self._load)])

    def sources(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Method -> SHA-256 (hex) of its source here, of all that can be imported, or of the named ones."""
        entries = self if names is None else [self[name] for name in names]
        return {entry.name: source_digest(entry.method) for entry in entries if entry.method}

    def source(self, name: str, values: Mapping[str, object]) -> str:
        """SHA-256 (hex) of the source of a method with these parameters, and of those that it uses.

        Raises what ``used`` raises.
        """
        return joined([source_digest(self[each].usable()) for each in self.used(name, values)])

    def used(self, name: str, values: Mapping[str, object]) -> tuple[str, ...]:
        """A method and all that it uses with these parameters, by name, itself first.

        Raises UnknownName, UsageError, PluginError, Unavailable.
        """
        found = [name]
        for spec in self[name].usable()(**values).uses():
            entry, _, inner = self.named(spec)
            found += self.used(entry.name, inner)
        return tuple(dict.fromkeys(found))

    def named(self, spec: str) -> tuple[Entry, str, dict[str, object]]:
        """A method, its preset and all its parameters, by NAME or NAME:PRESET.

        A name alone stands for the preset ``quick`` where there is one, as in a run. Raises UnknownName, PluginError,
        Unavailable.
        """
        name, colon, preset = (each.strip() for each in spec.partition(":"))
        entry = self[name]
        method = entry.usable()
        if colon and preset not in method.presets:
            raise UnknownName(f"preset of {name}:", preset, method.presets)
        preset = preset or (DEFAULT_PRESET if DEFAULT_PRESET in method.presets else "")
        return entry, preset, parameters.resolve(method, name, method.presets.get(preset, {}))

    def standing(self, names: Iterable[str] | None = None) -> Standing:
        """Today's code of all methods, or of the named ones, by which a record is judged."""
        return Standing(self.sources(names), self._used_by)

    def _used_by(self, cell: Cell) -> tuple[str, ...]:
        try:
            return self.used(cell.method, cell.parameters)
        except XmcbenchError:
            return (cell.method,)

    def __getitem__(self, name: str) -> Entry:
        if name not in self._load:
            raise UnknownName("method", name, self._load, hint="see `xmcbench ls methods`")
        return self._load[name]()


def _itself(loaded: _Loaded) -> _Loaded:
    return loaded


def _entry(name: str, origin: str, load: Callable[[], object]) -> Entry:
    try:
        method = load()
        problem = contract_problem(method)
    except XmcbenchError as error:
        return Entry(name, origin, None, str(error))
    except BaseException as error:  # an import can end in anything, sys.exit() included; a listing must survive it
        if isinstance(error, KeyboardInterrupt):
            raise
        return Entry(name, origin, None, f"does not import: {type(error).__name__}: {' '.join(str(error).split())}")
    if problem:
        return Entry(name, origin, None, problem)
    return Entry(name, origin, method)  # type: ignore[arg-type]


def contract_problem(method: object) -> str:
    """Why this object cannot be a method, or an empty string."""
    if not inspect.isclass(method) or not issubclass(method, Method):
        return f"{method!r} is not a subclass of xmcbench.Method"
    for name in ("fit", "predict"):
        if getattr(method, name) is getattr(Method, name):
            return f"{method.__name__} has no {name}"
    if method.supervision not in get_args(Supervision):
        return f"{method.__name__}.supervision is {method.supervision!r}, not one of {', '.join(get_args(Supervision))}"
    for name in parameters.declared(method):
        if hasattr(Method, name):  # the harness would overwrite a parameter called `seed`
            return f"{method.__name__}.{name} is a name of the contract: leave its type out, or call it otherwise"
    for kind, variants in (("preset", method.presets), ("row of the ablation", method.ablation)):
        for name, values in variants.items():
            try:
                parameters.resolve(method, method.__name__, values)
            except UsageError as error:
                return f"{kind} {name!r}: {error}"
    return ""


def from_file(path: Path) -> list[Entry]:
    """The methods a plug-in file defines, each under its class name in lower case with dashes (``MyBM25`` -> my-bm25).

    Raises UsageError when there is no such file; a file that does not import, or defines no method, is one entry with
    its reason.
    """
    if not path.is_file():
        raise UsageError(f"there is no plug-in file {path}", "--plugin takes a .py file with a subclass of Method")
    origin = str(path)
    # get_type_hints looks a class's module up in sys.modules: the name must be there, and be the file's own.
    module_name = f"{PLUGIN_PREFIX}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", "--plugin takes a .py file with a subclass of Method")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if str(path.resolve().parent) not in sys.path:
        sys.path.append(str(path.resolve().parent))  # a plug-in may import what is beside it
    try:
        with _importing(path):
            spec.loader.exec_module(module)
    except BaseException as error:  # as in _entry
        if isinstance(error, KeyboardInterrupt):
            raise
        reason = f"does not import: {type(error).__name__}: {' '.join(str(error).split())}"
        return [Entry(path.stem, origin, None, reason, path)]
    classes = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, Method) and member.__module__ == module_name and not inspect.isabstract(member)
    ]
    if not classes:
        return [Entry(path.stem, origin, None, "defines no subclass of xmcbench.Method", path)]
    entries = [_entry(method_name(each), f"{origin}:{_line(each)}", partial(_itself, each)) for each in classes]
    return [replace(entry, plugin=path) for entry in entries]


@contextmanager
def _importing(path: Path) -> Iterator[None]:
    _IMPORTING.append(path)
    try:
        yield
    finally:
        _IMPORTING.pop()


def check_imported() -> None:
    """Raise UsageError while a plug-in file is imported: a run that it starts would start in every cell again."""
    if _IMPORTING:
        raise UsageError("it starts a run when it is imported", 'put that below `if __name__ == "__main__":`')


def method_name(cls: type) -> str:
    """The name of a method in a plug-in file: its class name in lower case, with dashes (``MyBM25`` -> ``my-bm25``)."""
    name = cls.__name__
    parts = "".join(
        f"-{letter}" if letter.isupper() and before and (before.islower() or before.isdigit()) else letter
        for before, letter in zip(" " + name, name, strict=False)
    )
    return parts.strip("- ").lower()


def _line(method: type) -> int:
    try:
        return inspect.getsourcelines(method)[1]
    except OSError:
        return 1
