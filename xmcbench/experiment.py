"""An experiment: the cells of a run, a curve or an ablation, planned first and then executed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from xmcbench.environment import Compute
from xmcbench.errors import UsageError
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record, Store
from xmcbench.runner.execution import Progress, Watch, execute
from xmcbench.runner.grid import Grid, ablation_rows, curve_grids, requests_of
from xmcbench.runner.plan import Plan, plan
from xmcbench.runner.rows import Request
from xmcbench.runner.schedule import Jobs
from xmcbench.runner.target import HERE, Limits, Target, check_on, count_jobs

if TYPE_CHECKING:  # a plan, or a dry run, needs no tables
    from xmcbench.results import Ablated, Coverage, Results

Shown = TypeVar("Shown", bound="Results")


@dataclass(frozen=True)
class Options:
    """Options of execution.

    runs: the folder of results. plugins: files of methods that are not installed. force: run finished cells again;
    refresh: those whose code has changed. progress: called when a cell starts and when it ends; watch: several times a
    second with the cells that run; without either, a terminal or a notebook shows the progress. jobs: how many cells
    run at once, ``auto`` for as many as the cores allow; None is one on this machine, and ``auto`` on a cluster.
    cells_per_gpu: how many of them may share a GPU. on: ``local``; ``ray`` for the Ray cluster of RAY_ADDRESS, or one
    of this machine; or ``ray://HOST:PORT``.
    """

    runs: Path = Path("runs")
    plugins: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)
    compute: Compute = field(default_factory=Compute)
    force: bool = False
    refresh: bool = False
    progress: Progress | None = None
    watch: Watch | None = None
    jobs: Jobs | None = None
    cells_per_gpu: int = 1
    on: str = HERE

    def __post_init__(self) -> None:
        """Take texts as paths, and one plug-in for several.

        Raise UsageError for invalid values, and for a place that ``--on`` does not know.
        """
        object.__setattr__(self, "runs", Path(self.runs))
        plugins = [self.plugins] if isinstance(self.plugins, str | Path) else self.plugins
        object.__setattr__(self, "plugins", tuple(map(Path, plugins)))
        if self.jobs not in (None, "auto") and (type(self.jobs) is not int or self.jobs < 1):
            raise UsageError(f"jobs={self.jobs!r} is not a number of cells", 'jobs=2, or jobs="auto"')
        if type(self.cells_per_gpu) is not int or self.cells_per_gpu < 1:
            raise UsageError(f"cells_per_gpu={self.cells_per_gpu!r} is not a number of cells", "cells_per_gpu=2")
        try:
            msgspec.convert(msgspec.to_builtins(self.compute), Compute)
        except msgspec.ValidationError as error:
            raise UsageError(f"{self.compute}: {error}") from None
        check_on(self.on)

    def registry(self) -> Registry:
        """Return all methods by name. Raises what ``Registry`` raises."""
        return Registry(self.plugins, self.limits.time_s)

    @property
    def target(self) -> Target:
        """Target of the execution: the store, limits, and where cells run."""
        return Target(Store(self.runs), self.limits, self.compute, self.jobs, self.cells_per_gpu, self.on)


@dataclass(frozen=True)
class Experiment(ABC, Generic[Shown]):
    """Planned cells. filter: under which results are shown; empty where the cards of several datasets differ in it."""

    plan: Plan
    options: Options
    filter: str

    def execute(self, lines: bool = False) -> Shown:
        """Run the cells that have no result yet, and show the progress unless the options have functions for it.

        lines: print plain lines where there is neither a terminal nor a notebook. Raises what
        ``runner.execution.execute`` raises. A cell that fails is a record.
        """
        chosen = self.options
        if chosen.progress or chosen.watch:
            progress, watch = chosen.progress or (lambda *_: None), chosen.watch or (lambda _: None)
            return self.results(execute(self.plan, chosen.target, progress, chosen.force, watch))
        from xmcbench.display import execute_shown

        return self.results(execute_shown(self.plan, chosen.target, chosen.force, lines))

    @property
    def jobs(self) -> int:
        """Number of cells that run at once. Raises what ``count_jobs`` raises."""
        return count_jobs(self.options.target, [cell for cell in self.plan.cells if cell.state == "to run"])

    @abstractmethod
    def results(self, records: Sequence[Record]) -> Shown:
        """Return the records of the plan's cells, in its order, or some of them, as results."""

    def _make(self, kind: Callable[..., Shown], records: Sequence[Record], **more: object) -> Shown:
        plan = self.plan
        skipped = tuple(plan.skipped)
        return kind(tuple(records), self.filter, self.options.runs, plan.staleness, skipped, plan.named, **more)


@dataclass(frozen=True)
class Run(Experiment["Results"]):
    """The cells of grids."""

    def results(self, records: Sequence[Record]) -> Results:
        """Return the records, with methods that were left out."""
        from xmcbench.results import Results

        return self._make(Results, records)


