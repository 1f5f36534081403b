"""What a plan will take, by what similar cells took, and what its cells share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xmcbench.storage.canonical import sha256_json

if TYPE_CHECKING:
    from xmcbench.records import Cell, Record, Store
    from xmcbench.runner.plan import Plan, PlannedCell


@dataclass(frozen=True)
class SharedWork:
    """A pre-training that several cells to run have in common. cells: their keys."""

    method: str
    dataset: str
    seed: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """last: key of a cell -> the record by which its cost is estimated.

    total_s: seconds of the cells to run, one after the other. unmeasured: how many of them nothing is known about.
    """

    last: dict[str, Record]
    shared: list[SharedWork]
    total_s: float
    unmeasured: int

    @classmethod
    def of(cls, plan: Plan, store: Store) -> Estimate:
        """The estimate for a plan. Raises StorageError for a runs folder that cannot be read."""
        last = similar_records(plan.cells, store)
        waiting = [each for each in plan.cells if each.state == "to run"]
        measured = [last[each.cell.key].measured.total_s for each in waiting if each.cell.key in last]
        return cls(last, shared_work(waiting), sum(measured), len(waiting) - len(measured))


def similar_records(cells: Iterable[PlannedCell], store: Store) -> dict[str, Record]:
    """Key of a cell -> its own result, or the last one of the same method and dataset.

    One with the same parameters counts more than one with others, and then one in the same setting.
    """
    found = {each.cell.key: each.record for each in cells if each.record is not None and each.record.finished}
    others = [each.cell for each in cells if each.cell.key not in found]
    if not others:
        return found
    done: dict[tuple[str, str], list[Record]] = {}
    for record in store.records():
        if record.finished:
            done.setdefault((record.cell.dataset_sha256, record.cell.method), []).append(record)
    for cell in others:
        if candidates := done.get((cell.dataset_sha256, cell.method)):
            found[cell.key] = max(candidates, key=lambda record: _likeness(record, cell))
    return found


def _likeness(record: Record, cell: Cell) -> tuple[bool, bool, str]:
    same = record.cell.parameters == cell.parameters
    return same, record.cell.setting == cell.setting, record.measured.started


def shared_work(cells: Iterable[PlannedCell]) -> list[SharedWork]:
    """The pre-trainings that more than one of the cells need."""
    groups: dict[str, list[PlannedCell]] = {}
    for each in cells:
        if key := pretraining_key(each):
            groups.setdefault(key, []).append(each)
    return [
        SharedWork(group[0].name, group[0].cell.dataset, group[0].cell.seed, tuple(each.cell.key for each in group))
        for group in groups.values()
        if len(group) > 1
    ]


def pretraining_key(planned: PlannedCell) -> str:
    """What names the pre-training of a cell; empty where its method has none.

    It is that of the artifact without the code, which is one for all cells of a plan.
    """
    cell, dataset = planned.cell, planned.dataset
    if not planned.row.method.pretrains:
        return ""
    texts = [dataset.train_corpus.texts_sha256, dataset.label_corpus.texts_sha256]
    return sha256_json([*texts, cell.method, cell.parameters, cell.seed])
