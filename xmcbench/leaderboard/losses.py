"""Loss curves of the trainings that methods describe in the notes of their records.

A note is a training if it is a mapping with ``losses`` (names) and ``curve`` (points: a step, and the mean of each loss
since the previous point). Other keys of the note, and the method, do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from xmcbench.leaderboard.plot import WithoutNotes
from xmcbench.leaderboard.rows import grouped, names
from xmcbench.output import escaping
from xmcbench.records import Record

#: Numbers up to this can be drawn: their sums and differences are finite.
_LARGEST = 1e30
#: The maximum number of points of a line. The records keep all.
_POINTS = 30


@dataclass(frozen=True)
class LossPoint:
    """A loss at a step: mean, lowest and highest over the seeds."""

    step: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LossLine:
    """The points of a row, or of rows that share one training. ``label``: for the legend; ``rows``: their names."""

    label: str
    rows: tuple[str, ...]
    seeds: tuple[int, ...]
    points: tuple[LossPoint, ...]


@dataclass(frozen=True)
class LossCurve(WithoutNotes):
    """The lines of one loss of one training. ``setting``: its slug; ``stem``: the name of its files."""

    dataset: str
    setting: str
    training: str
    loss: str
    stem: str
    lines: tuple[LossLine, ...]

    @property
    def title(self) -> str:
        """The title of the drawing."""
        return f"Loss ({self.loss}) in {self.training}, {self.dataset}"

    @property
    def short(self) -> str:
        """A short title for a row of drawings."""
        return f"{self.training}, {self.loss}"


def loss_curves(
    records: Iterable[Record], stem: str, label: Callable[[Record], str] | None = None
) -> tuple[LossCurve, ...]:
    """The loss curves of records of one dataset and setting, by training and loss.

    ``stem`` begins the names of their files; ``label``: record -> name of its row in the legend (default: its
    name). A line has the steps that all its seeds have, and at most 30 points: neighboring ones are averaged. Lines of
    fewer than two points are left out. Rows with equal lines, such as rows that share a pre-training, share one line.
    """
    found: dict[tuple[str, str], list[LossLine]] = {}
    dataset = setting = ""
    groups = grouped(records)
    for key, name in names(groups).items():
        group = groups[key]
        dataset, setting = group[0].cell.dataset, group[0].cell.setting.slug
        told: dict[tuple[str, str], dict[int, Mapping[float, float]]] = {}
        for record in group:
            if record.ok:
                for what, points in _trainings(record.notes):
                    told.setdefault(what, {})[record.cell.seed] = points
        for what, by_seed in told.items():
            shared = _over_seeds([*by_seed.values()])
            if len(shared) > 1:
                line = LossLine(label(group[0]) if label else name, (name,), tuple(by_seed), shared)
                found.setdefault(what, []).append(line)
    made: dict[str, LossCurve] = {}
    for training, loss in sorted(found):
        file = _free(f"{stem}-{slug(training)}-{slug(loss)}", made)
        made[file] = LossCurve(dataset, setting, training, loss, file, _merged(found[training, loss]))
    return tuple(made.values())


def as_csv(made: LossCurve) -> str:
    """The points of a loss curve, one per line and row."""
    figures = ("value", "lowest_seed", "highest_seed")
    lines = [["dataset", "setting", "training", "loss", "method", "step", *figures, "seeds"]]
    what = [made.dataset, made.setting, made.training, made.loss]
    for line in made.lines:
        seeds = " ".join(map(str, line.seeds))
        for row in line.rows:
            for point in line.points:
                values = [f"{each:.6g}" for each in (point.value, point.low, point.high)]
                lines.append([*what, row, f"{point.step:.15g}", *values, seeds])
    return escaping.csv_file(lines)


def slug(text: str) -> str:
    """The text as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:40].strip("-.") or "x"


def _trainings(notes: Mapping[str, Any]) -> list[tuple[tuple[str, str], Mapping[float, float]]]:
    """((training, loss), step -> value) of every note that is a training."""
    found: list[tuple[tuple[str, str], Mapping[float, float]]] = []
    for training, note in notes.items():
        if not _is_training(note):
            continue
        for place, loss in enumerate(note["losses"], 1):
            found.append(((training, loss), {point[0]: point[place] for point in note["curve"]}))
    return found


def _is_training(note: object) -> bool:
    """Whether a note follows the convention: steps ascending, all values numbers."""
    if not isinstance(note, Mapping):
        return False
    losses, curve = note.get("losses"), note.get("curve")
    if not isinstance(losses, list) or not isinstance(curve, list) or not all(isinstance(each, str) for each in losses):
        return False
    whole = all(isinstance(point, list) and len(point) == len(losses) + 1 for point in curve)
    numbers = whole and all(type(each) in (int, float) and abs(each) <= _LARGEST for point in curve for each in point)
    return numbers and all(0 <= one[0] < other[0] for one, other in pairwise(curve))


def _over_seeds(curves: Sequence[Mapping[float, float]]) -> tuple[LossPoint, ...]:
    """Mean and extremes at the steps that all curves have, thinned out."""
    steps = sorted(set.intersection(*(set(each) for each in curves)))
    thinned = [_thinned([(step, each[step]) for step in steps]) for each in curves]
    points = []
    for step in thinned[0]:
        values = [each[step] for each in thinned]
        points.append(LossPoint(step, fmean(values), min(values), max(values)))
    return tuple(points)


def _thinned(curve: Sequence[tuple[float, float]]) -> Mapping[float, float]:
    """step -> mean loss since the step before, for at most _POINTS steps: neighboring points become one, their mean."""
    width = -(-len(curve) // _POINTS)
    if width < 2:
        return dict(curve)
    points = {}
    start = 0.0
    for first in range(0, len(curve), width):
        before, total = start, 0.0
        for step, value in curve[first : first + width]:
            total += (step - before) * value
            before = step
        points[before] = total / (before - start)
        start = before
    return points


def _merged(lines: Iterable[LossLine]) -> tuple[LossLine, ...]:
    """The lines by label; equal ones are merged."""
    merged: dict[object, LossLine] = {}
    for line in sorted(lines, key=lambda line: (line.label, line.rows)):
        first = merged.setdefault((line.seeds, line.points), line)
        if first is not line:
            rows, label = (*first.rows, *line.rows), f"{first.label}; {line.label}"
            merged[line.seeds, line.points] = replace(first, rows=rows, label=label)
    return tuple(merged.values())


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, with a number if it is taken."""
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return found
