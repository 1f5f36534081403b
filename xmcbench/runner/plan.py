"""From requests to cells: which are to run, which have their record already, which cannot run and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from xmcbench import parameters
from xmcbench.errors import PluginError, StorageError, Unavailable, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method
from xmcbench.records import Cell, Record, Standing, Store
from xmcbench.records.standing import valid_sources
from xmcbench.registry import DEFAULT_PRESET, Entry, Registry
from xmcbench.setting import Setting, Subset, draw

if TYPE_CHECKING:
    from xmcbench.data import Dataset

State = Literal["to run", "cached", "stale"]


@dataclass(frozen=True)
class Request:
    """What a user asks for on one dataset, in one setting.

    dataset: its name or folder. methods: names, each with a preset after a colon if it is to have one of its own
    (``tfidf:sklearn``), or ``all``. preset: taken by the methods that have it; one method of all requests must.
    overrides: method -> parameter -> value (text or typed).
    """

    dataset: str
    setting: Setting
    methods: Sequence[str] = ("all",)
    preset: str | None = None
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)


@dataclass(frozen=True)
class Row:
    """A method with all its parameters, under one request."""

    entry: Entry
    method: type[Method]
    preset: str
    values: Mapping[str, object]
    variant: str

    @property
    def title(self) -> str:
        """The method's name in tables."""
        return self.method.title or self.entry.name


@dataclass(frozen=True)
class PlannedCell:
    """A cell with all that is needed to run it. request: the number of the request that it belongs to."""

    cell: Cell
    row: Row
    dataset: Dataset
    request: int
    loaded_by: str
    subset: Subset | None
    source_sha256: str
    record: Record | None
    state: State

    @property
    def name(self) -> str:
        """The row's name: title and variant."""
        return f"{self.row.title} ({self.row.variant})" if self.row.variant else self.row.title


@dataclass(frozen=True)
class Skipped:
    """A method that was asked for and cannot run: one line why, and what brings it."""

    method: str
    reason: str
    hint: str

    def __str__(self) -> str:
        return f"{self.method} is left out: {self.reason}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True)
class Plan:
    """All cells of the requests, methods in the order asked for and seeds within, and what is left out."""

    requests: tuple[Request, ...]
    cells: list[PlannedCell]
    skipped: list[Skipped]
    standing: Standing


def resolve(requests: Sequence[Request], registry: Registry) -> list[tuple[list[Row], list[Skipped]]]:
    """The rows of every request, and what is left out of it: all that can be checked before any data are loaded.

    A method named by the user that cannot run is an error; under ``all`` it is left out with its reason.
    Raises UnknownName, UsageError, PluginError, Unavailable.
    """
    named = {name for request in requests for name, _ in _methods(request, registry)}
    for request in requests:
        for name, values in request.overrides.items():
            if name not in named:
                raise UsageError(f"--set {name}: {name} is not among the methods of this run", "add it to --methods")
            if method := registry[name].method:
                parameters.resolve(method, name, values)  # a wrong value is wrong under `all` too
        if request.preset is not None:
            known = {preset for name in named for preset in _presets(registry[name])}
            if request.preset not in known:
                raise UnknownName("preset", request.preset, known)
    return [_rows(request, registry) for request in requests]


def plan(
    requests: Sequence[Request], registry: Registry, store: Store, *, force: bool = False, refresh: bool = False
) -> Plan:
    """The cells of requests. force: run finished cells again; refresh: those that are stale.

    Raises what ``resolve`` raises, and what loading a dataset raises.
    """
    from xmcbench.data import load_dataset

    again = {*(["cached", "stale"] if force else []), *(["stale"] if refresh else [])}
    cells: dict[str, PlannedCell] = {}
    left_out: dict[str, Skipped] = {}
    datasets: dict[str, Dataset] = {}
    used: set[str] = set()
    for number, (request, (rows, skipped)) in enumerate(zip(requests, resolve(requests, registry), strict=True)):
        left_out |= {each.method: each for each in skipped}
        if request.dataset not in datasets:
            datasets[request.dataset] = load_dataset(request.dataset)
        dataset = datasets[request.dataset]
        subsets = {seed: draw_subset(dataset, request.setting, seed) for seed in request.seeds}
        for row in rows:
            try:
                source = registry.source(row.entry.name, row.values)
                made = [
                    _planned(row, source, number, request, dataset, subsets[seed], seed, store)
                    for seed in request.seeds
                ]
                made = [replace(each, state="to run") if each.state in again else each for each in made]
                if any(each.state == "to run" for each in made):  # a finished cell needs nothing any more
                    with _blamed(row.entry.name):
                        row.method(**row.values).require()
            except XmcbenchError as error:
                if not _everything(request) or isinstance(error, UnknownName | StorageError):
                    raise
                left_out[row.entry.name] = Skipped(row.entry.name, error.message, error.hint)
                continue
            used |= {*registry.used(row.entry.name, row.values)}
            for planned in made:
                cells.setdefault(planned.cell.key, planned)
    return Plan(tuple(requests), [*cells.values()], [*left_out.values()], registry.standing(used))


def draw_subset(dataset: Dataset, setting: Setting, seed: int) -> Subset | None:
    """The dataset's subset under a setting; the zero-shot setting does not even read the pairs."""
    return None if setting.kind == "ez" else draw(dataset.train_pairs(), setting, seed)


