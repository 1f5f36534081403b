"""A row label by label: how often each label is found among the first predictions, and which label is predicted in its
place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmcbench.analysis.explain import load_texts
from xmcbench.analysis.rankings import check_k, load_filtered, load_stored
from xmcbench.metrics import TruePairs
from xmcbench.output.escaping import csv_file
from xmcbench.output.layout import format_table, shorten
from xmcbench.output.quantities import format_count
from xmcbench.records.selection import Selected
from xmcbench.runner.scoring import ranks_under
from xmcbench.storage.atomic import write_text

#: Labels, and confusions, shown in a terminal.
_SHOWN = 15
#: Characters of a label in a terminal.
_LONGEST = 32


@dataclass(frozen=True)
class LabelFigures:
    """A label of the test set.

    support: its true pairs. predicted: instances that have it among the first k predictions, found: truly; predicted,
    precision and f1 are None without stored predictions. confused_with: the label that is most often predicted first,
    wrongly, where this one is true, and how often.
    """

    label: int
    uid: str
    text: str
    support: int
    found: int
    recall: float
    predicted: int | None = None
    precision: float | None = None
    f1: float | None = None
    confused_with: str = ""
    confused: int = 0


@dataclass(frozen=True)
class Confusion:
    """A wrong first prediction in the place of a true label, and the number of instances."""

    true: str
    predicted: str
    instances: int


@dataclass(frozen=True)
class ByLabel:
    """The figures of a run by label: of those with a true pair or a prediction, in the order of the dataset.

    macro: mean precision, recall and F1 over the labels with a true pair; those without a prediction have precision 0.
    """

    row: str
    dataset: str
    setting: str
    seed: int
    filter: str
    k: int
    labels: tuple[LabelFigures, ...]
    confusions: tuple[Confusion, ...]
    macro: dict[str, float | None]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)

    def write_csv(self, path: Path) -> None:
        """Write a line per label; text is escaped for spreadsheets. Raises StorageError."""
        heads = tuple(LabelFigures.__dataclass_fields__)
        write_text(path, csv_file([heads, *(tuple(asdict(label).values()) for label in self.labels)]))

    def __str__(self) -> str:
        """The labels that lose most true pairs, and the most frequent confusions."""
        head = f"{self.row}, {self.dataset}, {self.setting}, seed {self.seed}, filter {self.filter}"
        macro = ", ".join(f"{name} {_percent(value)}" for name, value in self.macro.items() if value is not None)
        true = [label for label in self.labels if label.support]
        about = f"{format_count(len(true), 'label')} with a true pair, at k = {self.k}. Macro {macro} (percent)."
        lost = sorted(true, key=lambda label: (label.found - label.support, label.label))[:_SHOWN]
        lines = [
            [
                shorten(label.text or f"label {label.label}", _LONGEST),
                f"{label.support:,}",
                *map(_percent, (label.precision, label.recall, label.f1)),
                f"{shorten(label.confused_with, _LONGEST)} ({label.confused})" if label.confused else "",
            ]
            for label in lost
        ]
        heads = ["label", "support", "P", "R", "F1", "most confused with"]
        sides = ("left", "right", "right", "right", "right", "left")
        parts = [f"{head}\n{about}", "Labels that lose most true pairs:", format_table(lines, heads, sides)]
        if self.confusions:
            confused = [
                [shorten(confusion.true, _LONGEST), shorten(confusion.predicted, _LONGEST), f"{confusion.instances:,}"]
                for confusion in self.confusions[:_SHOWN]
            ]
            table = format_table(confused, ["true label", "predicted first", "instances"], ("left", "left", "right"))
            parts += ["Wrong first predictions:", table]
        return "\n\n".join([*parts, *self.notes])


def explain_by_label(row: Selected, filter_name: str | None = None, k: int = 5, dataset: str | None = None) -> ByLabel:
    """Return the figures of a row's first run by label, at the first k predictions (1..100).

    dataset: its place, if it is not found by its name. Without stored predictions there is no precision and no
    confusion, without the dataset there are no texts; notes say so. Raises UsageError and StorageError.
    """
    record, store = row.records[0], row.store
    check_k(k)
    truth, chosen = store.truth(record), filter_name or record.protocol.filter
    ranks = ranks_under(chosen, record, store, truth)
    data, note = load_texts(row, dataset)
    notes = [note] if note else []
    size, pairs = len(truth.frequency), truth.pairs
    hit = (ranks > 0) & (ranks <= k)
    support, found = np.bincount(pairs.labels, minlength=size), np.bincount(pairs.labels[hit], minlength=size)
    columns: dict[str, NDArray[Any]] = {"support": support, "found": found, "recall": found / np.maximum(support, 1)}
    counted: dict[tuple[int, int], int] = {}
    if data is None or load_stored(record, store) is None:
        notes.append("Without precision and confusions: they need the dataset and stored predictions (run --force).")
    else:
        indices = load_filtered(record, store, data, chosen).indices
        first = indices[:, :k]
        scored = pairs.lengths > 0  # rows without a true label are not scored
        predicted = np.bincount(first[scored][first[scored] >= 0], minlength=size)
        f1 = 2 * found / np.maximum(support + predicted, 1)
        columns |= {"predicted": predicted, "precision": found / np.maximum(predicted, 1), "f1": f1}
        counted = count_confusions(pairs, indices[:, 0])
    texts = list(data.labels.titles) if data else [f"label {label}" for label in range(size)]
    uids = list(data.labels.uids) if data else [str(label) for label in range(size)]
    worst: dict[int, tuple[int, int]] = {}
    for (true, other), number in counted.items():  # the most frequent ones come first
        worst.setdefault(true, (other, number))
    labels = []
    for label in np.flatnonzero(support + columns.get("predicted", 0)).tolist():
        figures = {name: values[label].item() for name, values in columns.items()}
        other, number = worst.get(label, (label, 0))
        confused_with = texts[other] if number else ""
        labels.append(
            LabelFigures(label, uids[label], texts[label], **figures, confused_with=confused_with, confused=number)
        )
    macro = {
        name: float(columns[column][support > 0].mean()) if column in columns else None
        for name, column in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
    }
    confusions = tuple(Confusion(texts[true], texts[other], number) for (true, other), number in counted.items())
    cell = record.cell
    if len(row.records) > 1:
        notes.append(f"Of {len(row.records)} runs, that of seed {cell.seed} is shown.")
    names = record.name, cell.dataset, cell.setting.title, cell.seed, chosen
    return ByLabel(*names, k, tuple(labels), confusions, macro, tuple(notes))


def count_confusions(pairs: TruePairs, first: NDArray[np.int32]) -> dict[tuple[int, int], int]:
    """Count the wrong first predictions in the place of each true label: (true, predicted) -> instances.

    first: [rows], -1 where nothing is predicted. The most frequent ones come first, ties by the lower labels.
    """
    hit = np.zeros(pairs.instances, bool)
    hit[pairs.rows[first[pairs.rows] == pairs.labels]] = True
    wrong = ~hit[pairs.rows] & (first[pairs.rows] >= 0)
    both = np.stack([pairs.labels[wrong], first[pairs.rows[wrong]].astype(np.int64)], axis=1)
    distinct, numbers = np.unique(both, axis=0, return_counts=True)
    order: Sequence[int] = np.argsort(-numbers, kind="stable").tolist()
    return {(int(distinct[place, 0]), int(distinct[place, 1])): int(numbers[place]) for place in order}


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
