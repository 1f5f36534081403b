"""Run a plan's cells, each in a separate process, and write each record as soon as its cell ends."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain

import msgspec

from xmcbench.environment import Compute
from xmcbench.errors import XmcbenchError
from xmcbench.progress import Report
from xmcbench.records import Record, Store
from xmcbench.records.record import Status
from xmcbench.runner.executors.base import IDLE_S, POLL_S, Ended, Executor, Machine, Needs, is_pretrained
from xmcbench.runner.executors.process import sweep
from xmcbench.runner.job import Outcome
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.recording import measure, record_of, status_of
from xmcbench.runner.schedule import MOST_FAILED, Backoff, needs_of, pretraining_key, similar_records, waits_for_parts
from xmcbench.runner.scorer import Scored, Scorer
from xmcbench.runner.scoring import up_to_date
from xmcbench.runner.target import Target, open_executor
from xmcbench.runner.tasks import cell_task, depth
from xmcbench.storage.locks import Claim

#: Seconds between two calls of ``Watch``.
_WATCH_S = 0.25


@dataclass(frozen=True)
class Underway:
    """A running cell: the cell, its position, the seconds since its start, its latest progress report."""

    planned: PlannedCell
    position: int
    since_s: float
    report: Report | None


#: Called when a cell starts (record None) and when it ends: the cell, its position, its record.
Progress = Callable[[PlannedCell, int, Record | None], None]
#: Called several times a second with the cells that run.
Watch = Callable[[Sequence[Underway]], None]


def execute(
    plan: Plan, target: Target, progress: Progress = lambda *_: None, force: bool = False, watch: Watch = lambda _: None
) -> list[Record]:
    """Run the cells of a plan that have no record yet; return the record of every cell, in order.

    A cell that fails, hangs or runs out of memory gets a record with the reason, and the other cells run on. A finished
    cell with figures from other metrics or propensities is scored again from its stored ranks. A cell that another run
    on the same folder is running is left to it. Raises StorageError if a record cannot be written or ranks have
    vanished since the plan was made, and as ``open_executor`` does; on Ctrl-C the finished records stay.
    """
    sweep(target.store)
    with Scorer() as scorer, closing(_Run(plan, target, scorer, force)) as run:
        if waiting := run.take_finished():
            with open_executor(target, waiting) as (executor, jobs):
                run.run(executor, jobs, progress, watch)
    return [run.records[position] for position in sorted(run.records)]


class _Cell:
    """A cell that runs or is scored. files: released with its record. leading: released after its pre-training."""

    def __init__(
        self, planned: PlannedCell, position: int, compute: Compute, staged: Store, claim: Claim, files: ExitStack
    ) -> None:
        self.planned, self.position, self.compute = planned, position, compute
        self.staged, self.claim, self.files = staged, claim, files
        self.leading = ExitStack()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.begin = time.perf_counter()
        self.neighbors = 0
        self.ended: Ended | None = None


class _Run:
    """The cells of a plan on their way to records. records: by position."""

    def __init__(self, plan: Plan, target: Target, scorer: Scorer, force: bool) -> None:
        self._plan, self._target, self._scorer, self._force = plan, target, scorer, force
        self.records: dict[int, Record] = {}
        self._waiting: dict[int, PlannedCell] = {}
        self._backoff = Backoff()
        self._cells: dict[str, _Cell] = {}
        self._unscored: deque[_Cell] = deque()
        # Key of a cell -> key of its pre-training; the keys of finished pre-trainings.
        self._pretraining: dict[str, str] = {}
        self._pretrained: set[str] = set()

    def close(self) -> None:
        """Release the cells that have no record yet."""
        for cell in self._cells.values():
            cell.leading.close()
            cell.files.close()

    def take_finished(self) -> list[PlannedCell]:
        """Take the cells that have a record; return the other cells."""
        for position, planned in enumerate(self._plan.cells):
            found = self._load(planned)
            if found is None:
                self._waiting[position] = planned
            else:
                self.records[position] = found
        return [*self._waiting.values()]

    def _load(self, planned: PlannedCell) -> Record | None:
        """Return the record of a finished cell, with current figures; None if another run holds the cell."""
        if planned.state == "to run" or planned.record is None:
            return None
        dataset, store = planned.dataset, self._target.store
        return up_to_date(
            planned.record,
            planned.loaded_by,
            dataset.card.filter,
            dataset.propensity,
            store,
            self._scorer,
            self._plan.staleness,
        )

    def run(self, executor: Executor, jobs: int, progress: Progress, watch: Watch) -> None:
        """Run the other cells. jobs: cells at a time."""
        # One after the other, cells run without an estimate.
        last = similar_records(self._waiting.values(), self._target.store) if jobs > 1 else {}
        compute = self._target.compute
        needs = {
            planned.cell.key: needs_of(planned, jobs, compute, last.get(planned.cell.key), executor.room)
            for planned in self._waiting.values()
        }
        self._pretraining = {planned.cell.key: pretraining_key(planned) for planned in self._waiting.values()}
        watched_at = 0.0
        while self._waiting or self._cells:
            self._start(executor, jobs, needs, progress)
            for ended in executor.watch(POLL_S if self._cells else IDLE_S, self._scorer.files):
                self._end(self._cells[ended.task.key], ended, progress)
            self._score(progress)
            if time.monotonic() - watched_at >= _WATCH_S:
                for key, cell in self._cells.items():
                    if not cell.ended and self._pretraining[key] and is_pretrained(executor.report(key)):
                        self._finish_pretraining(cell)
                self._count_neighbors(executor)
                watch([self._describe(cell, executor) for cell in self._cells.values()])
                watched_at = time.monotonic()

    def _describe(self, cell: _Cell, executor: Executor) -> Underway:
        report = Report("score") if cell.ended else executor.report(cell.planned.cell.key)
        return Underway(cell.planned, cell.position, time.perf_counter() - cell.begin, report)

    def _start(self, executor: Executor, jobs: int, needs: dict[str, Needs], progress: Progress) -> None:
        failed = 0
        for position, planned in list(self._waiting.items()):
            if len(self._cells) >= jobs or failed == MOST_FAILED:
                return
            key = planned.cell.key
            shared = self._pretraining[key]
            if not self._backoff.is_due(key) or not self._backoff.is_due(shared):
                continue
            if self._waits(planned, executor) or not executor.fits(needs[key]):
                continue
            if planned.state != "to run" and self._scorer.is_busy:
                continue  # its figures may have to be computed again
            if planned.state != "to run" and (there := self._target.store.find_intact(planned.cell)) is not None:
                # Another run held it when this one began, maybe only to compute its figures again.
                if (found := self._load(replace(planned, record=there))) is None:
                    self._backoff.fail(key)
                    failed += 1
                    continue
                self._backoff.succeed(key)
                del self._waiting[position]
                self.records[position] = found
                continue
            with ExitStack() as files, ExitStack() as leading:
                claim = files.enter_context(self._target.store.claim(planned.cell))
                if not claim.held or not self._leads(planned, leading):
                    # Cells that share a pre-training of another run wait for it together.
                    self._backoff.fail(shared if claim.held else key)
                    failed += 1
                    continue
                self._backoff.succeed(key)
                self._backoff.succeed(shared)
                del self._waiting[position]
                # Another run may have finished it since the plan was made.
                made = self._target.store.find_intact(planned.cell)
                if made is not None and made.finished and made != planned.record and not self._force:
                    self.records[position] = made
                    progress(planned, position, made)
                    continue
                compute = msgspec.structs.replace(self._target.compute, threads=needs[key].threads)
                staged = files.enter_context(self._target.store.staging())
                cell = _Cell(planned, position, compute, staged, claim, files)
                progress(planned, position, None)
                executor.submit(cell_task(planned, self._target, needs[key], staged, cell.files))
                cell.files, cell.leading = files.pop_all(), leading.pop_all()
                self._cells[key] = cell
                self._count_neighbors(executor)

    def _leads(self, planned: PlannedCell, leading: ExitStack) -> bool:
        """Return whether a cell may run its pre-training, which no other cell runs now, or finds it finished."""
        shared = self._pretraining[planned.cell.key]
        if not shared or shared in self._pretrained:
            return True
        return leading.enter_context(self._target.store.pretraining_claim(shared)).held

    def _waits(self, planned: PlannedCell, executor: Executor) -> bool:
        """Return whether a cell waits for a shared pre-training, or for the ranking of a part."""
        shared = self._pretraining[planned.cell.key]
        if shared and shared not in self._pretrained:
            for key, cell in self._cells.items():
                if self._pretraining[key] == shared and not cell.ended:
                    if not is_pretrained(executor.report(key)):
                        return True
                    self._finish_pretraining(cell)
                    break
        running = (cell.planned for cell in self._cells.values())
        return waits_for_parts(planned, chain(running, self._waiting.values()))

    def _finish_pretraining(self, cell: _Cell) -> None:
        """Record that the pre-training of a cell is finished, so that no other cell waits for it."""
        cell.leading.close()
        self._pretrained.add(self._pretraining[cell.planned.cell.key])

    def _count_neighbors(self, executor: Executor) -> None:
        running = [(cell, executor.host(key)) for key, cell in self._cells.items() if not cell.ended]
        hosts = Counter(host for _, host in running)
        for cell, host in running:
            if host is not None:
                cell.neighbors = max(cell.neighbors, hosts[host] - 1)

    def _end(self, cell: _Cell, ended: Ended, progress: Progress) -> None:
        cell.ended = ended
        cell.leading.close()
        status, reason = status_of(ended.outcome, ended.ending, self._target.limits.time_s)
        if status == "ok":
            self._unscored.append(cell)
        else:
            self._record(cell, status, reason, None, progress)

    def _score(self, progress: Progress) -> None:
        """Take the answer of the scorer if there is one, and send it the next cell."""
        while self._unscored:
            cell = self._unscored[0]
            if not self._scorer.is_busy:
                self._scorer.begin(cell.planned.cell, cell.staged.root, cell.planned.loaded_by, depth(cell.planned))
            if not self._scorer.has_answer:
                return
            self._unscored.popleft()
            try:
                scored = self._scorer.answer()
            except XmcbenchError as error:
                self._record(cell, "failed", str(error), None, progress)
            else:
                unscored = "" if scored.metrics else "no test instance has a label"
                self._record(cell, "unscored" if unscored else "ok", unscored, scored, progress)

    def _record(self, cell: _Cell, status: Status, reason: str, scored: Scored | None, progress: Progress) -> None:
        assert cell.ended is not None
        planned, store = cell.planned, self._target.store
        outcome = cell.ended.outcome or Outcome(status="failed")
        total_s = time.perf_counter() - cell.begin
        measured = measure(
            planned, outcome, cell.ended.ending, scored is not None, cell.started, total_s, cell.neighbors
        )
        log = store.relative(store.log_path(planned.cell))
        machine = cell.ended.machine or Machine.current()
        record = record_of(planned, cell.compute, machine, status, reason, outcome, scored, measured, log)
        del self._cells[planned.cell.key]
        if not cell.claim.is_ours():  # this process was stopped for so long that another one took the cell over
            again = cell.files.enter_context(store.claim(planned.cell))
            if not again.held or store.find_intact(planned.cell) != planned.record:
                cell.files.close()
                self._waiting[cell.position] = planned
                return
        with cell.files:
            self.records[cell.position] = store.write(record, cell.staged)
        if not record.finished:
            store.sweep()  # what its process was writing when it ended
        progress(planned, cell.position, self.records[cell.position])
