"""From rows to cells: which will run, and which already have a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from xmcbench import parameters
from xmcbench.errors import PluginError, StorageError, UnknownName, UsageError, XmcbenchError
from xmcbench.plugins.description import Description, Values
from xmcbench.plugins.registry import Entry, Registry
from xmcbench.records import Cell, Record, Standing, Store
from xmcbench.records.differences import differences
from xmcbench.records.record_json import DamagedRecord, check_readable
from xmcbench.runner.rescoring import can_rank_again, is_outdated
from xmcbench.runner.rows import Request, Row, Skipped, everything, leave_out, request_for, resolve
from xmcbench.runner.training import training_key, training_name
from xmcbench.setting import Setting, Subset, draw

if TYPE_CHECKING:
    from xmcbench.data import Dataset

State = Literal["to run", "cached", "stale"]

_RENAME = "rename a folder, or set another name in its card.toml"


@dataclass(frozen=True)
class PlannedCell:
    """A cell with everything needed to run it.

    request: the index of its request. damage: what is wrong with the file of its record, empty if nothing. parts: the
    methods whose rankings it uses, each with all its parameters. trainings: name -> key of its training and of theirs.
    needs, packages, environment: what it and they declare. plugins: the files that hold them where they are not
    installed.
    """

    cell: Cell
    row: Row
    dataset: Dataset
    request: int
    loaded_by: str
    subset: Subset | None
    source_sha256: str
    record: Record | None
    state: State
    damage: str = ""
    parts: tuple[tuple[str, Mapping[str, object]], ...] = ()
    trainings: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, int] = field(default_factory=dict)
    packages: Set[str] = frozenset()
    environment: Set[str] = frozenset()
    plugins: tuple[Path, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """Parameter -> the file, folder, or model that it names, where the cell has its content instead."""
        given = self.row.values
        return {name: str(given[name]) for name, value in self.cell.parameters.items() if value != given[name]}

    @property
    def name(self) -> str:
        """The row's name: title and variant."""
        return f"{self.row.title} ({self.row.variant})" if self.row.variant else self.row.title


@dataclass(frozen=True)
class Plan:
    """All cells of the requests, by method in the requested order, then by seed; and the methods left out."""

    requests: tuple[Request, ...]
    cells: list[PlannedCell]
    skipped: list[Skipped]
    standing: Standing

    @property
    def named(self) -> frozenset[str]:
        """The methods that a request names, so that it is not met without them."""
        return frozenset(cell.cell.method for cell in self.cells if not everything(self.requests[cell.request]))


def plan(
    requests: Sequence[Request],
    registry: Registry,
    store: Store,
    *,
    force: bool = False,
    refresh: bool = False,
    runs: bool = True,
) -> Plan:
    """The cells of requests. force: run finished cells again; refresh: those that are stale.

    runs: whether the cells will be run; if not, nothing that they need has to be here.

    Raises what ``resolve`` and loading a dataset raise, and PluginError if every named method is broken.
    """
    from xmcbench.data import load_dataset

    again = {*(["cached", "stale"] if force else []), *(["stale"] if refresh else [])}
    cells: dict[str, PlannedCell] = {}
    left_out: list[tuple[Request, Skipped]] = []
    datasets: dict[str, Dataset] = {}
    used: set[str] = set()
    for number, (request, (rows, skipped)) in enumerate(zip(requests, resolve(requests, registry), strict=True)):
        left_out += [(request, each) for each in skipped]
        if request.dataset not in datasets:
            datasets[request.dataset] = load_dataset(request.dataset)
            _check_names(datasets, store)
        dataset = datasets[request.dataset]
        subsets = draw_subsets(dataset, request.setting, request.seeds)
        for row in rows:
            try:
                resolved = registry.resolve(row.entry.name, row.values)
                source, plugins = resolved.source_sha256, resolved.files
                uses = [entry.name for entry in resolved.entries]
                declared = [entry.usable() for entry in resolved.entries]
                trained = [(entry.name, _identity(entry, values)) for entry, values in resolved.through]
                needs = _needs(declared)
                packages = frozenset(chain.from_iterable(method.packages for method in declared))
                environment = frozenset(chain.from_iterable(method.environment for method in declared))
                identity = trained[0][1]
                standing = registry.standing(store.root, uses)
                made = [
                    _planned(row, identity, source, number, request, dataset, subsets[seed], seed, store, standing)
                    for seed in request.seeds
                ]
                made = [
                    replace(
                        each,
                        parts=tuple(trained[1:]),
                        trainings={
                            training_name(name, values): training_key(each.cell, name, values, registry[name].usable())
                            for name, values in trained
                        },
                        needs=needs,
                        packages=packages,
                        environment=environment,
                        plugins=plugins,
                        state="to run" if each.state in again else each.state,
                    )
                    for each in made
                ]
                if runs and any(each.state == "to run" for each in made):  # a finished cell needs nothing anymore
                    of_parts = [each for each in plugins if each != row.entry.plugin]
                    if not of_parts:
                        row.entry.ask_ahead("require", [each.values for each in rows if each.entry is row.entry])
                    row.entry.require(row.values, of_parts)
            except XmcbenchError as error:
                if isinstance(error, UnknownName | StorageError):
                    raise
                left_out.append((request, leave_out(row.entry.name, error, request)))
                continue
            used |= {*uses}
            for planned in made:
                cells.setdefault(planned.cell.key, planned)
    missing = _left_out(left_out, {planned.cell.method for planned in cells.values()})
    broken = [each for each in missing if each.named]
    if broken and not cells:
        raise PluginError(broken[0].reason, broken[0].hint)
    return Plan(tuple(requests), [*cells.values()], missing, registry.standing(store.root, used))


