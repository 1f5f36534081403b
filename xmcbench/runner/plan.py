"""From a request to cells: which are to run, which have their record already, which cannot run and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from xmcbench import parameters
from xmcbench.errors import PluginError, StorageError, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method
from xmcbench.records import Cell, Record, Standing, Store
from xmcbench.records.standing import valid_sources
from xmcbench.registry import Entry, Registry
from xmcbench.setting import Setting, Subset, draw
from xmcbench.storage.source import source_digest

if TYPE_CHECKING:
    from xmcbench.data import Dataset

#: The preset a run takes where nothing else is asked for and the method has it: a few minutes on two cores.
DEFAULT_PRESET = "quick"

State = Literal["to run", "cached", "stale"]


@dataclass(frozen=True)
class Request:
    """What a user asks for.

    methods: names, each with a preset after a colon if it is to have one of its own (``tfidf:sklearn``), or ``all``.
    preset: taken by the methods that have it; one of them must, or one of ``beside``, where this is a part of a larger
    request. overrides: method -> parameter -> value (text or typed).
    """

    setting: Setting
    methods: Sequence[str] = ("all",)
    preset: str | None = None
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    beside: Sequence[str] = ()


@dataclass(frozen=True)
class PlannedCell:
    """A cell with all that is needed to run it."""

    cell: Cell
    method: type[Method]
    title: str
    variant: str
    subset: Subset | None
    source: str
    record: Record | None
    state: State
    plugin: Path | None = None

    @property
    def name(self) -> str:
        """The row's name: title and variant."""
        return f"{self.title} ({self.variant})" if self.variant else self.title


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
    """All cells of a request, methods in the order asked for and seeds within, and what is left out."""

    cells: list[PlannedCell]
    skipped: list[Skipped]

    @property
    def standing(self) -> Standing:
        """Today's code of the methods in the plan."""
        return Standing({each.cell.method: each.source for each in self.cells})


def plan(
    request: Request, dataset: Dataset, registry: Registry, store: Store, force: bool = False, refresh: bool = False
) -> Plan:
    """The cells of a request on a dataset. force: run finished cells again; refresh: those that are stale.

    A method named by the user that cannot run is an error; under ``all`` it is left out with its reason.
    Raises UnknownName, UsageError, PluginError, Unavailable.
    """
    everything = list(request.methods) == ["all"]
    names = [entry.name for entry in registry] if everything else list(request.methods)
    methods = [_split(name) for name in names]
    for name, values in request.overrides.items():
        if name not in [method for method, _ in methods]:
            raise UsageError(f"--set names {name!r}, which is not among the methods of this run", "add it to --methods")
        if method := registry[name].method:
            parameters.resolve(method, name, values)  # a wrong value is wrong under `all` too
    if request.preset is not None:
        beside = [_split(name) for name in request.beside]
        known = {preset for name, _ in (*methods, *beside) for preset in _presets(registry[name])}
        if request.preset not in known:
            raise UnknownName("preset", request.preset, known)
    subsets = {seed: draw_subset(dataset, request.setting, seed) for seed in request.seeds}
    cells: list[PlannedCell] = []
    skipped: list[Skipped] = []
    for name, preset in methods:
        entry = registry[name]
        try:
            chosen = _chosen_preset(entry.usable(), name, preset, request.preset)
            _check_supervision(entry, request.setting)
            values = _values(entry, chosen, request)
            made = [
                _planned(entry, chosen, values, request, dataset, subsets[seed], seed, store) for seed in request.seeds
            ]
            again = {*(["cached", "stale"] if force else []), *(["stale"] if refresh else [])}
            made = [replace(each, state="to run") if each.state in again else each for each in made]
            if any(each.state == "to run" for each in made):  # a finished cell needs nothing any more
                with _blamed(name):
                    entry.usable()(**values).require()
        except XmcbenchError as error:
            if not everything or isinstance(error, UnknownName | StorageError):
                raise
            skipped.append(Skipped(name, error.message, error.hint))
            continue
        for planned in made:
            if planned.cell.key not in {each.cell.key for each in cells}:
                cells.append(planned)
    return Plan(cells, skipped)


