"""Where cells run, and what one of them may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from xmcbench.environment import Compute
from xmcbench.errors import UsageError
from xmcbench.records import Store
from xmcbench.runner.schedule import Jobs

#: No machine has so many GiB, and no run takes so many seconds.
_MOST = 1e9

#: The executor of a run that names none.
HERE = "local"


@dataclass(frozen=True)
class Limits:
    """The limits of one cell: wall seconds, and GiB of memory for its process and its children."""

    time_s: float | None = None
    memory_gib: float | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a limit that is not above 0, or more than any machine has."""
        limits = {"time limit": (self.time_s, "use inf"), "memory limit": (self.memory_gib, "leave it out")}
        for what, (limit, none) in limits.items():
            if limit is not None and not 0 < limit <= _MOST:
                message = f"a {what} of {limit:g} is not above 0 and at most {_MOST:g}"
                raise UsageError(message, f"{none} for no limit")

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        return int(self.memory_gib * 2**30) if self.memory_gib else None


@dataclass(frozen=True)
class Place:
    """Where cells run, their limits, and their hardware.

    jobs: how many at once, ``auto`` for as many as the cores allow; None is one on this machine, and ``auto`` on a
    cluster. cells_per_gpu: how many may share a GPU. on: ``local``; ``ray`` for the Ray cluster of RAY_ADDRESS, or one
    of this machine; or the address of one, ``ray://HOST:PORT``.
    """

    store: Store
    limits: Limits = field(default_factory=Limits)
    compute: Compute = field(default_factory=Compute)
    jobs: Jobs | None = None
    cells_per_gpu: int = 1
    on: str = HERE
