"""An experiment: the cells of a run, a curve or an ablation, planned first and then carried out.

``xmcbench.api`` makes one from the arguments of a function, ``xmcbench.command`` from those of a command line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import msgspec

from xmcbench.environment import Compute
from xmcbench.errors import UsageError
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record, Store
from xmcbench.runner import pretraining
from xmcbench.runner.execution import Progress, Watch, execute
from xmcbench.runner.grid import Grid, ablation_rows, curve_grids, requests_of
from xmcbench.runner.opening import check_on, jobs_at
from xmcbench.runner.place import HERE, Limits, Place
from xmcbench.runner.plan import Plan, plan
from xmcbench.runner.rows import Request
from xmcbench.runner.schedule import Jobs
from xmcbench.runner.shard import Shard

if TYPE_CHECKING:  # a plan, or a dry run, needs no tables
    from xmcbench.results import Ablated, Coverage, Results

Shown = TypeVar("Shown", bound="Results")


@dataclass(frozen=True)
class Options:
    """How cells are run.

    runs: the folder of results. plugins: files of methods that are not installed. force: run finished cells again;
    refresh: those whose code has changed. progress: called when a cell starts and when it ends; watch: several times a
    second with the cells that run. jobs: how many cells run at once, ``auto`` for as many as the cores allow;
    None is one on this machine, and ``auto`` on a cluster. cells_per_gpu: how many of them may share a GPU. on:
    ``local``; ``ray`` for the Ray cluster of RAY_ADDRESS, or one of this machine; or ``ray://HOST:PORT``.
    """

    runs: Path = Path("runs")
    plugins: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)
    compute: Compute = field(default_factory=Compute)
    force: bool = False
    refresh: bool = False
    progress: Progress = lambda *_: None
    watch: Watch = lambda _: None
    jobs: Jobs | None = None
    cells_per_gpu: int = 1
    on: str = HERE

    def __post_init__(self) -> None:
        """Take texts as paths. Raise UsageError for invalid values, and for a place that ``--on`` does not know."""
        object.__setattr__(self, "runs", Path(self.runs))
        object.__setattr__(self, "plugins", tuple(map(Path, self.plugins)))
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
        """All methods by name. Raises what ``Registry`` raises."""
        return Registry(self.plugins, self.limits.time_s)

    def planned(self, requests: Sequence[Request], registry: Registry, runs: bool = True) -> Plan:
        """The cells of requests. runs: whether they will be run, so that what they need has to be here.

        Raises what ``plan`` raises, and UsageError where there are none.
        """
        planned = plan(requests, registry, Store(self.runs), force=self.force, refresh=self.refresh, runs=runs)
        if not planned.cells:
            raise UsageError("no method can run", "; ".join(map(str, planned.skipped)))
        return planned

    @property
    def place(self) -> Place:
        """Where cells run."""
        return Place(Store(self.runs), self.limits, self.compute, self.jobs, self.cells_per_gpu, self.on)

    def executed(self, planned: Plan) -> list[Record]:
        """The records of a plan's cells, in its order. Raises what ``execute`` raises."""
        return execute(planned, self.place, self.progress, self.force, self.watch)

    def pretrained(
        self, planned: Plan, progress: pretraining.Progress = lambda *_: None
    ) -> list[pretraining.Pretrained]:
        """Do the pre-trainings that the cells of a plan need, and no cell. Raises StorageError."""
        return pretraining.pretrain(planned, self.place, progress)

    def jobs_of(self, planned: Plan) -> int:
        """How many cells of a plan run at once. Raises what ``jobs_at`` raises."""
        return jobs_at(self.place, [each for each in planned.cells if each.state == "to run"])


@dataclass(frozen=True)
class Experiment(ABC, Generic[Shown]):
    """Planned cells, and how they are run and shown.

    filter: under which results are shown; empty where the cards of several datasets say different ones.
    """

    plan: Plan
    options: Options
    filter: str

    def execute(self, progress: Progress | None = None, watch: Watch | None = None) -> Shown:
        """Run the cells that have no result yet. progress, watch: default is those of the options.

        Raises what ``execute`` raises. A cell that fails is a record.
        """
        chosen = self.options
        options = replace(chosen, progress=progress or chosen.progress, watch=watch or chosen.watch)
        return self.results(options.executed(self.plan))

    @abstractmethod
    def results(self, records: Sequence[Record]) -> Shown:
        """The records of the plan's cells, in its order, or some of them, as what is shown."""

    def part(self, shard: Shard) -> Self:
        """The cells of one of several shards."""
        return replace(self, plan=shard.of(self.plan))

    def _shown(self, kind: Callable[..., Shown], records: Sequence[Record], **more: object) -> Shown:
        """Results of some kind, with what all kinds have."""
        plan = self.plan
        skipped = tuple(plan.skipped)
        return kind(tuple(records), self.filter, self.options.runs, plan.standing, skipped, plan.named, **more)