def draw_subset(dataset: Dataset, setting: Setting, seed: int) -> Subset | None:
    """The dataset's subset under a setting; the zero-shot setting does not even read the pairs."""
    return None if setting.kind == "ez" else draw(dataset.train_pairs(), setting, seed)


def _split(name: str) -> tuple[str, str | None]:
    method, colon, preset = name.partition(":")
    return method, preset if colon else None


def _presets(entry: Entry) -> Mapping[str, Mapping[str, object]]:
    return entry.method.presets if entry.method else {}


def _chosen_preset(method: type[Method], name: str, own: str | None, common: str | None) -> str:
    """The preset a row takes: its own must exist; one asked of all methods is taken by those that have it."""
    if own is not None and own not in method.presets:
        raise UnknownName(f"preset of {name}:", own, method.presets)
    wanted = own or common or DEFAULT_PRESET
    return wanted if wanted in method.presets else ""


def _check_supervision(entry: Entry, setting: Setting) -> None:
    method = entry.usable()
    if setting.kind == "ez" and method.supervision == "required":
        raise UsageError(
            f"{entry.name} learns from pairs and the zero-shot setting has none", "run it under fs or full"
        )


def _values(entry: Entry, preset: str, request: Request) -> dict[str, object]:
    """Every parameter of a row: the preset's, with the request's changes."""
    method = entry.usable()
    # Resolved twice, so that a change is checked and parsed by the same rules as a preset.
    base = parameters.resolve(method, entry.name, method.presets.get(preset, {}))
    return parameters.resolve(method, entry.name, {**base, **request.overrides.get(entry.name, {})})


def _planned(
    entry: Entry,
    preset: str,
    values: dict[str, object],
    request: Request,
    dataset: Dataset,
    subset: Subset | None,
    seed: int,
    store: Store,
) -> PlannedCell:
    method = entry.usable()
    cell = Cell(
        dataset=dataset.name,
        dataset_sha256=dataset.digest,
        setting=request.setting,
        subset_sha256=subset.digest if subset else None,
        method=entry.name,
        parameters=values,  # type: ignore[arg-type] # checked when they were resolved
        seed=seed,
    )
    source = source_digest(method)
    record = store.find(cell)
    state: State = "to run"
    if record is not None and record.ok:
        state = "cached" if source in valid_sources(record) else "stale"
    variant = _variant(method, preset, values)
    return PlannedCell(cell, method, method.title or entry.name, variant, subset, source, record, state, entry.plugin)


def _variant(method: type[Method], preset: str, values: dict[str, object]) -> str:
    """What a row's name says besides the title: preset, what the method says of itself, changes of the preset."""
    with _blamed(method.__name__):
        base = method(**method.presets.get(preset, {}))
        changes = [f"{name}={value}" for name, value in values.items() if value != getattr(base, name)]
        return ", ".join(filter(None, [preset, method(**values).describe(), *changes]))


def request_for(record: Record, registry: Registry) -> Request:
    """What gives the cell of a record again, under the name that its row has. Raises what ``plan`` raises."""
    cell = record.cell
    entry = registry[cell.method]
    method = entry.usable()
    values = parameters.resolve(method, entry.name, cell.parameters)
    preset = next((each for each in method.presets if _variant(method, each, values) == record.method.variant), None)
    name = f"{cell.method}:{preset}" if preset else cell.method
    return Request(cell.setting, (name,), None, {cell.method: values}, (cell.seed,))


def variants(entry: Entry, values: Mapping[str, object]) -> list[str]:
    """All that a row of these parameters can be called besides its title, by the preset it was made from.

    Raises UsageError for parameters that the method does not have, PluginError, Unavailable.
    """
    method = entry.usable()
    whole = parameters.resolve(method, entry.name, values)
    return [_variant(method, preset, whole) for preset in ("", *method.presets)]


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """What a method's own code raises while it is asked about itself is the method's failure, not that of the plan."""
    try:
        yield
    except XmcbenchError:
        raise
    except Exception as error:
        raise PluginError(f"{name} cannot be asked about itself: {type(error).__name__}: {error}") from error
