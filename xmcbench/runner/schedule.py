"""The order of cells, and their cost: needs, cells that wait for others, shards, estimates, and retries.

Work that another run holds is tried again rarely, because each attempt costs a shared folder some work.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xmcbench.environment import accelerators, machine_cores
from xmcbench.errors import PluginError, UsageError
from xmcbench.runner.executors.base import Needs, Room
from xmcbench.runner.executors.local import Capacity
from xmcbench.runner.job import training_name
from xmcbench.storage.canonical import sha256_json

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.environment import Compute
    from xmcbench.records import Cell, Record, Store
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
    cell = part.cell
    if cell.setting != planned.cell.setting:
        return False
    # By parameters too: two methods may each use the other one with parameters that end the chain.
    candidates = [training_name(name, values) for name, values in planned.parts if name == cell.method]
    own = training_name(cell.method, cell.parameters) if candidates else ""
    return own in candidates and part.trainings[own] == planned.trainings[own]


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


@dataclass(frozen=True)
class SharedWork:
    """A pre-training that several cells to run have in common. cells: their keys."""

    method: str
    dataset: str
    seed: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a plan.

    last: key of a cell -> the record by which its cost is estimated. total_s: seconds of the cells to run, one after
    the other. unmeasured: cells without an estimate. calls: key of a cell to run -> questions that it asks of a
    language model at most, and their tokens.
    """

    last: dict[str, Record]
    shared: list[SharedWork]
    total_s: float
    unmeasured: int
    calls: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, plan: Plan, store: Store) -> Estimate:
        """Estimate the cost of a plan. Raises StorageError for a runs folder that cannot be read."""
        last = similar_records(plan.cells, store)
        waiting = [cell for cell in plan.cells if cell.state == "to run"]
        measured = [last[cell.cell.key].measured.total_s for cell in waiting if cell.cell.key in last]
        return cls(last, shared_work(waiting), sum(measured), len(waiting) - len(measured), estimate_calls(waiting))


def similar_records(cells: Iterable[PlannedCell], store: Store) -> dict[str, Record]:
    """Return key of a cell -> its own result, or the most similar result of the same method and dataset.

    Equal parameters count more than an equal setting, and then the latest counts.
    """
    cells = list(cells)
    found = {cell.cell.key: cell.record for cell in cells if cell.record is not None and cell.record.finished}
    missing = [planned.cell for planned in cells if planned.cell.key not in found]
    finished: dict[tuple[str, str], list[Record]] = {}
    for dataset in dict.fromkeys(cell.dataset for cell in missing):
        for record in store.records(dataset):
            if record.finished:
                finished.setdefault((record.cell.dataset_sha256, record.cell.method), []).append(record)
    for cell in missing:

        def likeness(record: Record, cell: Cell = cell) -> tuple[bool, bool, str]:
            same = record.cell.parameters == cell.parameters
            return same, record.cell.setting == cell.setting, record.measured.started

        if candidates := finished.get((cell.dataset_sha256, cell.method)):
            found[cell.key] = max(candidates, key=likeness)
    return found


#: The sizes of a dataset with one text on each side.
_ONE_TEXT = dict.fromkeys(("train", "labels", "test"), (1, 1.0))


def estimate_calls(cells: Iterable[PlannedCell]) -> dict[str, tuple[int, int]]:
    """Return the questions and tokens of cells that ask a language model, by key; those of a pre-training once.

    A method that fails to say how many there are has none.
    """
    found: dict[str, tuple[int, int]] = {}
    counted: set[str] = set()
    for planned in cells:
        row, key = planned.row, pretraining_key(planned)
        if "estimate_calls" not in row.method.defines or key in counted:
            continue
        files = [file for file in planned.plugins if file != row.entry.plugin]
        # With these parameters the method may ask nothing, and reading all texts takes a while.
        with suppress(PluginError):
            if any(row.entry.estimate_calls(row.values, _ONE_TEXT, files)):
                found[planned.cell.key] = row.entry.estimate_calls(row.values, _sizes(planned.dataset), files)
                counted |= {key} - {""}
    return found


def _sizes(dataset: Dataset) -> dict[str, tuple[int, float]]:
    """Return the number of texts of each side of a dataset, and their mean length in characters."""
    import pyarrow.compute as pc

    sides = {"train": dataset.train, "labels": dataset.labels, "test": dataset.test}
    characters = {
        name: sum(pc.sum(pc.utf8_length(batch)).as_py() or 0 for batch in texts.batches())
        for name, texts in sides.items()
    }
    return {name: (len(texts), characters[name] / max(1, len(texts))) for name, texts in sides.items()}


def shared_work(cells: Iterable[PlannedCell]) -> list[SharedWork]:
    """Return the pre-trainings that more than one of the cells need."""
    groups: dict[str, list[PlannedCell]] = {}
    for cell in cells:
        if key := pretraining_key(cell):
            groups.setdefault(key, []).append(cell)
    return [
        SharedWork(group[0].name, group[0].cell.dataset, group[0].cell.seed, tuple(cell.cell.key for cell in group))
        for group in groups.values()
        if len(group) > 1
    ]


def pretraining_key(planned: PlannedCell) -> str:
    """Return the name of the pre-training of a cell; empty if its method has none.

    It is the key of the artifact without the source, which is the same for all cells of a plan.
    """
    cell, dataset = planned.cell, planned.dataset
    if "pretrain" not in planned.row.method.defines:
        return ""
    texts = [dataset.train_corpus.texts_sha256, dataset.label_corpus.texts_sha256]
    return sha256_json([*texts, cell.method, cell.parameters, cell.seed])


#: Seconds between two attempts for one thing: a tenth of the time waited so far, within these bounds.
_LEAST_S, _MOST_S, _SHARE = 0.5, 15.0, 0.1
#: The most attempts per second when a run waits for many things.
_RATE = 40.0
#: Failed attempts in a row after which a run returns to its own cells.
MOST_FAILED = 20


class Backoff:
    """The times of the next attempts, by the name of the work that another run holds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def is_due(self, name: str) -> bool:
        """Return whether to try now: at once unless the last attempt failed."""
        return name not in self._due or self._due[name] <= time.monotonic()

    def fail(self, name: str) -> None:
        """Record that another run holds it."""
        now = time.monotonic()
        waited_s = now - self._since.setdefault(name, now)
        self._due[name] = now + max(_LEAST_S, min(_MOST_S, _SHARE * waited_s), len(self._since) / _RATE)

    def succeed(self, name: str) -> None:
        """Record that this run holds it."""
        self._since.pop(name, None)
        self._due.pop(name, None)
