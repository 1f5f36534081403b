"""Tasks as processes of this machine: as many at once as there are slots, cores, GPUs and memory for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from xmcbench.environment import available_memory, machine_cores, usable_cores
from xmcbench.processes.supervisor import Ending, wait
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Ended, Needs, Room, Task
from xmcbench.runner.executors.process import Process
from xmcbench.runner.executors.servers import Servers
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
    process: Process
    gpus: tuple[str, ...]
    files: ExitStack


class Local:
    """An ``Executor`` of this machine."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._running: dict[str, _Running] = {}
        self._servers = Servers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running.values():
            running.files.close()
        self._running.clear()
        self._servers.end()

    @property
    def room(self) -> Room:
        """The cores and the GPUs of this machine."""
        return Room(machine_cores(), usable_cores(), len(set(self._capacity.gpus)))

    def fits(self, needs: Needs) -> bool:
        """Whether there is a slot, and the cores, GPUs and memory for it. Where nothing runs, there are."""
        running = self._running.values()
        if not running:
            return True
        if len(running) >= self._capacity.slots:
            return False
        cores = self._capacity.cores - sum(each.task.needs.threads for each in running)
        # What a cell is known to take in the end counts from its start.
        promised = sum(max(0, each.task.needs.memory_bytes - each.process.supervised.memory_bytes) for each in running)
        return (
            needs.threads <= cores
            and needs.gpus <= len(self._free_gpus())
            and needs.memory_bytes <= available_memory() - promised
        )

    def submit(self, task: Task) -> None:
        """Start the process of a task."""
        gpus = self._free_gpus()[: task.needs.gpus]
        with ExitStack() as files:
            process = Process(task, files.enter_context(scratch()), gpus, self._servers)
            files.callback(process.end)
            self._running[task.key] = _Running(task, process, gpus, files.pop_all())

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """The tasks that have ended, each with what its process wrote."""
        if not (ended := self._ended()):
            wait([each.process.supervised for each in self._running.values()], timeout_s, files)
            ended = self._ended()
        return ended

    def report(self, key: str) -> Report | None:
        """How far a task says it is."""
        return self._running[key].process.report() if key in self._running else None

    def host(self, key: str) -> str:
        """Always this machine."""
        return ""

    def _ended(self) -> list[Ended]:
        endings = [(each, each.process.look()) for each in self._running.values()]
        return [self._taken(running, ending) for running, ending in endings if ending is not None]

    def _taken(self, running: _Running, ending: Ending) -> Ended:
        del self._running[running.task.key]
        with running.files:
            return Ended(running.task, running.process.outcome(), ending)

    def _free_gpus(self) -> tuple[str, ...]:
        free = list(self._capacity.gpus)
        for each in self._running.values():
            for gpu in each.gpus:
                free.remove(gpu)
        return tuple(dict.fromkeys(free))