@dataclass(frozen=True)
class Run(Experiment["Results"]):
    """The cells of grids."""

    @classmethod
    def planned(cls, grids: Sequence[Grid], options: Options, registry: Registry, name: str | None) -> Self:
        """Plan the cells. name: of the filter, None for the card's. Raises UsageError, DataError."""
        found = options.planned(requests_of(grids), registry)
        return cls(found, options, shown_filter(found, name))

    def results(self, records: Sequence[Record]) -> Results:
        """The records, with methods that were left out."""
        from xmcbench.results import Results

        return self._shown(Results, records)


@dataclass(frozen=True)
class CurveRun(Experiment["Coverage"]):
    """The cells of coverage curves. by: ``label`` or ``pair``; ratios: known shares, 0..1, ascending."""

    by: str
    ratios: tuple[float, ...]

    @classmethod
    def planned(
        cls,
        grids: Sequence[Grid],
        options: Options,
        registry: Registry,
        name: str | None,
        by: str,
        ratios: Sequence[float],
        runs: bool = True,
    ) -> Self:
        """Plan the cells of grids whose settings are those of the ratios. Methods that never look at pairs run once.

        name: of the filter, None for the card's. runs: as in ``Options.planned``. Raises UsageError, DataError.
        """
        cells = [each for grid in grids for each in curve_grids(grid, registry)]
        found = options.planned(requests_of(cells), registry, runs)
        return cls(found, options, shown_filter(found, name), by, tuple(sorted({*ratios})))

    def finished(self) -> Coverage:
        """The results that there are, without running a cell."""
        return self.results([each.record for each in self.plan.cells if each.record])

    def results(self, records: Sequence[Record]) -> Coverage:
        """The records, with what the curves should hold."""
        from xmcbench.results import Coverage

        expected: dict[str, list[tuple[str, float, int]]] = {}
        for each in self.plan.cells:
            # A finished cell keeps the name under which it ran.
            name = each.record.name if each.record and each.state != "to run" else each.name
            point = (name, each.cell.setting.share, each.cell.seed)
            expected.setdefault(each.cell.dataset, []).append(point)
        points = {dataset: tuple(each) for dataset, each in expected.items()}
        return self._shown(Coverage, records, by=self.by, ratios=self.ratios, expected=points)


@dataclass(frozen=True)
class AblationRun(Experiment["Ablated"]):
    """The cells of a method's ablation. rows: the row of each of the plan's requests."""

    rows: tuple[str, ...]

    @classmethod
    def planned(cls, grids: Sequence[Grid], options: Options, registry: Registry, name: str | None) -> Self:
        """Plan the rows of each grid's method.

        name: of the filter, None for the card's. Raises UsageError, DataError.
        """
        rows = [each for grid in grids for each in ablation_rows(grid, registry)]
        found = options.planned([request for _, request in rows], registry)
        planned = {cell.request for cell in found.cells}
        if not found.skipped and (same := [row for number, (row, _) in enumerate(rows) if number not in planned]):
            raise UsageError(
                f"row {same[0]!r} of the ablation is the same as an earlier one",
                "a preset has these values: choose another, or set other parameters",
            )
        absent = dict.fromkeys(f"row {row!r}" for number, (row, _) in enumerate(rows) if number not in planned)
        found = replace(found, skipped=[replace(each, where=tuple(absent)) for each in found.skipped])
        return cls(found, options, shown_filter(found, name), tuple(row for row, _ in rows))

    def results(self, records: Sequence[Record]) -> Ablated:
        """The records by row, with the parameters that each row changes."""
        from xmcbench.results import Ablated

        by_row: dict[str, list[Record]] = {}
        for cell, record in zip(self.plan.cells, records, strict=True):
            by_row.setdefault(self.rows[cell.request], []).append(record)
        name = self.plan.cells[0].cell.method
        changes = self.plan.cells[0].row.method.ablation
        assert all(cell.cell.method == name for cell in self.plan.cells)
        return self._shown(
            Ablated,
            records,
            by_row={row: tuple(each) for row, each in by_row.items()},
            changes={row: dict(changes[row]) for row in by_row},
        )


def shown_filter(planned: Plan, name: str | None) -> str:
    """The filter under which the cells of a plan are shown: empty where that of the card differs between datasets.

    Raises UsageError where a dataset does not have the named one, or that of its card, which its records are made with.
    """
    datasets = {each.dataset.digest: each.dataset for each in planned.cells}
    own = {dataset.choose_filter(None) for dataset in datasets.values()}
    found = {dataset.choose_filter(name) for dataset in datasets.values()} if name else own
    return found.pop() if len(found) == 1 else ""


def only_ablation(registry: Registry) -> str:
    """The only method that defines an ablation. Raises UsageError if there is none, or more than one."""
    found = [entry.name for entry in registry if entry.description is not None and entry.description.ablation]
    if len(found) != 1:
        known = ", ".join(found) or "none does"
        raise UsageError(f"--method is required; methods with an ablation: {known}")
    return found[0]
