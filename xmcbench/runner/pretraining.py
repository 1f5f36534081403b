"""The pre-trainings of a plan and nothing else, ahead of its cells: ``--only pretrain``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from xmcbench.runner.estimate import pretraining_key
from xmcbench.runner.executors.base import Ended, Executor, Task
from xmcbench.runner.leftovers import sweep
from xmcbench.runner.opening import opened
from xmcbench.runner.place import Place
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.recording import status_of
from xmcbench.runner.schedule import needs_of
from xmcbench.runner.tasks import cell_job
from xmcbench.runner.waiting import Waits

#: Seconds between two looks at what runs, and at what other runs have where nothing does.
_LOOK_S, _IDLE_S = 0.05, 0.5


@dataclass(frozen=True)
class Pretrained:
    """A pre-training that ended.

    reason: why it failed; empty where it did not. took_s: what it took, little if it was there. log: what its process
    printed.
    """

    planned: PlannedCell
    reason: str
    took_s: float
    log: Path

    @property
    def ok(self) -> bool:
        """Whether cells find it."""
        return not self.reason


#: Called when a pre-training starts (None) and when it ends: a cell that needs it, its position, how it ended.
Progress = Callable[[PlannedCell, int, Pretrained | None], None]


def pretrain(plan: Plan, place: Place, progress: Progress = lambda *_: None) -> list[Pretrained]:
    """Do every pre-training that cells to run need, each once; those that another run does are waited for."""
    sweep(place.store)
    cells = {key: each for each in plan.cells if each.state == "to run" and (key := pretraining_key(each))}
    if not cells:
        return []
    with opened(place, [*cells.values()]) as (executor, jobs):
        return _Pretrainings(cells, place, progress).run(executor, jobs)


class _Pretrainings:
    def __init__(self, cells: dict[str, PlannedCell], place: Place, progress: Progress) -> None:
        self._cells, self._place, self._progress = cells, place, progress
        self._waiting = dict(enumerate(cells))
        self._running: dict[str, tuple[int, ExitStack]] = {}
        self._others = Waits()
        self._found: dict[int, Pretrained] = {}

    def run(self, executor: Executor, jobs: int) -> list[Pretrained]:
        try:
            while self._waiting or self._running:
                self._start(executor, jobs)
                for ended in executor.watch(_LOOK_S if self._running else _IDLE_S):
                    self._end(ended)
        finally:
            for _, files in self._running.values():
                files.close()
        return [self._found[position] for position in sorted(self._found)]

    def _start(self, executor: Executor, jobs: int) -> None:
        for position, key in list(self._waiting.items()):
            planned = self._cells[key]
            needs = needs_of(planned, jobs, self._place.compute, None, executor.room)
            if len(self._running) >= jobs or not executor.fits(needs):
                return
            if not self._others.due(key):
                continue
            with ExitStack() as files:
                store = self._place.store
                if not files.enter_context(store.pretraining_claim(key)).held:
                    self._others.busy(key)
                    continue
                job = cell_job(planned, self._place.compute, needs.threads, store)
                self._progress(planned, position, None)
                limits = self._place.limits
                executor.submit(Task(key, job, self._log(key), needs, limits.time_s, limits.memory_bytes, shares=key))
                del self._waiting[position]
                self._running[key] = (position, files.pop_all())

    def _log(self, key: str) -> Path:
        return self._place.store.root / "logs" / "pretraining" / f"{key[:12]}.log"

    def _end(self, ended: Ended) -> None:
        position, files = self._running.pop(ended.task.key)
        files.close()
        planned, outcome = self._cells[ended.task.key], ended.outcome
        status, reason = status_of(outcome, ended.ending, self._place.limits.time_s)
        seconds = outcome.wall_s.get("pretrain", 0.0) if outcome is not None else 0.0
        found = Pretrained(planned, "" if status == "ok" else reason, seconds, ended.task.log)
        self._found[position] = found
        self._progress(planned, position, found)
