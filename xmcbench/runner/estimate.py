"""The estimated cost of a plan, from the cost of similar cells, and the work that its cells share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xmcbench.storage.canonical import sha256_json

if TYPE_CHECKING:
    from xmcbench.data import Dataset
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
    for record in store.records() if missing else ():
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
    """Return the questions and tokens of cells that ask a language model, by key; those of a pre-training once."""
    found: dict[str, tuple[int, int]] = {}
    counted: set[str] = set()
    for planned in cells:
        row, key = planned.row, pretraining_key(planned)
        if "estimate_calls" not in row.method.defines or key in counted:
            continue
        files = [file for file in planned.plugins if file != row.entry.plugin]
        # With these parameters the method may ask nothing, and reading all texts takes a while.
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