def request_for(record: Record, dataset: str, registry: Registry) -> Request:
    """What gives the cell of a record again, under the name that its row has. Raises what ``resolve`` raises.

    dataset: the name or folder that it is loaded by.
    """
    cell = record.cell
    entry = registry[cell.method]
    method = entry.usable()
    values = parameters.resolve(method, entry.name, cell.parameters)
    preset = next((each for each in method.presets if _variant(method, each, values) == record.method.variant), None)
    name = f"{cell.method}:{preset}" if preset else cell.method
    return Request(dataset, cell.setting, (name,), None, {cell.method: values}, (cell.seed,))


def variants(entry: Entry, values: Mapping[str, object]) -> list[str]:
    """All that a row of these parameters can be called besides its title, by the preset it was made from.

    Raises UsageError for parameters that the method does not have, PluginError, Unavailable.
    """
    method = entry.usable()
    whole = parameters.resolve(method, entry.name, values)
    return [_variant(method, preset, whole) for preset in ("", *method.presets)]


def status(entry: Entry) -> str:
    """Whether a method could run here as it is: ok; missing, and what brings it; or broken, and how."""
    try:
        method = entry.usable()
        with _blamed(entry.name):
            method(**method.presets.get(DEFAULT_PRESET, {})).require()
    except Unavailable as error:
        return f"missing: {error}"
    except XmcbenchError as error:
        return f"broken: {entry.problem or error}"
    return "ok"


def _everything(request: Request) -> bool:
    return list(request.methods) == ["all"]


def _methods(request: Request, registry: Registry) -> list[tuple[str, str | None]]:
    """(name, preset of its own) of every method of a request."""
    names = [entry.name for entry in _parts_first(registry)] if _everything(request) else request.methods
    split = (name.partition(":") for name in names)
    return [(method, preset if colon else None) for method, colon, preset in split]


def _parts_first(registry: Registry) -> list[Entry]:
    """All methods; those that use others come last, and find what the others have left."""
    return sorted(registry, key=lambda entry: entry.method is not None and entry.method.uses is not Method.uses)


def _presets(entry: Entry) -> Mapping[str, Mapping[str, object]]:
    return entry.method.presets if entry.method else {}


def _rows(request: Request, registry: Registry) -> tuple[list[Row], list[Skipped]]:
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for name, own_preset in _methods(request, registry):
        entry = registry[name]
        try:
            method = entry.usable()
            preset = _chosen_preset(method, name, own_preset, request.preset)
            # Resolved twice, so that a change is checked and parsed by the same rules as a preset.
            base = parameters.resolve(method, name, method.presets.get(preset, {}))
            values = parameters.resolve(method, name, {**base, **request.overrides.get(name, {})})
            needy = [each for each in registry.used(name, values) if registry[each].usable().supervision == "required"]
            if request.setting.kind == "ez" and needy:
                raise UsageError(
                    f"{needy[0]} learns from pairs and the zero-shot setting has none", "run it under fs or full"
                )
            rows.append(Row(entry, method, preset, values, _variant(method, preset, values)))
        except XmcbenchError as error:
            if not _everything(request) or isinstance(error, UnknownName):
                raise
            skipped.append(Skipped(name, error.message, error.hint))
    return rows, skipped


def _chosen_preset(method: type[Method], name: str, own: str | None, common: str | None) -> str:
    """The preset a row takes: its own must exist; one asked of all methods is taken by those that have it."""
    if own is not None and own not in method.presets:
        raise UnknownName(f"preset of {name}:", own, method.presets)
    wanted = own or common or DEFAULT_PRESET
    return wanted if wanted in method.presets else ""


def _planned(
    row: Row,
    source: str,
    number: int,
    request: Request,
    dataset: Dataset,
    subset: Subset | None,
    seed: int,
    store: Store,
) -> PlannedCell:
    cell = Cell(
        dataset=dataset.name,
        dataset_sha256=dataset.digest,
        setting=request.setting,
        subset_sha256=subset.digest if subset else None,
        method=row.entry.name,
        parameters=dict(row.values),  # type: ignore[arg-type] # checked when they were resolved
        seed=seed,
    )
    record = store.find(cell)
    state: State = "to run"
    if record is not None and record.ok:
        state = "cached" if source in valid_sources(record) else "stale"
    return PlannedCell(cell, row, dataset, number, request.dataset, subset, source, record, state)


def _variant(method: type[Method], preset: str, values: Mapping[str, object]) -> str:
    """What a row's name says besides the title: preset, what the method says of itself, changes of the preset."""
    with _blamed(method.__name__):
        base = method(**method.presets.get(preset, {}))
        changes = [
            f"{name}={_short(value)}"
            for name, value in values.items()
            if value != getattr(base, name) and name not in method.described
        ]
        return ", ".join(filter(None, [preset, method(**values).describe(), *changes]))


def _short(value: object) -> object:
    """A value in a row's name: of a path the last part, which is what a reader knows it by."""
    return value.rstrip("/").rpartition("/")[2] or value if isinstance(value, str) else value


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """What a method's own code raises while it is asked about itself is the method's failure, not that of the plan."""
    try:
        yield
    except XmcbenchError:
        raise
    except Exception as error:
        raise PluginError(f"{name} cannot be asked about itself: {type(error).__name__}: {error}") from error
