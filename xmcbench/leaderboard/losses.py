"""Charts of the losses of trainings that methods describe in the notes of their records.

A note is a training if it is a mapping with ``losses`` (names) and ``curve`` (points: a step, and the mean of each loss
since the previous point). Other keys of the note, and the method, do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import fmean
from typing import Annotated

import msgspec

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.groups import group_rows
from xmcbench.leaderboard.lines import Axis, Line, Lines, Point
from xmcbench.leaderboard.names import free_name, names, slug
from xmcbench.records import Record

#: Numbers up to this can be drawn: their sums and differences are finite.
_LARGEST = 1e30
#: Points of a line, and lines of a chart, at most. The records keep all.
_POINTS, _LINES = 30, 8


def loss_charts(records: Iterable[Record], stem: str, label: Callable[[Record], str] | None = None) -> Iterator[Lines]:
    """A chart per training and loss of records of one dataset and setting, those with the most lines first.

    ``stem`` begins the names of their files; ``label``: record -> name of its row (default: its name). A line has the
    steps that all its seeds have, and at most 30 points: neighboring ones are averaged. Rows with equal lines, such as
    rows that share a pre-training, share one.
    """
    found: dict[tuple[str, str], dict[tuple[Point, ...], list[str]]] = {}
    dataset, groups = "", group_rows(records)
    for key, name in sorted(names(groups).items(), key=lambda named: named[1]):
        curves: dict[tuple[str, str], list[Mapping[float, float]]] = {}
        dataset = groups[key][0].cell.dataset
        for record in groups[key]:
            for what, values in _trainings(record):
                curves.setdefault(what, []).append(values)
        for what, by_seed in curves.items():
            points = _over_seeds(by_seed)
            if len(points) > 1:
                shown = label(groups[key][0]) if label else name
                found.setdefault(what, {}).setdefault(points, []).append(shown)
    taken: set[str] = set()
    for training, loss in sorted(found, key=lambda what: (-len(found[what]), what)):
        file = free_name(f"{stem}-{slug(training)}-{slug(loss)}", taken)
        yield _chart(f"Loss ({loss}) in {training}, {dataset}", file, found[training, loss], of_methods=label is None)


def _chart(title: str, stem: str, found: Mapping[tuple[Point, ...], Sequence[str]], of_methods: bool) -> Lines:
    """By step, or by share of the steps if lines differ in length."""
    shown = list(found.items())[:_LINES]
    lengths = {points[-1].x for points, _ in shown}
    longest = max(lengths)
    if len(lengths) == 1:
        ticks = [tick for tick in canvas.scale(0, longest, 0) if tick <= longest]
        axis = Axis(0, longest, tuple(zip(ticks, canvas.tick_texts(ticks), strict=True)), "steps")
    else:
        axis = Axis(0, 100, tuple((tick, f"{tick}") for tick in range(0, 101, 20)), "% of the steps of each line")
    lines = []
    for points, rows in shown:
        width = 1.0 if len(lengths) == 1 else 100 / points[-1].x
        run = tuple(Point(width * point.x, point.value, point.low, point.high) for point in points)
        lines.append(Line("; ".join(rows), (run,)))
    foot = "each point: the mean since the previous one; bands: range of seeds"
    more = f"; {len(found) - len(shown)} more lines are not drawn" if len(found) > len(shown) else ""
    return Lines(
        stem=stem,
        title=title,
        axis=axis,
        lines=tuple(lines),
        digits=3,
        of_methods=of_methods,
        foot=foot + more,
    )


def _trainings(record: Record) -> Iterator[tuple[tuple[str, str], Mapping[float, float]]]:
    """((training, loss), step -> value) of every note that is a training."""
    for training, note in record.notes.items() if record.ok else ():
        with suppress(ValueError):  # another note
            found = msgspec.convert(note, _Training)
            for place, loss in enumerate(found.losses, 1):
                yield (training, loss), {point[0]: point[place] for point in found.curve}


class _Training(msgspec.Struct):
    """A note that follows the convention: steps ascending, all values numbers."""

    losses: list[str]
    curve: list[list[Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]]]

    def __post_init__(self) -> None:
        """Raise ValueError for another note."""
        if any(len(point) != len(self.losses) + 1 for point in self.curve):
            raise ValueError("a point has a step and a value per loss")
        if not all(0 <= one[0] < other[0] for one, other in pairwise(self.curve)):
            raise ValueError("steps rise")


def _over_seeds(curves: Sequence[Mapping[float, float]]) -> tuple[Point, ...]:
    """Mean and extremes at the steps that all curves have, thinned out."""
    steps = sorted(set.intersection(*map(set, curves)))
    thinned = [_thin_out([(step, curve[step]) for step in steps]) for curve in curves]
    values = {step: [curve[step] for curve in thinned] for step in thinned[0]}
    return tuple(Point(step, fmean(found), min(found), max(found)) for step, found in values.items())


def _thin_out(curve: Sequence[tuple[float, float]]) -> Mapping[float, float]:
    """step -> mean loss since the step before, for at most _POINTS steps: neighboring points become one, their mean."""
    width = -(-len(curve) // _POINTS)
    if width < 2:
        return dict(curve)
    points, start = {}, 0.0
    for first in range(0, len(curve), width):
        part = curve[first : first + width]
        before = [start, *(step for step, _ in part[:-1])]
        total = sum((step - earlier) * value for earlier, (step, value) in zip(before, part, strict=True))
        points[part[-1][0]] = total / (part[-1][0] - start)
        start = part[-1][0]
    return points
