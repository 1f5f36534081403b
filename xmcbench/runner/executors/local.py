"""Tasks as processes of this machine, as many as its slots, cores, GPUs and memory allow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Self

from xmcbench.environment import available_memory, machine_cores, usable_cores
from xmcbench.processes.supervisor import wait
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Ended, Needs, Room, Task
from xmcbench.runner.executors.process import Process, Servers
from xmcbench.storage.temporary import scratch


@dataclass(frozen=True)
class Capacity:
    """The capacity of this machine for all tasks. gpus: each GPU number, once for every task that may share it."""

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
        """Return whether a slot, cores, GPUs and memory are free; always if nothing runs."""
        running = self._running.values()
        if not running:
            return True
        if len(running) >= self._capacity.slots:
            return False
        cores = self._capacity.cores - sum(other.task.needs.threads for other in running)
        # The known peak of a cell counts from its start.
        growth = (other.task.needs.memory_bytes - other.process.supervised.memory_bytes for other in running)
        return (
            needs.threads <= cores
            and needs.gpus <= len(self._free_gpus())
            and needs.memory_bytes <= available_memory() - sum(max(0, more) for more in growth)
        )

    def submit(self, task: Task) -> None:
        """Start the process of a task."""
        gpus = self._free_gpus()[: task.needs.gpus]
        with ExitStack() as files:
            process = Process(task, files.enter_context(scratch()), gpus, self._servers)
            files.callback(process.end)
            self._running[task.key] = _Running(task, process, gpus, files.pop_all())

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """Return the tasks that have ended, with the outcomes of their processes."""
        if not (ended := self._take_ended()):
            wait([running.process.supervised for running in self._running.values()], timeout_s, files)
            ended = self._take_ended()
        return ended

    def report(self, key: str) -> Report | None:
        """Return the latest progress report of a task."""
        return self._running[key].process.report() if key in self._running else None

    def host(self, key: str) -> str:
        """Return a name for this machine."""
        return ""

    def _take_ended(self) -> list[Ended]:
        ended = []
        for running in [*self._running.values()]:
            if ending := running.process.look():
                del self._running[running.task.key]
                with running.files:
                    ended.append(Ended(running.task, running.process.outcome(), ending))
        return ended

    def _free_gpus(self) -> tuple[str, ...]:
        free = list(self._capacity.gpus)
        for gpu in chain.from_iterable(running.gpus for running in self._running.values()):
            free.remove(gpu)
        return tuple(dict.fromkeys(free))
