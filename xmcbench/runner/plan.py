"""From rows to cells: the cells that will run, and those that already have a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from xmcbench.data.card import is_limited
from xmcbench.errors import PluginError, StorageError, UnknownName, UsageError, XmcbenchError
from xmcbench.plugins.description import Description, Values
from xmcbench.plugins.registry import Registry, Resolved
from xmcbench.records import Cell, Record, Staleness, Store
from xmcbench.records.record_json import DamagedRecord, check_readable, differences
from xmcbench.runner.job import training_key, training_name
from xmcbench.runner.rows import Request, Row, Skipped, is_for_all, leave_out, request_for, resolve
from xmcbench.runner.scoring import can_rank_again, is_outdated
from xmcbench.setting import Setting, Subset, draw

if TYPE_CHECKING:
    from xmcbench.data import Dataset

State = Literal["to run", "cached", "stale"]

_RENAME = "rename a folder, or set another name in its card.toml"


@dataclass(frozen=True)
class PlannedCell:
    """A cell with all that is needed to run it.

    request: the index of its request. damage: a description of damage to its record, else empty. parts: the methods
    whose rankings it uses, each with all its parameters. trainings: name -> key of its own training and those of its
    parts. needs, packages, environment: declared by its method and its parts. plugins: their files, if not installed.
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
        """Parameter -> the file, folder, or model that it names, if the cell has its content instead."""
        given = self.row.values
        return {name: str(given[name]) for name, value in self.cell.parameters.items() if value != given[name]}

    @property
    def name(self) -> str:
        """The row's name: title and variant."""
        return self.row.name


@dataclass(frozen=True)
class Plan:
    """All cells of the requests, by method in the requested order, then by seed; and the methods left out."""

    requests: tuple[Request, ...]
    cells: list[PlannedCell]
    skipped: list[Skipped]
    staleness: Staleness

    @property
    def named(self) -> frozenset[str]:
        """The methods that a request names, so that they must not be left out."""
        return frozenset(cell.cell.method for cell in self.cells if not is_for_all(self.requests[cell.request]))


def plan(
    requests: Sequence[Request],
    registry: Registry,
    store: Store,
    *,
    force: bool = False,
    refresh: bool = False,
    runs: bool = True,
) -> Plan:
    """Plan the cells of requests. Raises as ``resolve``, and PluginError if every named method is broken.

    force: run finished cells again. refresh: run stale cells again. runs: whether the cells will be run, with
    requirements.
    """
    from xmcbench.data import load_dataset

    again = {*(["cached", "stale"] if force else []), *(["stale"] if refresh else [])}
    cells: dict[str, PlannedCell] = {}
    left_out: list[tuple[Request, Skipped]] = []
    datasets: dict[str, Dataset] = {}
    for number, (request, (rows, skipped)) in enumerate(zip(requests, resolve(requests, registry), strict=True)):
        left_out += [(request, method) for method in skipped]
        if request.dataset not in datasets:
            datasets[request.dataset] = load_dataset(request.dataset)
            _check_names(datasets, store)
        dataset = datasets[request.dataset]
        subsets = draw_subsets(dataset, request.setting, request.seeds)
        for row in rows:
            try:
                resolved = registry.resolve(row.entry.name, row.values)
                planned = _plan_row(row, resolved, number, request, dataset, subsets, registry, store, again)
                if runs and any(cell.state == "to run" for cell in planned):  # a finished cell has no requirements
                    part_files = [file for file in resolved.files if file != row.entry.plugin]
                    if not part_files:
                        row.entry.ask_ahead("require", [other.values for other in rows if other.entry is row.entry])
                    row.entry.require(row.values, part_files)
            except (UnknownName, StorageError):
                raise
            except XmcbenchError as error:
                left_out.append((request, leave_out(row.entry.name, error, request)))
                continue
            for cell in planned:
                cells.setdefault(cell.cell.key, cell)
    missing = _merge_skipped(left_out, {planned.cell.method for planned in cells.values()})
    broken = [method for method in missing if method.named]
    if broken and not cells:
        raise PluginError(broken[0].reason, broken[0].hint)
    return Plan(tuple(requests), [*cells.values()], missing, registry.staleness(store.root))


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
    """Plan the cell of a record with today's data and methods.

    dataset: its name or folder. gained: whether the method may have new parameters, with their defaults. Raises
    UsageError if the request selects a different cell today, and as ``plan`` does.
    """
    planned = plan([request_for(record, dataset, registry)], registry, store, force=force, refresh=refresh)
    today = planned.cells[0].cell
    if today.dataset_sha256 != record.cell.dataset_sha256:
        raise UsageError(
            f"the data of {today.dataset} have changed since {record.name} was run on them",
            "restore them, or give a folder that has them: --dataset FOLDER",
        )
    before, now = map(msgspec.to_builtins, (record.cell, today))
    if gained:
        now["parameters"] = {name: value for name, value in now["parameters"].items() if name in before["parameters"]}
    if apart := [path for path, *_ in differences(before, now, "cell")]:
        raise UsageError(f"{record.name} now selects a different cell", f"changed since: {', '.join(apart)}")
    return planned


