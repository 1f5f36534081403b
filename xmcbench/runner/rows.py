"""From requests to rows: the methods with their parameters and names, and the methods that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from xmcbench.errors import PluginError, Unavailable, UnknownName, UsageError, XmcbenchError
from xmcbench.plugins.description import DEFAULT_PRESET, Description, Values
from xmcbench.plugins.registry import Entry, Registry
from xmcbench.setting import Setting

if TYPE_CHECKING:
    from xmcbench.records import Record


@dataclass(frozen=True)
class Request:
    """A user's request on one dataset, in one setting.

    dataset: its name or folder. methods: names, each optionally with its own preset (``tfidf:sklearn``), or
    ``all``. preset: used by the methods that have it; at least one method of all requests must.
    overrides: method -> parameter -> value (text or typed), or a list of values with a row per value. complete: whether
    these are all parameters of the methods, so that no preset applies.
    """

    dataset: str
    setting: Setting
    methods: Sequence[str] = ("all",)
    preset: str | None = None
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    complete: bool = False


@dataclass(frozen=True)
class Row:
    """A method with all its parameters, under one request."""

    entry: Entry
    method: Description
    preset: str
    values: Values
    variant: str

    @property
    def title(self) -> str:
        """The method's name in tables."""
        return self.entry.title

    @property
    def name(self) -> str:
        """Title and variant."""
        return f"{self.title} ({self.variant})" if self.variant else self.title


@dataclass(frozen=True)
class Skipped:
    """A requested method that cannot run: the reason in one line, and the command that installs a missing package.

    named: whether the user named it. where: the settings or ablation rows in which it cannot run, if it runs in others.
    """

    method: str
    reason: str
    hint: str
    named: bool = False
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" of {', '.join(self.where)}" if self.where else ""
        return f"{self.method} is left out{where}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


def resolve(requests: Sequence[Request], registry: Registry) -> list[tuple[list[Row], list[Skipped]]]:
    """Return the rows of every request, and the methods left out, with every check that needs no data.

    If a method named by the user cannot run, that is an error; under ``all`` it is left out with a reason. A broken
    method is always left out: the other rows do not depend on it. A method that needs pairs is left out of the
    zero-shot setting if it is requested in another setting, too. Raises UnknownName, UsageError, Unavailable.
    """
    named = {name for request in requests for name, _ in _methods(request, registry)}
    for request in requests:
        for name, values in request.overrides.items():
            if name not in named:
                raise UsageError(f"--set {name}: {name} is not among the methods of this run", "add it to --methods")
            if method := registry[name].description:
                for changes in _combinations(name, values):
                    method.resolve(name, changes)  # a wrong value is an error under `all` too
        if request.preset is not None:
            about = [registry[name].description for name in named]
            known = {preset for method in about if method for preset in method.presets}
            if request.preset not in known:
                raise UnknownName("preset", request.preset, known)
    with_pairs = [request for request in requests if request.setting.kind != "ez"]
    elsewhere = {name for request in with_pairs for name, _ in _methods(request, registry)}
    return [_rows(request, registry, elsewhere) for request in requests]


def request_for(record: Record, dataset: str, registry: Registry) -> Request:
    """Return a request for the cell of a record, under the same row name. dataset: its name or folder."""
    cell = record.cell
    entry = registry[cell.method]
    method = entry.usable()
    values = method.resolve(entry.name, record.values)
    preset = next((name for name in method.presets if _variant(entry, name, values) == record.method.variant), None)
    name = f"{cell.method}:{preset}" if preset else cell.method
    return Request(dataset, cell.setting, (name,), None, {cell.method: values}, (cell.seed,), complete=not preset)


def variants(entry: Entry, values: Mapping[str, object]) -> list[str]:
    """Return the possible variants of a row of these parameters, one per preset. Raises UsageError and PluginError."""
    method = entry.usable()
    whole = method.resolve(entry.name, values)
    return [_variant(entry, preset, whole) for preset in ("", *method.presets)]


def status(entry: Entry) -> str:
    """Return whether a method can run with its defaults: ``ok``, ``missing`` or ``broken``, with the reason."""
    try:
        method = entry.usable()
        entry.require(method.resolve(entry.name, method.presets.get(DEFAULT_PRESET, {})))
    except Unavailable as error:
        return f"missing: {error}"
    except XmcbenchError as error:
        return f"broken: {entry.problem or error}"
    return "ok"


