"""From ``--on`` to an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xmcbench.errors import UsageError
from xmcbench.runner.executors.local import Local
from xmcbench.runner.schedule import capacity, jobs_of

if TYPE_CHECKING:
    from xmcbench.runner.executors.base import Executor
    from xmcbench.runner.place import Place
    from xmcbench.runner.plan import PlannedCell

#: The executor of a run that names none.
HERE = "local"


def check_on(on: str) -> str:
    """A value of ``--on`` that is one. Raises UsageError."""
    if on not in (HERE, "ray") and not on.startswith("ray://"):
        raise UsageError(f"--on {on!r} is not local, ray or ray://HOST:PORT")
    return on


@contextmanager
def opened(place: Place, cells: Sequence[PlannedCell]) -> Iterator[tuple[Executor, int]]:
    """The executor of a place, and how many of the cells it runs at once.

    Without a number, that is one cell here, and as many as its cores allow on a cluster. Raises UsageError for a number
    below one and for a cluster that cannot be used, Unavailable where Ray is not installed.
    """
    if check_on(place.on) == HERE:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        jobs = jobs_of(1 if place.jobs is None else place.jobs, cells, Local(capacity(1, 1, visible)).room)
        with Local(capacity(jobs, place.cells_per_gpu, visible)) as executor:
            yield executor, jobs
    else:
        from xmcbench.runner.executors.ray.connection import connected
        from xmcbench.runner.executors.ray.driver import Ray

        with connected(place.on) as cluster:
            cluster.check_room(place.compute, cells)
            jobs = jobs_of("auto" if place.jobs is None else place.jobs, cells, cluster.room)
            with Ray(cluster, jobs, place.cells_per_gpu, place.store.root) as executor:
                yield executor, jobs