@dataclass(frozen=True)
class CurveRun(Experiment["Coverage"]):
    """The cells of coverage curves. by: ``label`` or ``pair``; ratios: known shares, 0..1, ascending."""

    by: str
    ratios: tuple[float, ...]

    def load_finished(self) -> Coverage:
        """Return the results that are there, without running a cell."""
        return self.results([cell.record for cell in self.plan.cells if cell.record])

    def results(self, records: Sequence[Record]) -> Coverage:
        """Return the records, with the points that the curves should have."""
        from xmcbench.results import Coverage

        expected = tuple((planned.cell, planned.name) for planned in self.plan.cells)
        return self._make(Coverage, records, by=self.by, ratios=self.ratios, expected=expected)


@dataclass(frozen=True)
class AblationRun(Experiment["Ablated"]):
    """The cells of a method's ablation. rows: the row of each of the plan's requests."""

    rows: tuple[str, ...]

    def results(self, records: Sequence[Record]) -> Ablated:
        """Return the records by row, with the parameters that each row changes."""
        from xmcbench.results import Ablated

        by_row: dict[str, tuple[Record, ...]] = {}
        for planned, record in zip(self.plan.cells, records, strict=True):
            row = self.rows[planned.request]
            by_row[row] = (*by_row.get(row, ()), record)
        ablation = self.plan.cells[0].row.method.ablation
        return self._make(Ablated, records, by_row=by_row, changes={row: dict(ablation[row]) for row in by_row})


def plan_run(grids: Sequence[Grid], options: Options, registry: Registry, filter_name: str | None) -> Run:
    """Plan the cells of grids. filter_name: None for the filter of the card. Raises UsageError, DataError."""
    planned = _plan(requests_of(grids), options, registry)
    return Run(planned, options, _choose_filter(planned, filter_name))


def plan_curve(
    grids: Sequence[Grid],
    options: Options,
    registry: Registry,
    filter_name: str | None,
    by: str,
    ratios: Sequence[float],
    runs: bool = True,
) -> CurveRun:
    """Plan the cells of grids whose settings are those of the ratios. Methods that never look at pairs run once.

    runs: whether the cells will be run, so that what they need must be here. Raises what ``plan_run`` raises.
    """
    cells = [cell_grid for grid in grids for cell_grid in curve_grids(grid, registry)]
    planned = _plan(requests_of(cells), options, registry, runs)
    return CurveRun(planned, options, _choose_filter(planned, filter_name), by, tuple(sorted({*ratios})))


def plan_ablation(grids: Sequence[Grid], options: Options, registry: Registry, filter_name: str | None) -> AblationRun:
    """Plan the rows of the ablation of each grid's method. Raises what ``plan_run`` raises."""
    rows = [row for grid in grids for row in ablation_rows(grid, registry)]
    found = _plan([request for _, request in rows], options, registry)
    there = {cell.request for cell in found.cells}
    absent = [row for number, (row, _) in enumerate(rows) if number not in there]
    if absent and not found.skipped:
        raise UsageError(
            f"row {absent[0]!r} of the ablation is the same as an earlier one",
            "a preset has these values: choose another, or set other parameters",
        )
    where = tuple(dict.fromkeys(f"row {row!r}" for row in absent))
    found = replace(found, skipped=[replace(skipped, where=where) for skipped in found.skipped])
    return AblationRun(found, options, _choose_filter(found, filter_name), tuple(row for row, _ in rows))


def _plan(requests: Sequence[Request], options: Options, registry: Registry, runs: bool = True) -> Plan:
    """Plan the cells of requests. Raises what ``plan`` raises, and UsageError where there are none."""
    store = Store(options.runs)
    planned = plan(requests, registry, store, force=options.force, refresh=options.refresh, runs=runs)
    if not planned.cells:
        raise UsageError("no method can run", "; ".join(map(str, planned.skipped)))
    return planned


def _choose_filter(planned: Plan, name: str | None) -> str:
    """Return the filter under which the cells of a plan are shown; empty where the cards of datasets differ in it.

    Raises UsageError where a dataset has neither the named filter nor that of its card.
    """
    datasets = {cell.dataset.digest: cell.dataset for cell in planned.cells}
    own = {dataset.choose_filter(None) for dataset in datasets.values()}
    found = {dataset.choose_filter(name) for dataset in datasets.values()} if name else own
    return found.pop() if len(found) == 1 else ""


def only_ablation(registry: Registry) -> str:
    """Return the only method that defines an ablation. Raises UsageError if there is none, or more than one."""
    found = [entry.name for entry in registry if entry.description is not None and entry.description.ablation]
    if len(found) != 1:
        known = ", ".join(found) or "none does"
        raise UsageError(f"--method is required; methods with an ablation: {known}")
    return found[0]