def plan_again(
    record: Record,
    dataset: str,
    registry: Registry,
    store: Store,
    *,
    force: bool = False,
    refresh: bool = False,
    gained: bool = False,
) -> Plan:
    """The plan of the cell of a record, by the data and the methods of today.

    dataset: its name or folder. gained: whether parameters that the method has gained since may be there, with their
    defaults. Raises UsageError where another cell is selected today, and what ``plan`` raises.
    """
    planned = plan([request_for(record, dataset, registry)], registry, store, force=force, refresh=refresh)
    today = planned.cells[0].cell
    if today.dataset_sha256 != record.cell.dataset_sha256:
        raise UsageError(
            f"the data of {today.dataset} have changed since {record.name} was run on them",
            "restore them, or give a folder that has them: --dataset FOLDER",
        )
    before, now = (msgspec.to_builtins(each) for each in (record.cell, today))
    if gained:
        now["parameters"] = {name: each for name, each in now["parameters"].items() if name in before["parameters"]}
    if apart := [place for place, *_ in differences(before, now, "cell")]:
        raise UsageError(f"{record.name} now selects a different cell", f"changed since: {', '.join(apart)}")
    return planned


def _check_names(datasets: Mapping[str, Dataset], store: Store) -> None:
    """Raise UsageError where two datasets of one name differ: their results would be taken for those of one.

    Names that differ in case only are one name too: their files and pages have the same paths.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for place, dataset in datasets.items():
        there = store.dataset_named(dataset.name)
        if there not in (None, dataset.name):
            raise UsageError(
                f"{store.root} has results of the dataset {there}, whose name differs from {dataset.name} in case only",
                f"{_RENAME}, or choose another --runs",
            )
        other, name, digest = found.setdefault(dataset.name.lower(), (place, dataset.name, dataset.digest))
        if (name, digest) != (dataset.name, dataset.digest):
            shared = dataset.name if name == dataset.name else f"{name}, or {dataset.name}"
            raise UsageError(f"{other} and {place} are two datasets with the name {shared}", _RENAME)


def draw_subsets(dataset: Dataset, setting: Setting, seeds: Sequence[int]) -> dict[int, Subset | None]:
    """The dataset's subset for each seed; the zero-shot setting does not read the pairs.

    Raises UsageError for another setting where there are no training pairs.
    """
    if setting.kind == "ez":
        return dict.fromkeys(seeds)
    if not dataset.train_corpus.pairs:
        raise UsageError(f"{dataset.name} has no training pairs", "use --setting ez")
    pattern = dataset.train_pattern()
    return {seed: draw(pattern, setting, seed) for seed in seeds}


def _left_out(found: Sequence[tuple[Request, Skipped]], running: Set[str]) -> list[Skipped]:
    """What was left out, once for each method and reason; with the settings if others have the method."""
    merged: dict[tuple[str, str], Skipped] = {}
    for request, each in found:
        known = merged.get((each.method, each.reason), each)
        where = dict.fromkeys([*known.where, request.setting.slug]) if each.method in running else ()
        merged[each.method, each.reason] = replace(each, where=tuple(where))
    return [*merged.values()]


def _identity(entry: Entry, values: Mapping[str, object]) -> Values:
    """Return the parameters that identify a cell: with the content of the files and models that they name."""
    whole: dict[str, Any] = {**values, **entry.contents(values)}
    return parameters.identity(entry.usable().parameters, whole)


def _planned(
    row: Row,
    identity: Values,
    source: str,
    number: int,
    request: Request,
    dataset: Dataset,
    subset: Subset | None,
    seed: int,
    store: Store,
    standing: Standing,
) -> PlannedCell:
    try:
        cell = Cell(
            dataset=dataset.name,
            dataset_sha256=dataset.digest,
            setting=request.setting,
            subset_sha256=subset.digest if subset else None,
            method=row.entry.name,
            parameters=identity,
            seed=seed,
        )
        check_readable(cell)
    except ValueError as error:
        raise UsageError(f"{row.entry.name} on {dataset.name}: {error}", "change the name or the parameter") from None
    damage, record = "", None
    try:
        record = store.find(cell)
    except DamagedRecord as error:  # it has no result that could be lost
        damage = error.message
    state: State = "to run"
    if record is not None and record.finished:
        again = can_rank_again(record, store, standing)
        state = "stale" if standing.stale(record) and not (again and not standing.stale_source(record)) else "cached"
        damage = "" if again else _damage(record, dataset, store, standing)
    return PlannedCell(
        cell, row, dataset, number, request.dataset, subset, source, record, "to run" if damage else state, damage
    )


def _damage(record: Record, dataset: Dataset, store: Store, standing: Standing) -> str:
    """What is wrong with the ranks of a record whose figures have to be computed again; empty if nothing."""
    try:
        if is_outdated(record, dataset.card.filter, dataset.propensity, standing):
            store.ranks(record, store.truth(record))
    except StorageError as error:
        return error.message
    return ""


def _needs(methods: Sequence[Description]) -> dict[str, int]:
    """Return the most that one of the methods needs, of each resource."""
    needs = [method.needs for method in methods]
    return {resource: max(needed.get(resource, 0) for needed in needs) for resource in {*chain(*needs)}}