def _check_names(datasets: Mapping[str, Dataset], store: Store) -> None:
    """Raise UsageError if two datasets have the same name, or a board would get results on a part of one.

    Names that differ only in case are the same, because their files and pages may have the same paths.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for path, dataset in datasets.items():
        if is_limited(dataset.name) and store.is_packed():
            what = f"{store.root} is a board, which takes no results on some documents of a dataset"
            raise UsageError(what, "choose another --runs, or leave out --limit")
        there = store.dataset_named(dataset.name)
        if there not in (None, dataset.name):
            raise UsageError(
                f"{store.root} has results of the dataset {there}, whose name differs from {dataset.name} in case only",
                f"{_RENAME}, or choose another --runs",
            )
        other, name, digest = found.setdefault(dataset.name.lower(), (path, dataset.name, dataset.digest))
        if (name, digest) != (dataset.name, dataset.digest):
            shared = dataset.name if name == dataset.name else f"{name}, or {dataset.name}"
            raise UsageError(f"{other} and {path} are two datasets with the name {shared}", _RENAME)


def draw_subsets(dataset: Dataset, setting: Setting, seeds: Sequence[int]) -> dict[int, Subset | None]:
    """Return a dataset's subset of every seed; for ez, pairs are not read. Raises UsageError without training pairs."""
    if setting.kind == "ez":
        return dict.fromkeys(seeds)
    if not dataset.train_corpus.pairs:
        raise UsageError(f"{dataset.name} has no training pairs", "use --setting ez")
    pattern = dataset.train_pattern()
    return {seed: draw(pattern, setting, seed) for seed in seeds}


def _merge_skipped(found: Sequence[tuple[Request, Skipped]], running: Set[str]) -> list[Skipped]:
    """Merge methods that were left out by method and reason, with the settings if the method runs in other ones."""
    merged: dict[tuple[str, str], Skipped] = {}
    for request, skipped in found:
        known = merged.get((skipped.method, skipped.reason), skipped)
        where = dict.fromkeys([*known.where, request.setting.slug]) if skipped.method in running else ()
        merged[skipped.method, skipped.reason] = replace(skipped, where=tuple(where))
    return [*merged.values()]


def _plan_row(
    row: Row,
    resolved: Resolved,
    number: int,
    request: Request,
    dataset: Dataset,
    subsets: Mapping[int, Subset | None],
    registry: Registry,
    store: Store,
    again: Set[str],
) -> list[PlannedCell]:
    name = row.entry.name
    methods = [entry.usable() for entry in resolved.entries]
    trained = [(entry.name, entry.identity(values)) for entry, values in resolved.through]
    identity = trained[0][1]
    staleness = registry.staleness(store.root)
    kinds = {*chain(*(method.needs for method in methods))}
    needs = {kind: max(method.needs.get(kind, 0) for method in methods) for kind in kinds}
    packages = frozenset(chain.from_iterable(method.packages for method in methods))
    environment = frozenset(chain.from_iterable(method.environment for method in methods))
    planned = []
    for seed in distinct_seeds(row.method, request):
        subset = subsets[seed]
        cell = _make_cell(name, identity, request.setting, dataset, subset, seed)
        record, state, damage = _find(cell, dataset, store, staleness)
        trainings = {
            training_name(method, values): training_key(cell, method, values, registry[method].usable())
            for method, values in trained
        }
        planned.append(
            PlannedCell(
                cell,
                row,
                dataset,
                number,
                request.dataset,
                subset,
                resolved.source_sha256,
                record,
                "to run" if state in again else state,
                damage,
                parts=tuple(trained[1:]),
                trainings=trainings,
                needs=needs,
                packages=packages,
                environment=environment,
                plugins=resolved.files,
            )
        )
    return planned


def distinct_seeds(method: Description, request: Request) -> Sequence[int]:
    """Return the seeds whose results can differ: only the first where neither the method nor its pairs depend on it."""
    draws_pairs = request.setting.kind == "fs" and method.supervision != "unused"
    return request.seeds if draws_pairs or not method.deterministic else request.seeds[:1]


def _make_cell(
    method: str, identity: Values, setting: Setting, dataset: Dataset, subset: Subset | None, seed: int
) -> Cell:
    digest = subset.digest if subset else None
    try:
        cell = Cell(
            dataset=dataset.name,
            dataset_sha256=dataset.digest,
            setting=setting,
            subset_sha256=digest,
            method=method,
            parameters=identity,
            seed=seed,
        )
        check_readable(cell)
    except ValueError as error:
        raise UsageError(f"{method} on {dataset.name}: {error}", "change the name or the parameter") from None
    return cell


def _find(cell: Cell, dataset: Dataset, store: Store, staleness: Staleness) -> tuple[Record | None, State, str]:
    """Return the record of a cell, its state, and a description of damage; empty if it is sound."""
    try:
        record = store.find(cell)
    except DamagedRecord as error:  # it has no result that could be lost
        return None, "to run", error.message
    if record is None or not record.finished:
        return record, "to run", ""
    again = can_rank_again(record, store, staleness)
    state: State = (
        "stale" if staleness.is_stale(record) and not (again and not staleness.has_stale_source(record)) else "cached"
    )
    try:
        if not again and is_outdated(record, dataset.card.filter, dataset.propensity, staleness):
            store.ranks(record, store.truth(record))  # from which its figures are computed again
    except StorageError as error:
        return record, "to run", error.message
    return record, state, ""
