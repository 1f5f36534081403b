"""The charts of a page: one row per method, at most eight of them in a chart of lines, and what is shown of each."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Annotated, TypeVar

import msgspec

from xmcbench.leaderboard import captions
from xmcbench.leaderboard.canvas import DAGGER, Chart, title_of
from xmcbench.leaderboard.curves import CoverageLine, CoveragePoint, Curve, curve, over_seeds
from xmcbench.leaderboard.groups import borrow
from xmcbench.leaderboard.lines import Axis, Line, Lines, Point
from xmcbench.leaderboard.losses import loss_charts
from xmcbench.leaderboard.names import shared_name, tell_apart
from xmcbench.leaderboard.points import Scatter, Spot
from xmcbench.leaderboard.rows import Row, of_presets, rows
from xmcbench.records import Record, Staleness
from xmcbench.setting import Setting
from xmcbench.storage.canonical import canonical_json

#: Lines of a chart at most.
_LINES = 8
#: The metrics of coverage curves, as in the paper's Figure 2, that of costs and that of budgets.
_CURVES, _COSTS, _BUDGETS = ("R@100", "P@5"), "P@1", "R@100"
#: With fewer methods on one class of machine there is no chart of costs, with fewer budgets no line.
_FEWEST = 3
#: Rows below this share of the best one are named below the chart, so that its axis begins near the others.
_FAR = 2 / 3
#: Seconds that a cost is at least, for a logarithmic axis, and ticks of an axis of budgets at most.
_CHEAPEST, _TICKS = 0.01, 7

Shown = TypeVar("Shown", Row, CoverageLine)


def of_dataset(complete: Mapping[Setting, Sequence[Record]], filter_name: str, staleness: Staleness) -> Iterator[Chart]:
    """Yield the charts of a dataset, the most telling first. complete: setting -> records of whole methods."""
    records = [record for group in complete.values() for record in group]
    by_label = [curve(records, "label", metric, filter_name, staleness=staleness) for metric in _CURVES]
    for found in filter(None, by_label):
        yield coverage(_best(found))
    if costs := tradeoff(complete, filter_name, staleness):
        yield costs
    for group in complete.values():
        if drawn := budget(group, filter_name, staleness):
            yield drawn
    if made := curve(records, "pair", _CURVES[0], filter_name, staleness=staleness):
        yield coverage(_best(made))
    if not any(by_label) and (zero_shot := complete.get(Setting("ez"))):
        # One, on a page without other curves: a page shows results, and the records have the losses of all trainings.
        yield from itertools.islice(loss_charts(zero_shot, f"{zero_shot[0].cell.dataset.lower()}-training"), 1)


def _select(shown: Iterable[Shown], rank: Callable[[Shown], tuple[int, float]]) -> list[Shown]:
    """Return one row per method, the best first: that with the most results, the best of several.

    rank: the number of results of a row, and its value.
    """
    found: dict[str, Shown] = {}
    for row in sorted(shown, key=rank, reverse=True):
        found.setdefault(title_of(row.name), row)
    return sorted(found.values(), key=lambda row: rank(row)[1], reverse=True)


def _rank(line: CoverageLine) -> tuple[int, float]:
    points = line.points.values()
    return sum(len(point.seeds) for point in points), fmean(point.value for point in points)


def _best(made: Curve) -> Curve:
    """Return the curve with one line per method, and the best eight of them."""
    found = _select(made.lines, _rank)
    flat = [line for line in found[_LINES:] if line.flat and not any(other.flat for other in found[:_LINES])]
    # A line that needs no pairs shows what pairs are worth.
    chosen = [*found[: _LINES - 1], flat[0]] if flat else found[:_LINES]
    return replace(made, lines=tuple(chosen), missing=())


def coverage(made: Curve) -> Lines:
    """The chart of a coverage curve. Shares are equally spaced steps; a method that ignores pairs is a flat line."""
    ticks = tuple((float(place), f"{100 * ratio:g}") for place, ratio in enumerate(made.ratios))
    what = "labels with known pairs" if made.by == "label" else "training pairs known"
    stale = f"; {DAGGER} stale or mixed" if made.marks else ""
    notes = [f"{DAGGER} {mark}: {', '.join(names)}." for mark, names in made.marks.items()]
    return Lines(
        stem=made.stem,
        title=f"{made.metric} on {made.dataset}, in percent",
        axis=Axis(0.0, len(ticks) - 1.0, ticks, f"% of the {what} (steps, not to scale)"),
        lines=tuple(Line(line.label, tuple(_runs(made, line)), line.flat) for line in made.lines),
        foot=f"{captions.describe_protocol(made.filter)}; bands: range of seeds; dotted: no pairs{stale}",
        notes=(*notes, *([f"Missing: {'; '.join(made.missing)}."] if made.missing else [])),
    )


def _runs(made: Curve, line: CoverageLine) -> Iterator[tuple[Point, ...]]:
    """The points in percent. Only adjacent points are joined."""
    run: list[Point] = []
    for place, ratio in enumerate((*made.ratios, None)):
        if ratio is not None and ratio in line.points:
            run.append(_point(place, line.points[ratio]))
        elif run:
            yield tuple(run)
            run = []


def _point(x: float, point: CoveragePoint) -> Point:
    return Point(x, 100 * point.value, 100 * point.low, 100 * point.high)


def tradeoff(
    complete: Mapping[Setting, Sequence[Record]], filter_name: str, staleness: Staleness | None = None
) -> Scatter | None:
    """Quality against time in the setting with the most methods; None for fewer than 3 methods near the best.

    A time is that of training, with the time of reused artifacts, and of predictions for all test instances. Most rows
    are measured on one class of machine; the others are told apart by their markers.
    """
    chosen: list[tuple[Row, str]] = []
    for setting, records in complete.items():
        borrowed = borrow(complete.get(Setting("ez"), ()), records) if setting.kind != "ez" else []
        made = [row for row in rows([*records, *borrowed], filter_name, staleness) if row.costs]
        made = of_presets(made)
        machines = Counter(machine for row in made for machine in row.costs)
        usual = max(sorted(machines), key=lambda machine: machines[machine], default="")
        found = [
            (row, usual if usual in row.costs else min(row.costs))
            for row in _select(made, lambda row: (len(row.seeds), _quality(row)))
        ]
        if len(found) > len(chosen):
            chosen, where, cell, tests = found, (setting, usual), records[0].cell, records[0].counts["test"]
    if not chosen:
        return None
    far = [row for row, _ in chosen if _quality(row) < _FAR * _quality(chosen[0][0])]
    chosen = [(row, machine) for row, machine in chosen if row not in far]
    if len(chosen) < _FEWEST:
        return None
    spots = []
    for row, machine in chosen:
        name, cost = f"{row.name}{DAGGER}" if row.marks else row.name, row.costs[machine]
        seconds = cost.fit_s + cost.reused_s + cost.predict_ms * tests / 1000
        spots.append(Spot(name, 100 * _quality(row), max(_CHEAPEST, seconds), elsewhere=machine != where[1]))
    others = dict.fromkeys(_in_short(machine) for _, machine in chosen if machine != where[1])
    foot = [f"{captions.describe_protocol(filter_name)}. Dashed: Pareto front. Filled: {_in_short(where[1])}."]
    foot += [f"Hollow: {'; '.join(others)}."] if others else []
    named = ", ".join(f"{title_of(row.name)} {100 * _quality(row):.1f}" for row in far)
    foot += [f"Below two thirds of the best: {named}."] if far else []
    foot += [f"{DAGGER}: see the notes of the table."] if any(row.marks for row, _ in chosen) else []
    return Scatter(
        stem=f"{cell.dataset.lower()}-cost-{_slug(_COSTS)}",
        title=f"{_COSTS} against time, {cell.dataset}, {where[0].title}",
        label="seconds to train, reused artifacts included, and to predict the test set",
        spots=tuple(spots),
        foot=" ".join(foot),
    )


def _in_short(machine: str) -> str:
    """The processor and the number of its cores."""
    return ", ".join(machine.split(", ")[:2])


def _quality(row: Row) -> float:
    return row.figures[_COSTS].value


def _slug(metric: str) -> str:
    return metric.lower().replace("@", "")


def budget(records: Sequence[Record], filter_name: str, staleness: Staleness | None = None) -> Lines | None:
    """Quality against the training budget, of rows of one setting that differ in nothing else; None for fewer than
    three budgets.

    A note ``budget`` of a record says how many texts a training embedded with their gradients (``texts``), and the
    names of the parameters that decide it (``parameters``). Records with the same values of these are of one budget,
    the largest of theirs: seeds differ where batches have all that one of them found to train on.
    """
    rows: dict[str, list[tuple[_Budget, Record]]] = {}
    for record in records:
        if record.ok and (found := _budget(record)):
            rows.setdefault(canonical_json([record.cell.method, record.cell.parameters]), []).append((found, record))
    groups: dict[str, list[tuple[float, Record]]] = {}
    for row in rows.values():
        largest = max(found.texts for found, _ in row)
        for found, record in row:
            others = {name: value for name, value in record.cell.parameters.items() if name not in found.parameters}
            groups.setdefault(canonical_json([record.cell.method, others]), []).append((largest, record))
    kept = {key: groups[key] for key in sorted(groups) if len({texts for texts, _ in groups[key]}) >= _FEWEST}
    if not kept:
        return None
    cells = {key: placed[0][1].cell for key, placed in kept.items()}
    names = tell_apart(
        {
            key: shared_name(placed[0][1].method.title, [record.method.variant for _, record in placed])
            for key, placed in kept.items()
        },
        {key: {"method": cell.method, **cell.parameters} for key, cell in cells.items()},
    )
    lines = []
    for key, placed in kept.items():
        marks = (staleness or Staleness()).problems(record for _, record in placed)
        lines.append(CoverageLine(names[key], False, over_seeds(placed, _BUDGETS, filter_name), marks))
    chosen = _select(lines, _rank)[:_LINES]
    budgets = sorted({texts for line in chosen for texts in line.points})
    first = next((texts for texts in budgets if texts), 1)
    places = {texts: math.log2(1 + texts / first) for texts in budgets}
    cell = next(iter(cells.values()))
    stale = f"; {DAGGER} stale or mixed" if any(line.marks for line in chosen) else ""
    return Lines(
        stem=f"{cell.dataset.lower()}-{cell.setting.slug}-budget-{_slug(_BUDGETS)}",
        title=f"{_BUDGETS} by training budget, {cell.dataset}, {cell.setting.title}",
        axis=_budget_axis(places),
        lines=tuple(
            Line(line.label, (tuple(_point(places[texts], point) for texts, point in line.points.items()),))
            for line in chosen
        ),
        foot=f"{captions.describe_protocol(filter_name)}; bands: range of seeds{stale}",
    )


def _budget_axis(places: Mapping[float, float]) -> Axis:
    """Return a logarithmic axis that has 0, without ticks that would overlap. places: budget -> place, ascending."""
    last = max(places.values())
    ticks: list[tuple[float, str]] = []
    for texts, place in places.items():
        if not ticks or place - ticks[-1][0] >= last / _TICKS:
            ticks.append((place, f"{texts / 1000:.3g}K" if texts >= 1000 else f"{texts:g}"))
    return Axis(0.0, last, tuple(ticks), "texts embedded in training (log scale from the first)")


class _Budget(msgspec.Struct):
    """A note that follows the convention."""

    texts: Annotated[int, msgspec.Meta(ge=0)]
    parameters: list[str]


def _budget(record: Record) -> _Budget | None:
    try:
        return msgspec.convert(record.notes.get("budget"), _Budget)
    except msgspec.ValidationError:
        return None
