"""The shared pre-trainings of a plan without its cells: ``--only pretrain``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from xmcbench.runner.executors.base import IDLE_S, POLL_S, Ended, Executor, Task
from xmcbench.runner.executors.process import sweep
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.recording import status_of
from xmcbench.runner.schedule import Backoff, needs_of, pretraining_key
from xmcbench.runner.target import Target, open_executor
from xmcbench.runner.tasks import cell_job


@dataclass(frozen=True)
class Pretrained:
    """A pre-training that ended. reason: of a failure, else empty. took_s: little if the artifact was there."""

    planned: PlannedCell
    reason: str
    took_s: float
    log: Path

    @property
    def ok(self) -> bool:
        """True if cells will find it."""
        return not self.reason


#: Called when a pre-training starts (None) and when it ends, with a cell that needs it and its position.
Progress = Callable[[PlannedCell, int, Pretrained | None], None]


def pretrain(plan: Plan, target: Target, progress: Progress = lambda *_: None) -> list[Pretrained]:
    """Run every pre-training that cells to run need, once, or wait until another run has done it."""
    sweep(target.store)
    cells = {key: cell for cell in plan.cells if cell.state == "to run" and (key := pretraining_key(cell))}
    if not cells:
        return []
    with open_executor(target, [*cells.values()]) as (executor, jobs):
        return _Pretrainings(cells, target, progress).run(executor, jobs)


class _Pretrainings:
    def __init__(self, cells: dict[str, PlannedCell], target: Target, progress: Progress) -> None:
        self._cells, self._target, self._progress = cells, target, progress
        self._waiting = dict(enumerate(cells))
        self._running: dict[str, tuple[int, ExitStack]] = {}
        self._backoff = Backoff()
        self._ended: dict[int, Pretrained] = {}

    def run(self, executor: Executor, jobs: int) -> list[Pretrained]:
        try:
            while self._waiting or self._running:
                self._start(executor, jobs)
                for ended in executor.watch(POLL_S if self._running else IDLE_S):
                    self._end(ended)
        finally:
            for _, files in self._running.values():
                files.close()
        return [self._ended[position] for position in sorted(self._ended)]

    def _start(self, executor: Executor, jobs: int) -> None:
        store, limits = self._target.store, self._target.limits
        for position, key in list(self._waiting.items()):
            planned = self._cells[key]
            needs = needs_of(planned, jobs, self._target.compute, None, executor.room)
            if len(self._running) >= jobs or not executor.fits(needs):
                return
            if not self._backoff.is_due(key):
                continue
            with ExitStack() as files:
                if not files.enter_context(store.pretraining_claim(key)).held:
                    self._backoff.fail(key)
                    continue
                job = cell_job(planned, self._target.compute, needs.threads, store)
                log = store.root / "logs" / "pretraining" / f"{key[:12]}.log"
                self._progress(planned, position, None)
                executor.submit(Task(key, job, log, needs, limits.time_s, limits.memory_bytes))
                del self._waiting[position]
                self._running[key] = (position, files.pop_all())

    def _end(self, ended: Ended) -> None:
        position, files = self._running.pop(ended.task.key)
        files.close()
        planned, outcome = self._cells[ended.task.key], ended.outcome
        status, reason = status_of(outcome, ended.ending, self._target.limits.time_s)
        seconds = outcome.wall_s.get("pretrain", 0.0) if outcome is not None else 0.0
        self._ended[position] = Pretrained(planned, "" if status == "ok" else reason, seconds, ended.task.log)
        self._progress(planned, position, self._ended[position])
