"""Which cell is next: what a cell needs, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from xmcbench.environment import accelerators, machine_cores
from xmcbench.errors import UsageError
from xmcbench.runner.executors.base import Needs, Room
from xmcbench.runner.executors.local import Capacity
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.progress import Report
    from xmcbench.records import Record
    from xmcbench.runner.plan import PlannedCell

Jobs = int | Literal["auto"]


def jobs_of(asked: Jobs, cells: Iterable[PlannedCell], room: Room) -> int:
    """How many cells run at once: for ``auto``, as many as the cores allow that the neediest cell declares.

    Raises UsageError for less than one.
    """
    if isinstance(asked, str):
        return max(1, room.cores // max((_cores(each, room) for each in cells), default=1))
    if asked < 1:
        raise UsageError(f"--jobs {asked} must be at least 1", "or auto")
    return asked


def capacity(jobs: int, cells_per_gpu: int, visible: str | None = None) -> Capacity:
    """What this machine has for so many cells at once. visible: ``CUDA_VISIBLE_DEVICES``."""
    gpus = [str(number) for number in range(len(accelerators()))]
    if visible is not None:
        gpus = [each.strip() for each in visible.split(",") if each.strip()] if gpus else []
    return Capacity(jobs, max(jobs, machine_cores()), tuple(gpus * cells_per_gpu))


def needs_of(planned: PlannedCell, jobs: int, compute: Compute, last: Record | None, room: Room) -> Needs:
    """What a cell takes: its share of the cores, or what it declares; its GPUs; the memory that one like it took."""
    share = max(1, room.cores // jobs)
    # A record that is run again names the threads of its own machine.
    threads = min(compute.threads or max(share, _cores(planned, room)), room.cores_of_one)
    wanted = compute.processes if planned.needs.get("gpu") and compute.device in ("auto", "cuda") else 0
    return Needs(threads, min(wanted, room.gpus_of_one), last.measured.peak_memory_bytes if last else 0)


def _cores(planned: PlannedCell, room: Room) -> int:
    return min(room.cores_of_one, max(1, planned.needs.get("cores", 1)))


def pretrained(report: Report | None) -> bool:
    """Whether a running cell is past its pre-training."""
    return report is not None and report.phase not in ("load", "pretrain")


def waits_for_parts(planned: PlannedCell, unfinished: Iterable[PlannedCell]) -> bool:
    """Whether a cell waits for others that run, or are to run, because it may use their rankings."""
    return next(parts_of(planned, unfinished), None) is not None


def parts_of(planned: PlannedCell, cells: Iterable[PlannedCell]) -> Iterator[PlannedCell]:
    """Those of the cells whose rankings a cell may use."""
    return (each for each in cells if _is_part(each, planned)) if planned.parts else iter(())


def _is_part(other: PlannedCell, planned: PlannedCell) -> bool:
    """Whether the ranking of a cell is one that another cell uses."""
    one, whole = other.cell, planned.cell
    parts = [values for name, values in planned.parts if name == one.method]
    same = (one.dataset_sha256, one.subset_sha256) == (whole.dataset_sha256, whole.subset_sha256)
    if not parts or not same or not (one.seed == whole.seed or other.row.method.deterministic):
        return False
    # By parameters too: two methods may each use the other one with parameters that end the chain.
    return canonical_json(one.parameters) in map(canonical_json, parts)
