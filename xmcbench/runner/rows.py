"""From requests to rows: which methods run with which parameters, under which names, and which cannot run and why."""

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
    overrides: method -> parameter -> value (text or typed), or a list of values: a row for each. complete: these are
    all parameters of the methods, so that no preset is taken.
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


@dataclass(frozen=True)
class Skipped:
    """A requested method that cannot run: one line why, and the command that installs what is missing.

    named: whether the user named it, so that the request is not met without it. where: the settings or rows of an
    ablation in which it cannot run, where others of the plan have it.
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
    """The rows of every request, and the methods left out: everything that can be checked before loading data.

    A method named by the user that cannot run is an error; under ``all`` it is left out with a reason. A broken method
    is always left out: the other rows do not depend on it. One that needs pairs is left out of the zero-shot setting
    where the requests have another setting for it. Raises UnknownName, UsageError, Unavailable.
    """
    named = {name for request in requests for name, _ in _methods(request, registry)}
    for request in requests:
        for name, values in request.overrides.items():
            if name not in named:
                raise UsageError(f"--set {name}: {name} is not among the methods of this run", "add it to --methods")
            if method := registry[name].description:
                for each in _combinations(name, values):
                    method.resolve(name, each)  # a wrong value is an error under `all` too
        if request.preset is not None:
            known = {preset for name in named for preset in _presets(registry[name])}
            if request.preset not in known:
                raise UnknownName("preset", request.preset, known)
    elsewhere = {name for each in requests if each.setting.kind != "ez" for name, _ in _methods(each, registry)}
    return [_rows(request, registry, elsewhere) for request in requests]


def request_for(record: Record, dataset: str, registry: Registry) -> Request:
    """A request that gives the cell of a record again, under the same row name. Raises what ``resolve`` raises.

    dataset: its name or folder.
    """
    cell = record.cell
    entry = registry[cell.method]
    method = entry.usable()
    values = method.resolve(entry.name, record.values)
    preset = next((each for each in method.presets if _variant(entry, each, values) == record.method.variant), None)
    name = f"{cell.method}:{preset}" if preset else cell.method
    return Request(dataset, cell.setting, (name,), None, {cell.method: values}, (cell.seed,), complete=not preset)


def variants(entry: Entry, values: Mapping[str, object]) -> list[str]:
    """The possible variants of a row of these parameters, one per preset it could come from.

    Raises UsageError for parameters that the method does not have, PluginError, Unavailable.
    """
    method = entry.usable()
    whole = method.resolve(entry.name, values)
    return [_variant(entry, preset, whole) for preset in ("", *method.presets)]


def status(entry: Entry) -> str:
    """Whether a method can run with its defaults: ok; missing, with the command to install; or broken, and why."""
    try:
        method = entry.usable()
        entry.require(method.resolve(entry.name, method.presets.get(DEFAULT_PRESET, {})))
    except Unavailable as error:
        return f"missing: {error}"
    except XmcbenchError as error:
        return f"broken: {entry.problem or error}"
    return "ok"


def leave_out(name: str, error: XmcbenchError, request: Request) -> Skipped:
    """A method that is left out. Raises the error where the request names the method, and says which it is."""
    named = not everything(request)
    if named and not isinstance(error, PluginError):
        if isinstance(error, Unavailable) and not error.message.startswith(name):
            raise Unavailable(f"{name}: {error.message}", error.hint) from error
        raise error
    return Skipped(name, error.message, error.hint, named)


def everything(request: Request) -> bool:
    """Whether a request is for all methods, so that it is met without one that cannot run."""
    return list(request.methods) == ["all"]


def _methods(request: Request, registry: Registry) -> list[tuple[str, str | None]]:
    """(name, own preset) of every method of a request."""
    names = [entry.name for entry in _parts_first(registry)] if everything(request) else request.methods
    split = (name.partition(":") for name in names)
    return [(method, preset if colon else None) for method, colon, preset in split]


def _parts_first(registry: Registry) -> list[Entry]:
    """All methods; those that use others come last, and find what the others have left."""
    return sorted(registry, key=lambda entry: entry.description is not None and entry.description.uses)


def _presets(entry: Entry) -> Mapping[str, Mapping[str, object]]:
    return entry.description.presets if entry.description else {}


def _rows(request: Request, registry: Registry, elsewhere: Set[str]) -> tuple[list[Row], list[Skipped]]:
    """The rows of a request, and the methods left out. elsewhere: methods that are requested with pairs, too."""
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for name, own_preset in _methods(request, registry):
        entry = registry[name]
        try:
            method = entry.usable()
            preset = "" if request.complete else _chosen_preset(method, name, own_preset, request.preset)
            # Resolve twice, so that changes are parsed and checked by the same rules as presets.
            base = method.resolve(name, method.presets.get(preset, {}))
            changes = _combinations(name, request.overrides.get(name, {}))
            chosen = [method.resolve(name, {**base, **each}) for each in changes]
            entry.ask_ahead("describe", chosen)
            entry.ask_ahead("uses", chosen)
            entry.ask_ahead("inputs", chosen)
            for values in chosen:
                _check_supervision(name, values, request, registry)
                rows.append(Row(entry, method, preset, values, _variant(entry, preset, values)))
        except _NeedsPairs as error:
            if name not in elsewhere and not everything(request):
                raise
            skipped.append(Skipped(name, error.reason(name), error.hint))
        except XmcbenchError as error:
            if isinstance(error, UnknownName):
                raise
            skipped.append(leave_out(name, error, request))
    return rows, skipped


class _NeedsPairs(UsageError):
    """A method that needs pairs, in the zero-shot setting. needy: this method, or one that it uses."""

    def __init__(self, needy: str) -> None:
        self._needy = needy
        super().__init__(self.reason(""), "use --setting fs or full")

    def reason(self, method: str) -> str:
        """Why this method is left out."""
        needy = "it" if self._needy == method else self._needy
        return f"{needy} needs pairs, and the zero-shot setting has none"


def _check_supervision(name: str, values: Values, request: Request, registry: Registry) -> None:
    if request.setting.kind == "ez":
        entries = registry.resolve(name, values).entries
        if needy := [entry.name for entry in entries if entry.usable().supervision == "required"]:
            raise _NeedsPairs(needy[0])


def _combinations(name: str, given: Mapping[str, object]) -> list[dict[str, object]]:
    """Every choice of one value for each parameter, the last one changing fastest. Raises UsageError."""
    choices = []
    for parameter, value in given.items():
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise UsageError(f"{name}.{parameter} has no value", "give one value, or several to get one row for each")
        choices.append([(parameter, each) for each in values])
    return [dict(chosen) for chosen in product(*choices)]


def _chosen_preset(method: Description, name: str, own: str | None, common: str | None) -> str:
    """The preset of a row: its own must exist; one for all methods is used by those that have it."""
    if own is not None and own not in method.presets:
        raise UnknownName("preset", own, method.presets, where=f"of {name}")
    wanted = own or common or DEFAULT_PRESET
    return wanted if wanted in method.presets else ""


def _variant(entry: Entry, preset: str, values: Values) -> str:
    """The part of a row's name after the title: preset, the method's description, changes of the preset."""
    method = entry.usable()
    base = method.resolve(entry.name, method.presets.get(preset, {}))
    changes = [
        f"{name}={_short(value)}"
        for name, value in values.items()
        if value != base[name] and name not in method.described
    ]
    return ", ".join(filter(None, [preset, entry.describe(values), *changes]))


def _short(value: object) -> object:
    """A value in a row's name: only the last part of a path."""
    return value.rstrip("/").rpartition("/")[2] or value if isinstance(value, str) else value
