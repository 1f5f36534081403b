"""Tasks as processes of this machine: as many at once as there are slots, cores, GPUs and memory for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from xmcbench import progress
from xmcbench.environment import available_memory, thread_variables
from xmcbench.errors import StorageError
from xmcbench.processes.supervisor import Ending, Supervised, wait
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Ended, Needs, Task
from xmcbench.runner.job import Outcome
from xmcbench.storage.temporary import scratch


@dataclass(frozen=True)
class Capacity:
    """What the tasks of this machine may take together.

    gpus: the number of each GPU, once for each task that it may have.
    """

    slots: int
    cores: int
    gpus: tuple[str, ...] = ()


@dataclass
class _Running:
    task: Task
    folder: Path
    process: Supervised
    gpus: tuple[str, ...]
    files: ExitStack

    @property
    def outcome_file(self) -> Path:
        return self.folder / "outcome.json"


class Local:
    """An ``Executor`` of this machine."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._running: dict[str, _Running] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._running):
            self.cancel(key)

    def fits(self, needs: Needs) -> bool:
        """Whether there is a slot, and the cores, GPUs and memory for it. Where nothing runs, there are."""
        running = self._running.values()
        if not running:
            return True
        if len(running) >= self._capacity.slots:
            return False
        cores = self._capacity.cores - sum(each.task.needs.threads for each in running)
        # What a cell is known to take in the end counts from its start.
        promised = sum(max(0, each.task.needs.memory_bytes - each.process.memory_bytes) for each in running)
        return (
            needs.threads <= cores
            and needs.gpus <= len(self._free_gpus())
            and needs.memory_bytes <= available_memory() - promised
        )

    def submit(self, task: Task) -> None:
        """Start the process of a task."""
        gpus = self._free_gpus()[: task.needs.gpus]
        with ExitStack() as files:
            folder = files.enter_context(scratch())
            job_file, outcome = folder / "job.json", folder / "outcome.json"
            msgspec.structs.replace(task.job, outcome=str(outcome)).write(job_file)
            process = Supervised(
                "xmcbench.runner.worker",
                [str(job_file)],
                task.log,
                _environment(folder, task.needs.threads, gpus),
                outcome,
                task.time_limit_s,
                task.memory_limit_bytes,
            )
            files.callback(process.end)
            self._running[task.key] = _Running(task, folder, process, gpus, files.pop_all())

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """The tasks that have ended, each with what its process wrote."""
        if not (ended := self._ended()):
            wait([each.process for each in self._running.values()], timeout_s, files)
            ended = self._ended()
        return ended

    def report(self, key: str) -> Report | None:
        """How far a task says it is."""
        return progress.read(self._running[key].folder / _PROGRESS) if key in self._running else None

    def cancel(self, key: str) -> None:
        """End a task; its files go."""
        if running := self._running.pop(key, None):
            running.files.close()

    def _ended(self) -> list[Ended]:
        endings = [(each, each.process.look()) for each in self._running.values()]
        return [self._taken(running, ending) for running, ending in endings if ending is not None]

    def _taken(self, running: _Running, ending: Ending) -> Ended:
        del self._running[running.task.key]
        with running.files:
            try:
                outcome = Outcome.read(running.outcome_file)
            except StorageError as error:  # the method's process wrote there, or broke what we wrote
                outcome = Outcome(status="failed", reason=str(error))
        return Ended(running.task, outcome, ending)

    def _free_gpus(self) -> tuple[str, ...]:
        free = list(self._capacity.gpus)
        for each in self._running.values():
            for gpu in each.gpus:
                free.remove(gpu)
        return tuple(dict.fromkeys(free))


_PROGRESS = "progress.json"


def _environment(folder: Path, threads: int, gpus: Sequence[str]) -> dict[str, str]:
    """The environment of a cell's process: the user's, and what we set."""
    # Waiting threads sleep instead of spinning, which would slow a shared machine down.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE"}
    told = {**thread_variables(threads), progress.VARIABLE: str(folder / _PROGRESS)}
    told |= {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
    # Hash order must not differ between two runs of one seed. Temporary files are removed when the cell ends.
    return {**waiting, **os.environ, **told, "PYTHONHASHSEED": "0", "TMPDIR": str(folder)}
