"""Registry of methods: entry points of the group ``xmcbench.methods`` and plug-in files.

A run knows a method by its description. The process of a cell imports the class; only the methods that ship with
xmcbench are also imported here, to describe them. Another process describes plug-ins (``xmcbench.plugins.inspection``).
A broken plug-in is an entry with a reason; it never breaks a listing or another method.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from xmcbench import parameters
from xmcbench.errors import PluginError, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method
from xmcbench.plugins.description import DEFAULT_PRESET, Description, Values
from xmcbench.plugins.inspection import TIME_LIMIT_S, About, Answer, Inspected, Inspection, Plugin, Question
from xmcbench.plugins.loading import check_file, check_not_importing, distribution_of, from_point, origin_of, points
from xmcbench.records import Cell, Staleness
from xmcbench.records.equivalence import Equivalence, read_equivalence
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.source import Sources, join_digests

Value = TypeVar("Value")


@dataclass(frozen=True)
class Entry:
    """One method by name: its origin, and its description, or the problem that it cannot be loaded for.

    plugin: the file of a method that is not installed. method: the class, where it is imported here. inspect: look at
    the method in another process. digest: SHA-256 (hex) of its source.
    """

    name: str
    origin: str
    description: Description | None
    problem: str = ""
    plugin: Path | None = None
    method: type[Method] | None = field(default=None, repr=False)
    inspect: Callable[[], Inspection] | None = field(default=None, repr=False)
    digest: Callable[[], str] | None = field(default=None, repr=False)

    @property
    def declared(self) -> Description:
        """The description. Raises PluginError when the method is broken."""
        if self.description is None:
            raise PluginError(f"{self.name} ({self.origin}): {self.problem}")
        return self.description

    def usable(self) -> Description:
        """Return the description. Raises PluginError for a broken method, Unavailable if a package is missing."""
        self.declared.check_packages(self.name)
        return self.declared

    @property
    def title(self) -> str:
        """The method's name in tables."""
        return (self.description.title if self.description else "") or self.name

    @property
    def source_sha256(self) -> str:
        """SHA-256 (hex) of the method's source. Raises PluginError when it is broken."""
        if self.digest is None:
            raise PluginError(f"{self.name} ({self.origin}): {self.problem}")
        return self.digest()

    def describe(self, values: Values) -> str:
        """Return the part of a row's name about these parameters. Raises PluginError where the method fails."""
        return self._ask("describe", values) if "describe" in self.usable().defines else ""

    def require(self, values: Values, files: Sequence[Path] = ()) -> None:
        """Raise Unavailable if these parameters need something that is missing. files: plug-in files of its parts."""
        if "require" in self.usable().defines:
            self._ask("require", values, files)

    def uses(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """Return the other methods that a run with these parameters goes through. Raises what the method raises.

        Packages may be missing: which code made a record is the same on every machine.
        """
        return tuple(self._ask("uses", values).splitlines()) if "uses" in self.declared.defines else ()

    def contents(self, values: Mapping[str, object]) -> dict[str, str]:
        """Return parameter -> identity of its content, if it names a file or a model. Raises as the method does."""
        if "inputs" not in self.declared.defines and not parameters.select_files(self.declared.parameters, values):
            return {}
        return msgspec.json.decode(self._ask("inputs", values), type=dict[str, str])

    def identity(self, values: Mapping[str, object]) -> Values:
        """Return the parameters that identify a cell: files and models by content, without defaults added later."""
        whole: dict[str, Any] = {**values, **self.contents(values)}
        return parameters.identity(self.declared.parameters, whole)

    def estimate_calls(
        self, values: Mapping[str, object], sizes: Mapping[str, tuple[int, float]], files: Sequence[Path] = ()
    ) -> tuple[int, int]:
        """Return how many questions a run asks of a language model, and their tokens. Raises what the method raises."""
        calls, tokens = self._ask("estimate_calls", values, files, sizes).split()
        return int(calls), int(tokens)

    def ask_ahead(self, about: About, rows: Sequence[Values]) -> None:
        """Ask one question about several rows at once: starting a process for a plug-in takes half a second."""
        if self.method is None and self.inspect is not None and about in self.declared.defines:
            self.inspect().ask([Question(self.name, about, dict(values)) for values in rows])

    def _ask(
        self,
        about: About,
        values: Mapping[str, object],
        files: Sequence[Path] = (),
        sizes: Mapping[str, tuple[int, float]] | None = None,
    ) -> str:
        given: Values = dict(values)  # type: ignore[arg-type] # of parameters, whatever their values are
        question = Question(self.name, about, given, tuple(str(path.resolve()) for path in files), dict(sizes or {}))
        if self.method is not None and not files:
            return Answer.of(self.method, question).unwrap()
        assert self.inspect is not None
        return self.inspect().answer(question).unwrap()


@dataclass(frozen=True)
class Resolved:
    """A method with all its parameters, and all methods that it uses with these, each with its own and once."""

    through: tuple[tuple[Entry, Mapping[str, object]], ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The methods, itself first, each once."""
        return tuple({entry.name: entry for entry, _ in self.through}.values())

    @property
    def files(self) -> tuple[Path, ...]:
        """The plug-in files of the methods, its own first."""
        return tuple(dict.fromkeys(entry.plugin for entry in self.entries if entry.plugin))

    @cached_property
    def source_sha256(self) -> str:
        """SHA-256 (hex) of the source of the method with these parameters, and of those that it uses."""
        inner = canonical_json([entry.identity(given) for entry, given in self.through[1:]])
        return join_digests([entry.source_sha256 for entry, _ in self.through], inner)


class _OfMethods(Mapping[str, Value]):
    """A value of each method that can be imported, computed when it is first needed."""

    def __init__(self, registry: Registry, find: Callable[[Entry], Value]) -> None:
        self._registry, self._find = registry, find
        self._found: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        try:
            entry = self._registry[name]
        except UnknownName:
            raise KeyError(name) from None
        if entry.description is None:
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = self._find(entry)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self._registry if entry.description)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Registry:
    """All methods by name, in alphabetical order. An entry point is looked at when its entry is asked for."""

    def __init__(self, plugins: Iterable[Path] = (), time_limit_s: float | None = None) -> None:
        """Entry points of the installed packages, then the plug-in files.

        A file replaces an installed plug-in of the same name: so plug-ins are edited. ``notes`` say so, and name files
        without a method.
        time_limit_s: for a plug-in to be imported and to answer, at most a minute. Raises UsageError for a missing
        file, when two others claim one name, and while a plug-in file is being imported.
        """
        check_not_importing()
        self.notes: list[str] = []
        self._limit_s = min(time_limit_s or TIME_LIMIT_S, TIME_LIMIT_S)
        self._sources = Sources()
        self._origins: dict[str, str] = {}
        self._equivalence: dict[Path, Equivalence] = {}
        self._replaceable: set[str] = set()
        self._load: dict[str, Callable[[], Entry]] = {}
        self._broken_files: list[Entry] = []
        installed = points()
        for point in installed:
            load = self._load_built_in if distribution_of(point) == "xmcbench" else self._load_installed
            self._add(point.name, origin_of(point), partial(load, point))
        self._replaceable = {point.name for point in installed if distribution_of(point) != "xmcbench"}
        for path in {os.path.realpath(path): path for path in plugins}.values():  # a file may be named twice
            for entry in self._load_file(path):
                self._add(entry.name, entry.origin, lambda entry=entry: entry)  # type: ignore[misc]

    def _add(self, name: str, origin: str, load: Callable[[], Entry]) -> None:
        other = self._origins.get(name)
        if other is not None and name in self._replaceable:
            self._replaceable.discard(name)
            self.notes.append(f"using {name} from {origin} instead of {other}")
        elif other is not None:
            raise UsageError(
                f"two methods are called {name!r}: {other} and {origin}",
                "rename one, or uninstall the package of the other",
            )
        self._origins[name] = origin
        self._load[name] = cache(load)

    def _load_built_in(self, point: EntryPoint) -> Entry:
        found = from_point(point)
        if found.method is None:
            return Entry(found.name, found.origin, None, found.problem)
        inspect = cache(partial(Inspection, Plugin(name=point.name), found.origin, self._limit_s))
        digest = cache(lambda: self._sources.of(found.method).digest)
        about = Description.of(found.method)
        return Entry(found.name, found.origin, about, method=found.method, inspect=inspect, digest=digest)

    def _load_installed(self, point: EntryPoint) -> Entry:
        inspection = Inspection(Plugin(name=point.name), origin_of(point), self._limit_s)
        return _make_entry(inspection, inspection.methods[0])

    def _load_file(self, path: Path) -> list[Entry]:
        check_file(path)
        inspection = Inspection(Plugin(file=str(path)), str(path), self._limit_s)
        entries = [_make_entry(inspection, method, path) for method in inspection.methods]
        for entry in entries:
            if entry.problem and entry.origin == str(path):  # the origin of a class is a line of the file
                self._broken_files.append(entry)
                self.notes.append(f"no method from {path}: {entry.problem}")
            elif entry.problem:
                self.notes.append(f"{entry.name} ({entry.origin}) cannot be used: {entry.problem}")
        return entries

    def __iter__(self) -> Iterator[Entry]:
        return iter([self._load[name]() for name in sorted(self._load)])

    @property
    def sources(self) -> Mapping[str, str]:
        """Method -> SHA-256 (hex) of its source here, of all that can be imported."""
        return _OfMethods(self, lambda entry: entry.source_sha256)

    def resolve(self, name: str, values: Mapping[str, object]) -> Resolved:
        """Return a method with all that it uses with these parameters.

        Raises UnknownName, PluginError, and UsageError for a method that uses itself with the same parameters.
        """
        found: list[tuple[Entry, Mapping[str, object]]] = []
        for step in self._walk(self[name], values, ()):
            if step not in found:
                found.append(step)
        return Resolved(tuple(found))

    def _walk(
        self, entry: Entry, values: Mapping[str, object], by: tuple[tuple[str, str], ...]
    ) -> Iterator[tuple[Entry, Mapping[str, object]]]:
        """Yield a method and those that it uses, with repetitions. by: methods that led to it, parameters as JSON."""
        this = (entry.name, canonical_json(values))
        if this in by:
            through = ", ".join(other for other, _ in by[by.index(this) + 1 :])
            raise UsageError(f"{entry.name} uses itself{through and f' through {through}'}", "name other methods")
        yield entry, values
        for spec in entry.uses(values):
            try:
                part, inner = self._find_part(spec)
            except UnknownName as error:  # an unknown name in a request ends the plan; this one is in a method
                raise UsageError(f"{entry.name} uses {spec!r}: {error.message}", error.hint) from None
            yield from self._walk(part, inner, (*by, this))

    def _find_part(self, spec: str) -> tuple[Entry, Values]:
        """Return a method and all its parameters by NAME or NAME:PRESET, as ``xmcbench.Part`` reads it."""
        name, colon, preset = (part.strip() for part in spec.partition(":"))
        entry = self[name]
        presets = entry.declared.presets
        if colon and preset not in presets:
            raise UnknownName("preset", preset, presets, where=f"of {name}")
        return entry, entry.declared.resolve(name, presets.get(preset or DEFAULT_PRESET, {}))

    def ask_about_parts(self, cells: Iterable[Cell]) -> None:
        """Ask each plug-in for the parts of all its cells at once, before the records of these are judged."""
        asked: dict[str, dict[str, Values]] = {}
        for cell in cells:
            asked.setdefault(cell.method, {})[cell.row] = cell.parameters
        for name, rows in asked.items():
            with suppress(XmcbenchError):  # it is not here, or broken: its records are not judged
                self[name].ask_ahead("uses", [*rows.values()])

    def staleness(self, runs: Path) -> Staleness:
        """Return today's code, by which the records of a folder are judged. Raises StorageError for damage."""
        if runs not in self._equivalence:
            self._equivalence[runs] = read_equivalence(runs)

        def presets(entry: Entry) -> dict[str, Values]:
            about = entry.declared
            named = {"": {}, **about.presets}  # "" has the defaults
            return {preset: about.resolve(entry.name, values) for preset, values in named.items()}

        described = _OfMethods(self, lambda entry: entry.declared.described)
        equivalence = self._equivalence[runs]
        return Staleness(self.sources, self._through_cell, _OfMethods(self, presets), described, equivalence)

    def _through_cell(self, cell: Cell) -> list[tuple[str, Mapping[str, object]]]:
        """Return the methods that a cell goes through today; one that is not here has its name alone."""
        itself: list[tuple[str, Mapping[str, object]]] = [(cell.method, cell.parameters)]
        try:
            parts = [spec.partition(":")[0].strip() for spec in self[cell.method].uses(cell.parameters)]
            if lacking := [name for name in parts if name not in self._load]:
                return [*itself, *((name, {}) for name in lacking)]
            inner = self.resolve(*itself[0]).through[1:]
            return [*itself, *((entry.name, entry.identity(values)) for entry, values in inner)]
        except XmcbenchError:
            return itself

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of a method. A missing method is taken for one of a broken plug-in, if there is one."""
        if name in self._load:
            return self._load[name]()
        if self._broken_files:
            broken = self._broken_files[0]
            return Entry(name, broken.origin, None, broken.problem, broken.plugin)
        hint = "see `xmcbench ls methods`; one in a file needs --plugin FILE"
        raise UnknownName("method", name, self._load, hint)


def _make_entry(inspection: Inspection, found: Inspected, plugin: Path | None = None) -> Entry:
    name, origin, about = found.name, found.origin, found.description
    if about is None:
        return Entry(name, origin, None, found.problem, plugin)
    return Entry(name, origin, about, "", plugin, None, lambda: inspection, lambda: found.source_sha256)
