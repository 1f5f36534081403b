"""The interface of executors: submit, watch and cancel tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, Self

from xmcbench import environment
from xmcbench.environment import Hardware, Program
from xmcbench.processes.supervisor import Ending
from xmcbench.progress import Report
from xmcbench.runner.job import Job, Outcome

#: Seconds between two polls of running tasks, and of work that other runs hold while none runs.
POLL_S, IDLE_S = 0.05, 0.5


@dataclass(frozen=True)
class Needs:
    """The needs of a running task. memory_bytes: its peak, 0 if unknown."""

    threads: int = 1
    gpus: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Room:
    """The room of an executor. cores: of all machines. cores_of_one, gpus_of_one: the most that one task can get."""

    cores: int
    cores_of_one: int
    gpus_of_one: int


@dataclass(frozen=True)
class Machine:
    """The machine of a task, as records describe it."""

    hardware: Hardware
    packages: dict[str, str]
    xmcbench: Program

    @classmethod
    @cache
    def current(cls) -> Machine:
        """Describe the machine of this process."""
        return cls(environment.hardware(), environment.packages(), environment.program())


@dataclass(frozen=True)
class Task:
    """A job for a process. key: its name among the tasks of a run. log: the file of its output."""

    key: str
    job: Job
    log: Path
    needs: Needs
    time_limit_s: float | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True)
class Ended:
    """A task that ended. outcome: None if its process did not write one. machine: None for this machine."""

    task: Task
    outcome: Outcome | None
    ending: Ending
    machine: Machine | None = None


def is_pretrained(report: Report | None) -> bool:
    """Return whether a running task is past its pre-training."""
    return report is not None and report.phase not in ("load", "pretrain")


class Executor(Protocol):
    """Runs several tasks at a time until its block ends, when running tasks are canceled."""

    @property
    def room(self) -> Room:
        """The room of all tasks together."""

    def fits(self, needs: Needs) -> bool:
        """Return whether a task with these needs would start now. If nothing runs, it always does."""

    def submit(self, task: Task) -> None:
        """Start a task. Raises StorageError if its files cannot be written."""

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """Return the tasks that have ended; wait for one, for a readable descriptor of ``files``, or the timeout."""

    def report(self, key: str) -> Report | None:
        """Return the latest progress report of a running task."""

    def host(self, key: str) -> str | None:
        """Return a name of the machine of a running task; None until it has one."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
