"""From ``--on`` to an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xmcbench.errors import UsageError
from xmcbench.runner.executors.local import Local
from xmcbench.runner.executors.servers import GPUS
from xmcbench.runner.place import HERE, Place
from xmcbench.runner.schedule import capacity, jobs_of

if TYPE_CHECKING:
    from xmcbench.runner.executors.base import Executor
    from xmcbench.runner.executors.ray.connection import Cluster
    from xmcbench.runner.plan import PlannedCell


def check_on(on: str) -> str:
    """A value of ``--on`` that is one. Raises UsageError."""
    if on not in (HERE, "ray") and not on.startswith("ray://"):
        raise UsageError(f"--on {on!r} is not local, ray or ray://HOST:PORT")
    return on


@contextmanager
def opened(place: Place, cells: Sequence[PlannedCell]) -> Iterator[tuple[Executor, int]]:
    """The executor of a place, and how many of the cells it runs at once.

    Without a number, that is one cell here, and as many as its cores allow on a cluster. Raises UsageError for a number
    below one and for a cluster that cannot be used, Unavailable where Ray is not installed, and StorageError for a runs
    folder that cannot be written.
    """
    if check_on(place.on) == HERE:
        jobs = _jobs_here(place, cells)
        place.store.check_writable()
        with Local(capacity(jobs, place.cells_per_gpu, os.environ.get(GPUS))) as executor:
            yield executor, jobs
    else:
        from xmcbench.runner.executors.ray.driver import Ray

        with (
            _cluster(place, cells) as (cluster, jobs),
            Ray(cluster, jobs, place.cells_per_gpu, place.store.root) as executor,
        ):
            place.store.check_writable()
            yield executor, jobs


def jobs_at(place: Place, cells: Sequence[PlannedCell]) -> int:
    """How many of the cells a place runs at once. Raises what ``opened`` raises.

    Starts no cell and writes nothing to the runs folder.
    """
    if check_on(place.on) == HERE:
        return _jobs_here(place, cells)
    with _cluster(place, cells) as (_, jobs):
        return jobs


def _jobs_here(place: Place, cells: Sequence[PlannedCell]) -> int:
    room = Local(capacity(1, 1, os.environ.get(GPUS))).room
    return jobs_of(1 if place.jobs is None else place.jobs, cells, room)


@contextmanager
def _cluster(place: Place, cells: Sequence[PlannedCell]) -> Iterator[tuple[Cluster, int]]:
    from xmcbench.runner.executors.ray.connection import connected

    with connected(place.on) as cluster:
        cluster.check_room(place.compute, cells)
        yield cluster, jobs_of("auto" if place.jobs is None else place.jobs, cells, cluster.room)
