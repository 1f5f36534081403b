"""The order of cells: their needs, the cells that they wait for, and the shard of a plan that a machine runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xmcbench.environment import accelerators, machine_cores
from xmcbench.errors import UsageError
from xmcbench.runner.executors.base import Needs, Room
from xmcbench.runner.executors.local import Capacity
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.records import Record
    from xmcbench.runner.plan import Plan, PlannedCell

Jobs = int | Literal["auto"]


def jobs_of(jobs: Jobs, cells: Iterable[PlannedCell], room: Room) -> int:
    """Return how many cells run at a time; ``auto``: as many as the neediest allows. Raises UsageError below one."""
    if isinstance(jobs, str):
        return max(1, room.cores // max((_cores(cell, room) for cell in cells), default=1))
    if jobs < 1:
        raise UsageError(f"--jobs {jobs} must be at least 1", "or auto")
    return jobs


def capacity(jobs: int, cells_per_gpu: int, visible: str | None = None) -> Capacity:
    """Return the capacity of this machine for so many cells at a time. visible: ``CUDA_VISIBLE_DEVICES``."""
    gpus = [str(number) for number in range(len(accelerators()))]
    if visible is not None:
        gpus = [gpu.strip() for gpu in visible.split(",") if gpu.strip()] if gpus else []
    return Capacity(jobs, max(jobs, machine_cores()), tuple(gpus * cells_per_gpu))


def needs_of(planned: PlannedCell, jobs: int, compute: Compute, last: Record | None, room: Room) -> Needs:
    """Return the needs of a cell: its share of the cores or its declared cores, GPUs, the memory of a similar cell."""
    share = max(1, room.cores // jobs)
    # A record that is run again names the threads of its own machine.
    threads = min(compute.threads or max(share, _cores(planned, room)), room.cores_of_one)
    gpus = compute.processes if planned.needs.get("gpu") and compute.device in ("auto", "cuda") else 0
    return Needs(threads, min(gpus, room.gpus_of_one), last.measured.peak_memory_bytes if last else 0)


def _cores(planned: PlannedCell, room: Room) -> int:
    return min(room.cores_of_one, max(1, planned.needs.get("cores", 1)))


def waits_for_parts(planned: PlannedCell, unfinished: Iterable[PlannedCell]) -> bool:
    """Return whether a cell waits for unfinished cells because it may use their rankings."""
    return any(_is_part(cell, planned) for cell in unfinished) if planned.parts else False


def _is_part(part: PlannedCell, planned: PlannedCell) -> bool:
    """Return whether a cell may use the ranking of another cell."""
    cell, whole = part.cell, planned.cell
    candidates = [values for name, values in planned.parts if name == cell.method]
    same = (cell.dataset_sha256, cell.subset_sha256) == (whole.dataset_sha256, whole.subset_sha256)
    if not candidates or not same or not (cell.seed == whole.seed or part.row.method.deterministic):
        return False
    # By parameters too: two methods may each use the other one with parameters that end the chain.
    return canonical_json(cell.parameters) in map(canonical_json, candidates)


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``parts`` of a plan, counted from 1, for machines that share only a runs folder."""

    number: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of ``I/N``. Raises UsageError."""
        number, slash, parts = text.partition("/")
        try:
            shard = cls(int(number), int(parts))
        except ValueError:
            shard = cls(0, 0)
        if not slash or not 1 <= shard.number <= shard.parts:
            raise UsageError(f"--shard {text!r} is not I/N with 1 <= I <= N", "--shard 1/4 is the first of four")
        return shard

    def of(self, plan: Plan) -> Plan:
        """Return the plan with the cells of this shard, which the key of a cell selects.

        A cell whose ranking other cells use is in their shards too, and runs in the first: otherwise it would be
        trained twice.
        """
        own = [cell for cell in plan.cells if int(cell.cell.key[:12], 16) % self.parts == self.number - 1]
        parts = [part for cell in own if cell.parts for part in plan.cells if _is_part(part, cell)]
        chosen = {cell.cell.key for cell in (*own, *parts)}
        return replace(plan, cells=[cell for cell in plan.cells if cell.cell.key in chosen])
