"""The machines that cells run on, the limits of a cell, and the executor for them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xmcbench.environment import Compute
from xmcbench.errors import UsageError
from xmcbench.records import Store
from xmcbench.runner.executors.local import Local
from xmcbench.runner.executors.process import GPUS
from xmcbench.runner.schedule import Jobs, capacity, jobs_of

if TYPE_CHECKING:
    from xmcbench.runner.executors.base import Executor
    from xmcbench.runner.executors.ray.connection import Cluster
    from xmcbench.runner.plan import PlannedCell

#: More GiB than any machine has, and more seconds than any run takes.
_MOST = 1e9

#: The value of ``--on`` for this machine.
HERE = "local"


@dataclass(frozen=True)
class Limits:
    """The limits of one cell: wall seconds, and GiB of memory for its process and its children; None, or infinity, for
    no limit."""

    time_s: float | None = None
    memory_gib: float | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a limit that is not above 0, or more than any machine has."""
        limits = {"time_s": ("time limit", "use inf"), "memory_gib": ("memory limit", "leave it out")}
        for attribute, (name, none) in limits.items():
            limit = getattr(self, attribute)
            if limit == math.inf:
                object.__setattr__(self, attribute, None)
            elif limit is not None and not 0 < limit <= _MOST:
                message = f"a {name} of {limit:g} is not above 0 and at most {_MOST:g}"
                raise UsageError(message, f"{none} for no limit")

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        return int(self.memory_gib * 2**30) if self.memory_gib else None


@dataclass(frozen=True)
class Target:
    """The runs folder of cells, their limits, and their hardware.

    jobs: cells at a time, ``auto`` for as many as the cores allow; None is one on this machine, and ``auto`` on a
    cluster. cells_per_gpu: cells that may share a GPU. on: ``local``; ``ray`` for the Ray cluster of RAY_ADDRESS, or a
    cluster of this machine; or an address, ``ray://HOST:PORT``.
    """

    store: Store
    limits: Limits = field(default_factory=Limits)
    compute: Compute = field(default_factory=Compute)
    jobs: Jobs | None = None
    cells_per_gpu: int = 1
    on: str = HERE


def check_on(on: str) -> str:
    """Return a value of ``--on``. Raises UsageError if it is invalid."""
    if on not in (HERE, "ray") and not on.startswith("ray://"):
        raise UsageError(f"--on {on!r} is not local, ray or ray://HOST:PORT")
    return on


@contextmanager
def open_executor(target: Target, cells: Sequence[PlannedCell]) -> Iterator[tuple[Executor, int]]:
    """Open the executor of a target; also return the number of cells that it runs at a time.

    Raises UsageError, Unavailable if Ray is not installed, and StorageError for a folder that cannot be written.
    """
    if check_on(target.on) == HERE:
        jobs = _count_jobs_here(target, cells)
        target.store.check_writable()
        with Local(capacity(jobs, target.cells_per_gpu, os.environ.get(GPUS))) as executor:
            yield executor, jobs
    else:
        from xmcbench.runner.executors.ray.driver import Ray

        with (
            _connect(target, cells) as (cluster, jobs),
            Ray(cluster, jobs, target.cells_per_gpu, target.store.root) as executor,
        ):
            target.store.check_writable()
            yield executor, jobs


def count_jobs(target: Target, cells: Sequence[PlannedCell]) -> int:
    """Return how many of the cells run at a time; start none and write no file. Raises as ``open_executor`` does."""
    if check_on(target.on) == HERE:
        return _count_jobs_here(target, cells)
    with _connect(target, cells) as (_, jobs):
        return jobs


def _count_jobs_here(target: Target, cells: Sequence[PlannedCell]) -> int:
    room = Local(capacity(1, 1, os.environ.get(GPUS))).room
    return jobs_of(1 if target.jobs is None else target.jobs, cells, room)


@contextmanager
def _connect(target: Target, cells: Sequence[PlannedCell]) -> Iterator[tuple[Cluster, int]]:
    from xmcbench.runner.executors.ray.connection import connect

    with connect(target.on) as cluster:
        cluster.check_room(target.compute, cells)
        yield cluster, jobs_of("auto" if target.jobs is None else target.jobs, cells, cluster.room)
