"""Finding methods: entry points of the group ``xmcbench.methods`` and plug-in files.

A run knows a method by its description. The class is imported in the process of a cell; only the methods that ship with
xmcbench are also imported here, to describe them. Plug-ins are described by another process
(``xmcbench.plugins.inspection``). A broken plug-in is an entry with a reason; it never breaks a listing or another
method.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Protocol

import msgspec

from xmcbench import parameters
from xmcbench.errors import PluginError, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method
from xmcbench.plugins.description import DEFAULT_PRESET, Description, Values
from xmcbench.plugins.inspection import TIME_LIMIT_S, About, Answer, Inspected, Inspection, Plugin, Question
from xmcbench.plugins.loading import check_file, check_imported, distribution_of, from_point, origin_of, points
from xmcbench.records import Cell, Standing
from xmcbench.records.equivalence import Equivalence, read_equivalence
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.source import Sources, joined


class Subject(Protocol):
    """Whoever speaks for a method: what its source is, and what it says under parameters."""

    def source_sha256(self) -> str:
        """SHA-256 (hex) of its source."""

    def answer(self, question: Question) -> Answer:
        """What it says."""

    def ask(self, questions: Sequence[Question]) -> None:
        """Ask all that will be wanted, where that is cheaper than one after the other."""


@dataclass(frozen=True)
class _Here:
    """A class that is imported here. sources: those of all such classes, which share most of their modules. inspect:
    looks at it in another process, where it can be asked together with plug-in files."""

    method: type[Method]
    sources: Sources
    inspect: Callable[[], Inspection]

    def source_sha256(self) -> str:
        return self._source

    @cached_property
    def _source(self) -> str:
        return self.sources.of(self.method).digest

    def answer(self, question: Question) -> Answer:
        return self._elsewhere.answer(question) if question.files else Answer.of(self.method, question)

    @cached_property
    def _elsewhere(self) -> Inspection:
        return self.inspect()

    def ask(self, questions: Sequence[Question]) -> None:
        pass


@dataclass(frozen=True)
class _Elsewhere:
    """A class that another process imports."""

    inspection: Inspection
    inspected: Inspected

    def source_sha256(self) -> str:
        return self.inspected.source_sha256

    def answer(self, question: Question) -> Answer:
        return self.inspection.answer(question)

    def ask(self, questions: Sequence[Question]) -> None:
        self.inspection.ask(questions)


@dataclass(frozen=True)
class Entry:
    """One method by name: its origin, and its description or why it cannot be loaded.

    plugin: the file of a method that is not installed.
    """

    name: str
    origin: str
    description: Description | None
    problem: str = ""
    plugin: Path | None = None
    subject: Subject | None = field(default=None, repr=False)

    def described(self) -> Description:
        """The description. Raises PluginError when the method is broken."""
        if self.description is None:
            raise PluginError(f"{self.name} ({self.origin}): {self.problem}")
        return self.description

    def usable(self) -> Description:
        """The description. Raises PluginError when the method is broken, Unavailable when a package is missing."""
        description = self.described()
        description.check_packages(self.name)
        return description

    @property
    def title(self) -> str:
        """The method's name in tables."""
        return (self.description.title if self.description else "") or self.name

    @property
    def source_sha256(self) -> str:
        """SHA-256 (hex) of the method's source. Raises PluginError when it is broken."""
        return self._subject().source_sha256()

    def describe(self, values: Values) -> str:
        """What of these parameters belongs to a row's name. Raises PluginError where the method fails to say it."""
        return self._said("describe", values) if self._has("describes") else ""

    def require(self, values: Values, files: Sequence[Path] = ()) -> None:
        """Raise Unavailable where these parameters need what is not here, PluginError where the method fails.

        files: the plug-in files of methods that it uses.
        """
        if self._has("requires"):
            self._said("require", values, files)

    def uses(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """Other methods that a run with these parameters goes through. Raises what the method raises.

        Packages may be missing: which code made a record is the same on every machine.
        """
        said = self._said("uses", dict(values)) if self.described().uses else ""  # type: ignore[arg-type]
        return tuple(said.splitlines())

    def contents(self, values: Mapping[str, object]) -> dict[str, str]:
        """Return parameter -> identity of its content, for the parameters that name a file, a folder, or a model.

        Raises what the method raises.
        """
        method = self.described()
        if not method.inputs and not parameters.naming_files(method.parameters, values):
            return {}
        return msgspec.json.decode(self._said("inputs", dict(values)), type=dict[str, str])  # type: ignore[arg-type]

    def ask_ahead(self, about: About, rows: Sequence[Values]) -> None:
        """Ask at once what will be wanted of several rows: starting a process for a plug-in takes half a second."""
        method = self.usable()
        overridden = {"describe": method.describes, "require": method.requires, "uses": method.uses}
        if overridden.get(about, method.inputs):
            self._subject().ask([Question(self.name, about, dict(values)) for values in rows])

    def _has(self, which: str) -> bool:
        return bool(getattr(self.usable(), which))

    def _said(self, about: About, values: Values, files: Sequence[Path] = ()) -> str:
        question = Question(self.name, about, dict(values), tuple(str(each.resolve()) for each in files))
        return self._subject().answer(question).taken()

    def _subject(self) -> Subject:
        if self.subject is None:
            raise PluginError(f"{self.name} ({self.origin}): {self.problem}")
        return self.subject


class Registry:
    """All methods by name, in alphabetical order. An entry point is looked at when its entry is asked for."""

    def __init__(self, plugins: Iterable[Path] = (), time_limit_s: float | None = None) -> None:
        """Entry points of the installed packages, then the plug-in files.

        A file goes before an installed plug-in of the same name, which ``notes`` says: that is how a plug-in is edited.
        time_limit_s: what a plug-in has to be imported and to answer, at most a minute. Raises UsageError for a file
        that is not there, when two others claim one name (both origins are named, none wins silently), and while a
        plug-in file is being imported.
        """
        check_imported()
        self.notes: list[str] = []
        self._limit_s = min(time_limit_s or TIME_LIMIT_S, TIME_LIMIT_S)
        self._sources = Sources()
        self._origins: dict[str, str] = {}
        self._equivalence: dict[Path, Equivalence] = {}
        self._replaceable: set[str] = set()
        self._load: dict[str, Callable[[], Entry]] = {}
        self._broken_files: list[Entry] = []
        foreign: set[str] = set()
        for point in points():
            own = distribution_of(point) == "xmcbench"
            self._add(point.name, origin_of(point), partial(self._built_in if own else self._installed, point))
            if not own:
                foreign.add(point.name)
        self._replaceable = foreign
        for path in {os.path.realpath(path): path for path in plugins}.values():  # a file may be named twice
            for entry in self._in_file(path):
                self._add(entry.name, entry.origin, partial(_itself, entry))

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

    def _built_in(self, point: EntryPoint) -> Entry:
        found = from_point(point)
        if found.method is None:
            return Entry(found.name, found.origin, None, found.problem)
        inspect = partial(Inspection, Plugin(name=point.name), found.origin, self._limit_s)
        subject = _Here(found.method, self._sources, inspect)
        return Entry(found.name, found.origin, Description.of(found.method), subject=subject)

    def _installed(self, point: EntryPoint) -> Entry:
        inspection = Inspection(Plugin(name=point.name), origin_of(point), self._limit_s)
        return _looked_at(inspection, inspection.methods[0])

    def _in_file(self, path: Path) -> list[Entry]:
        check_file(path)
        inspection = Inspection(Plugin(file=str(path)), str(path), self._limit_s)
        entries = [_looked_at(inspection, each, path) for each in inspection.methods]
        # The origin of a class is a line of the file.
        self._broken_files += [entry for entry in entries if entry.problem and entry.origin == str(path)]
        return entries

    def __iter__(self) -> Iterator[Entry]:
        return iter([self._load[name]() for name in sorted(self._load)])

    def sources(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Method -> SHA-256 (hex) of its source here, of all that can be imported, or of the named ones."""
        entries = self if names is None else [self[name] for name in names]
        return {entry.name: entry.source_sha256 for entry in entries if entry.description}

    def source(self, name: str, values: Values) -> str:
        """SHA-256 (hex) of the source of a method with these parameters, and of those that it uses.

        Raises what ``used`` raises.
        """
        through = self.through(name, values)
        inner = [{**given, **self[part].contents(given)} for part, given in through[1:]]
        return joined([self[method].source_sha256 for method, _ in through], inner)

    def used(self, name: str, values: Mapping[str, object]) -> tuple[str, ...]:
        """A method and all that it uses with these parameters, by name, itself first.

        A method may use itself with other parameters. Raises UnknownName, PluginError, UsageError for a method that
        uses itself with the same ones.
        """
        return tuple(dict.fromkeys(each for each, _ in self.through(name, values)))

    def files(self, name: str, values: Mapping[str, object]) -> tuple[Path, ...]:
        """The plug-in files of a method and of all that it uses, its own first. Raises what ``used`` does."""
        found = (self[each].plugin for each in self.used(name, values))
        return tuple(dict.fromkeys(each for each in found if each))

    def through(self, name: str, values: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
        """A method and all that it uses, each with its parameters and once, itself first. Raises what ``used`` does."""
        found = list(self._chain(name, values, ()))
        return [each for place, each in enumerate(found) if each not in found[:place]]

    def _chain(
        self, name: str, values: Mapping[str, object], by: tuple[tuple[str, str], ...]
    ) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The same with repetitions. by: the methods that led to it, each with its parameters as canonical JSON."""
        this = (name, canonical_json(values))
        if this in by:
            through = ", ".join(other for other, _ in by[by.index(this) + 1 :])
            raise UsageError(f"{name} uses itself{through and f' through {through}'}", "name other methods")
        yield name, values
        for spec in self[name].uses(values):
            try:
                entry, inner = self._named(spec)
            except UnknownName as error:  # an unknown name in a request ends the plan; this one is in a method
                raise UsageError(f"{name} uses {spec!r}: {error.message}", error.hint) from None
            yield from self._chain(entry.name, inner, (*by, this))

    def _named(self, spec: str) -> tuple[Entry, Values]:
        """A method and all its parameters by NAME or NAME:PRESET, as ``xmcbench.Part`` reads it."""
        name, colon, preset = (each.strip() for each in spec.partition(":"))
        entry = self[name]
        method = entry.described()
        if colon and preset not in method.presets:
            raise UnknownName("preset", preset, method.presets, where=f"of {name}")
        return entry, method.resolve(name, method.presets.get(preset or DEFAULT_PRESET, {}))

    def standing(self, runs: Path, names: Iterable[str] | None = None) -> Standing:
        """Return today's code of all methods, or of the named ones, by which the records of a runs folder are judged.

        Raises StorageError where the file of sources with equal results is damaged.
        """
        if runs not in self._equivalence:
            self._equivalence[runs] = read_equivalence(runs)
        sources = self.sources(names)
        known = {name: self[name].described() for name in sources}
        presets = {name: _presets(name, method) for name, method in known.items()}
        described = {name: method.described for name, method in known.items()}
        return Standing(sources, self._through_cell, presets, described, self._equivalence[runs])

    def _through_cell(self, cell: Cell) -> list[tuple[str, Mapping[str, object]]]:
        """What a cell goes through today; a method of it that is not here is there by its name alone."""
        itself: list[tuple[str, Mapping[str, object]]] = [(cell.method, cell.parameters)]
        try:
            parts = [spec.partition(":")[0].strip() for spec in self[cell.method].uses(cell.parameters)]
            lacking = [each for each in parts if each not in self._load]
            if lacking:
                return [*itself, *((name, {}) for name in lacking)]
            inner = self.through(*itself[0])[1:]
            return [*itself, *((name, {**values, **self[name].contents(values)}) for name, values in inner)]
        except XmcbenchError:
            return itself

    def __getitem__(self, name: str) -> Entry:
        """The entry of a method. One that no plug-in brings, where a plug-in is broken, is as broken as that."""
        if name in self._load:
            return self._load[name]()
        if self._broken_files:
            broken = self._broken_files[0]
            return Entry(name, broken.origin, None, broken.problem, broken.plugin)
        hint = "see `xmcbench ls methods`; one in a file needs --plugin FILE"
        raise UnknownName("method", name, self._load, hint)


def _presets(name: str, method: Description) -> dict[str, Values]:
    """Preset -> every parameter with its value; "" for the defaults."""
    return {preset: method.resolve(name, values) for preset, values in {"": {}, **method.presets}.items()}


def _itself(entry: Entry) -> Entry:
    return entry


def _looked_at(inspection: Inspection, each: Inspected, plugin: Path | None = None) -> Entry:
    subject = _Elsewhere(inspection, each) if each.description else None
    return Entry(each.name, each.origin, each.description, each.problem, plugin, subject)