def leave_out(name: str, error: XmcbenchError, request: Request) -> Skipped:
    """Leave a method out. Raises the error, with the name of the method, if the request names it."""
    named = not is_for_all(request)
    if named and not isinstance(error, PluginError):
        if isinstance(error, Unavailable) and not error.message.startswith(name):
            raise Unavailable(f"{name}: {error.message}", error.hint) from error
        raise error
    return Skipped(name, error.message, error.hint, named)


def is_for_all(request: Request) -> bool:
    """Return whether a request is for all methods, so that methods may be left out."""
    return list(request.methods) == ["all"]


def _methods(request: Request, registry: Registry) -> list[tuple[str, str | None]]:
    """Return (name, own preset) of every method of a request."""
    names = request.methods
    if is_for_all(request):  # methods with parts come last, and reuse the rankings of their parts
        entries = sorted(registry, key=lambda entry: bool(entry.description and "uses" in entry.description.defines))
        names = [entry.name for entry in entries]
    split = (name.partition(":") for name in names)
    return [(method, preset if colon else None) for method, colon, preset in split]


def _rows(request: Request, registry: Registry, elsewhere: Set[str]) -> tuple[list[Row], list[Skipped]]:
    """Return the rows of a request, and the methods left out. elsewhere: methods requested with pairs, too."""
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for name, own_preset in _methods(request, registry):
        entry = registry[name]
        try:
            method = entry.usable()
            preset = "" if request.complete else _choose_preset(method, name, own_preset, request.preset)
            # Resolve twice, so that changes are parsed and checked by the same rules as presets.
            base = method.resolve(name, method.presets.get(preset, {}))
            changes = _combinations(name, request.overrides.get(name, {}))
            chosen = [method.resolve(name, {**base, **changed}) for changed in changes]
            entry.ask_ahead("describe", chosen)
            entry.ask_ahead("uses", chosen)
            entry.ask_ahead("inputs", chosen)
            for values in chosen:
                entries = registry.resolve(name, values).entries if request.setting.kind == "ez" else ()
                if supervised := [entry.name for entry in entries if entry.usable().supervision == "required"]:
                    raise _NeedsPairs(supervised[0])
                rows.append(Row(entry, method, preset, values, _variant(entry, preset, values)))
        except _NeedsPairs as error:
            if name not in elsewhere and not is_for_all(request):
                raise
            skipped.append(Skipped(name, error.reason(name), error.hint))
        except XmcbenchError as error:
            if isinstance(error, UnknownName):
                raise
            skipped.append(leave_out(name, error, request))
    return rows, skipped


class _NeedsPairs(UsageError):
    """A method that needs pairs, in the zero-shot setting. name: of this method, or of one of its parts."""

    def __init__(self, name: str) -> None:
        self._name = name
        super().__init__(self.reason(""), "use --setting fs or full")

    def reason(self, method: str) -> str:
        """Return the reason for leaving a method out."""
        name = "it" if self._name == method else self._name
        return f"{name} needs pairs, and the zero-shot setting has none"


def _combinations(name: str, given: Mapping[str, object]) -> list[dict[str, object]]:
    """Return every choice of one value per parameter, the last one changing fastest. Raises UsageError."""
    choices = []
    for parameter, value in given.items():
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise UsageError(f"{name}.{parameter} has no value", "give one value, or several to get one row for each")
        choices.append([(parameter, value) for value in values])
    return [dict(chosen) for chosen in product(*choices)]


def _choose_preset(method: Description, name: str, own: str | None, common: str | None) -> str:
    """Return the preset of a row: its own, which must exist, or the common or the default one if the method has it."""
    if own is not None and own not in method.presets:
        raise UnknownName("preset", own, method.presets, where=f"of {name}")
    wanted = own or common or DEFAULT_PRESET
    return wanted if wanted in method.presets else ""


def _variant(entry: Entry, preset: str, values: Values) -> str:
    """Return the part of a row's name after the title: preset, the method's description, changes of the preset."""
    method = entry.usable()
    base = method.resolve(entry.name, method.presets.get(preset, {}))
    changes = [
        f"{name}={_short(value)}"
        for name, value in values.items()
        if value != base[name] and name not in method.described
    ]
    return ", ".join(filter(None, [preset, entry.describe(values), *changes]))


def _short(value: object) -> object:
    """Shorten a value in a row's name to the last part of a path; that of a URL says little."""
    if not isinstance(value, str) or "://" in value:
        return value
    return value.rstrip("/").rpartition("/")[2] or value
