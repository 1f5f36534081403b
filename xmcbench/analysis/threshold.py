"""A threshold on scores: chosen on one dataset for micro F1, such as held-out instances, and its figures on another."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmcbench.analysis.explain import load_texts
from xmcbench.analysis.rankings import load_filtered
from xmcbench.errors import UsageError
from xmcbench.metrics import TruePairs
from xmcbench.output.layout import format_table
from xmcbench.output.quantities import format_count
from xmcbench.records.selection import Selected
from xmcbench.topk import TopK

#: The highest threshold: a first score may be infinite, and JSON has no such number.
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class AtThreshold:
    """Figures of the predictions whose score is at least a threshold, among the first 100 of each instance.

    instances: those with a true label; only they count. micro: precision, recall and F1 over all predictions; macro:
    their means over the labels with a true pair, of which those without a prediction have precision 0.
    """

    dataset: str
    instances: int
    predictions: int
    micro: tuple[float, ...]
    macro: tuple[float, ...]

    @classmethod
    def of(cls, dataset: str, predictions: TopK, pairs: TruePairs, threshold: float) -> AtThreshold:
        """Return the figures at a threshold."""
        labels, scores, hits = _flatten(predictions, pairs)
        kept = scores.astype(np.float64) >= threshold
        size = int(max(labels.max(initial=0), pairs.labels.max(initial=0))) + 1
        predicted = np.bincount(labels[kept], minlength=size)
        found = np.bincount(labels[kept & hits], minlength=size)
        true = np.bincount(pairs.labels, minlength=size)
        micro = _figures(found.sum(), predicted.sum(), true.sum())
        macro = _figures(found[true > 0], predicted[true > 0], true[true > 0]).mean(axis=1)
        instances = np.count_nonzero(pairs.lengths)
        return cls(dataset, instances, int(kept.sum()), tuple(micro.tolist()), tuple(macro.tolist()))


@dataclass(frozen=True)
class Thresholded:
    """A threshold of a row: its figures on the dataset where it was chosen, and on the other one.

    chosen_seed, seed: of the runs on these. filter: of both; where they differ, "none and file".
    """

    row: str
    setting: str
    chosen_seed: int
    seed: int
    filter: str
    threshold: float
    chosen_on: AtThreshold
    tested_on: AtThreshold

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """The threshold, and a line of figures per dataset."""
        other = f", threshold of seed {self.chosen_seed}" if self.chosen_seed != self.seed else ""
        head = f"{self.row}, {self.setting}, seed {self.seed}{other}, filter {self.filter}"
        about = (
            f"Threshold {self.threshold:.9g}, which has the highest micro F1 on {self.chosen_on.dataset} "
            f"({format_count(self.chosen_on.instances, 'instance')}). Percent."
        )
        figures = [f"{kind} {name}" for kind in ("micro", "macro") for name in ("P", "R", "F1")]
        heads = ["dataset", "labels per instance", *figures]
        lines = [
            [
                found.dataset,
                f"{found.predictions / max(found.instances, 1):.2f}",
                *(f"{100 * value:.2f}" for value in (*found.micro, *found.macro)),
            ]
            for found in (self.chosen_on, self.tested_on)
        ]
        return f"{head}\n{about}\n\n{format_table(lines, heads, ('left', *('right' for _ in heads[1:])))}"


def find_threshold(
    chosen_on: Selected,
    tested_on: Selected,
    filter_name: str | None = None,
    places: tuple[str | None, str | None] = (None, None),
) -> Thresholded:
    """Choose a threshold on a run of a row, and return its figures there and on that of another dataset.

    The runs are the first of a seed that both have, or the first ones.
    places: of the datasets, where they are not found by their names. Raises UsageError for rows of other parameters
    or settings, and without stored predictions.
    """
    seeds = [seed for seed in chosen_on.seeds if seed in tested_on.seeds]
    first, second = (
        next((record for record in row.records if record.cell.seed in seeds), row.records[0])
        for row in (chosen_on, tested_on)
    )
    if (first.cell.row, first.cell.setting) != (second.cell.row, second.cell.setting):
        rows = " and ".join(f"{record.name}, {record.cell.setting.title}," for record in (first, second))
        raise UsageError(f"{rows} are two rows", "choose the threshold of the row that it is for")
    loaded = [
        _load(replace(row, records=(record,)), place, filter_name)
        for row, record, place in zip((chosen_on, tested_on), (first, second), places, strict=True)
    ]
    threshold = choose_threshold(*loaded[0])
    figures = [
        AtThreshold.of(record.cell.dataset, *parts, threshold)
        for record, parts in zip((first, second), loaded, strict=True)
    ]
    # Held-out instances are other rows than those of a filter file, so their default filter may be another.
    filters = " and ".join(dict.fromkeys(filter_name or record.protocol.filter for record in (first, second)))
    cell = second.cell
    return Thresholded(second.name, cell.setting.title, first.cell.seed, cell.seed, filters, threshold, *figures)


def choose_threshold(predictions: TopK, pairs: TruePairs) -> float:
    """Return the threshold with the highest micro F1, the highest of equal ones, with the digits that it needs: four,
    or more where another score lies close below.

    Raises UsageError without any prediction of an instance with a true label.
    """
    _, scores, hits = _flatten(predictions, pairs)
    if not len(scores):
        raise UsageError("there is no prediction to choose a threshold on", "the row predicts nothing there")
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(hits[order])
    f1 = 2 * found / (np.arange(1, len(order) + 1) + len(pairs.rows))
    # Equal scores are all kept or none.
    last = np.append(scores[order][1:] != scores[order][:-1], True)
    best = int(np.argmax(np.where(last, f1, -1)))
    lowest = min(float(scores[order][best]), _LARGEST)
    below = float(scores[order][best + 1]) if best + 1 < len(order) else -math.inf
    # Rounded down, so that the score itself is kept by the number that is printed, and no other one is, also where
    # the number is compared with 32 bits, as arrays of scores do.
    rounded = (_round_down(lowest, digits) for digits in range(4, 10))
    return next((value for value in rounded if float(np.float32(value)) > below), lowest)


def _round_down(value: float, digits: int) -> float:
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1) if value else 1.0
    return min(value, float(f"{math.floor(value / unit) * unit:.{digits}g}"))


def _load(row: Selected, place: str | None, filter_name: str | None) -> tuple[TopK, TruePairs]:
    record = row.records[0]
    data, note = load_texts(row, place)
    if data is None:
        raise UsageError(note, "give its place with --dataset")
    predictions = load_filtered(record, row.store, data, filter_name or record.protocol.filter)
    return predictions, row.store.truth(record).pairs


def _flatten(predictions: TopK, pairs: TruePairs) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
    """Return label, score and truth of each prediction of an instance with a true label."""
    there = (predictions.indices >= 0) & (pairs.lengths > 0)[:, None]
    rows, labels = np.nonzero(there)[0], predictions.indices[there].astype(np.int64)
    width = int(max(labels.max(initial=0), pairs.labels.max(initial=0))) + 1
    true = pairs.rows.astype(np.int64) * width + pairs.labels
    return labels, predictions.scores[there], np.isin(rows * width + labels, true)


def _figures(found: NDArray[Any], predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[np.float64]:
    """Return precision, recall and F1, one after the other."""
    return np.stack(
        [found / np.maximum(predicted, 1), found / np.maximum(true, 1), 2 * found / np.maximum(predicted + true, 1)]
    )
