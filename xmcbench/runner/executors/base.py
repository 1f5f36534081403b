"""What a run asks of an executor: submit, watch, cancel."""

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


@dataclass(frozen=True)
class Needs:
    """What a task takes while it runs. memory_bytes: its peak, as far as it is known, else 0."""

    threads: int = 1
    gpus: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Room:
    """What an executor has. cores: of all its machines. cores_of_one, gpus_of_one: the most that one task can get."""

    cores: int
    cores_of_one: int
    gpus_of_one: int


@dataclass(frozen=True)
class Machine:
    """Where a task ran, as records describe it."""

    hardware: Hardware
    packages: dict[str, str]
    xmcbench: Program

    @classmethod
    @cache
    def this(cls) -> Machine:
        """The machine of this process."""
        return cls(environment.hardware(), environment.packages(), environment.program())


@dataclass(frozen=True)
class Task:
    """A job for a process. key: its name among the tasks of a run. log: what the process prints.

    shares: names the work that tasks have in common, if any; best done where it is at hand.
    """

    key: str
    job: Job
    log: Path
    needs: Needs
    time_limit_s: float | None = None
    memory_limit_bytes: int | None = None
    shares: str = ""


@dataclass(frozen=True)
class Ended:
    """A task that ended.

    outcome: what its process wrote; None if it did not get so far. machine: where it ran; None is this machine.
    """

    task: Task
    outcome: Outcome | None
    ending: Ending
    machine: Machine | None = None


class Executor(Protocol):
    """Runs tasks, several at once, until it is left; what still runs then is canceled.

    Cells are isolated by ``runner.worker``, which is the same for every executor.
    """

    @property
    def room(self) -> Room:
        """What all tasks together may take."""

    def fits(self, needs: Needs) -> bool:
        """Whether a task with these needs would start now. One always does where nothing runs."""

    def submit(self, task: Task) -> None:
        """Start a task. Raises StorageError where its files cannot be written."""

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """The tasks that have ended; waits for one, for a descriptor of ``files`` to be readable, or for the time."""

    def report(self, key: str) -> Report | None:
        """How far a running task is; None where it has not said so."""

    def host(self, key: str) -> str | None:
        """A name for the machine that a running task is on; None until it is on one."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
