"""The charts of a page: one row per method, at most eight of them, and what is shown of each."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Annotated, TypeVar

import msgspec

from xmcbench.leaderboard.blocks import CHARTS
from xmcbench.leaderboard.canvas import DAGGER, Chart, title_of
from xmcbench.leaderboard.curves import CoverageLine, CoveragePoint, Curve, curve, over_seeds
from xmcbench.leaderboard.lines import Axis, Line, Lines, Point
from xmcbench.leaderboard.losses import loss_charts
from xmcbench.leaderboard.points import Scatter, Spot
from xmcbench.leaderboard.rows import Cost, Row, apart, borrow, rows, shared_name
from xmcbench.metrics import protocol
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

Shown = TypeVar("Shown")


def of_dataset(
    complete: Mapping[Setting, Sequence[Record]], filter_name: str, staleness: Staleness
) -> tuple[Chart, ...]:
    """The charts of a dataset's page, the most telling first. complete: setting -> records of whole methods."""
    return tuple(itertools.islice(_of_dataset(complete, filter_name, staleness), CHARTS))


def _of_dataset(
    complete: Mapping[Setting, Sequence[Record]], filter_name: str, staleness: Staleness
) -> Iterator[Chart]:
    records = [record for group in complete.values() for record in group]
    for metric in _CURVES:
        if made := curve(records, "label", metric, filter_name, staleness=staleness):
            yield coverage(_best(made))
    if costs := tradeoff(complete, filter_name, staleness):
        yield costs
    for group in complete.values():
        if drawn := budget(group, filter_name, staleness):
            yield drawn
    for metric in _CURVES[:1]:
        if made := curve(records, "pair", metric, filter_name, staleness=staleness):
            yield coverage(_best(made))
    if zero_shot := complete.get(Setting("ez")):
        # One of them: a page shows results, and the records have the losses of all trainings.
        yield from itertools.islice(loss_charts(zero_shot, f"{zero_shot[0].cell.dataset.lower()}-training"), 1)


def select(
    shown: Iterable[Shown],
    name: Callable[[Shown], str],
    results: Callable[[Shown], int],
    value: Callable[[Shown], float],
) -> list[Shown]:
    """One row per method: that with the most results, the best of several."""
    found: dict[str, Shown] = {}
    for row in sorted(shown, key=lambda row: (results(row), value(row)), reverse=True):
        found.setdefault(title_of(name(row)), row)
    return sorted(found.values(), key=value, reverse=True)


def _best(made: Curve) -> Curve:
    """The curve with one line per method, and the best eight of them."""

    def results(line: CoverageLine) -> int:
        return sum(len(point.seeds) for point in line.points.values())

    def value(line: CoverageLine) -> float:
        return fmean(point.value for point in line.points.values())

    found = select(made.lines, lambda line: line.name, results, value)
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
        foot=f"{_how(made.filter)}; bands: range of seeds; dotted: no pairs{stale}",
        notes=(*notes, *([f"Missing: {'; '.join(made.missing)}."] if made.missing else [])),
    )


def _how(filter_name: str) -> str:
    return f"filter {filter_name}, metric protocol {protocol.VERSION}"


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
    """Quality against time in the setting with the most methods; None for fewer than 3 methods.

    A time is that of training, with the time of reused artifacts, and of predictions for all test instances. Most rows
    are measured on one class of machine; the others are told apart by their markers.
    """
    chosen: list[tuple[Row, str]] = []
    for setting, records in complete.items():
        borrowed = borrow(complete.get(Setting("ez"), ()), records) if setting.kind != "ez" else []
        made = [row for row in rows([*records, *borrowed], filter_name, staleness) if row.costs]
        made = [row for row in made if not row.facts.changes] or made
        machines = Counter(machine for row in made for machine in row.costs)
        usual = max(sorted(machines), key=lambda machine: machines[machine], default="")
        found = [
            (row, usual if usual in row.costs else min(row.costs))
            for row in select(made, lambda row: row.name, lambda row: len(row.seeds), _quality)
        ]
        if len(found) > len(chosen):
            chosen, where, cell, tests = found, (setting, usual), records[0].cell, records[0].counts["test"]
    if len(chosen) < _FEWEST:
        return None
    far = [row for row, _ in chosen if _quality(row) < _FAR * _quality(chosen[0][0])]
    chosen = [(row, machine) for row, machine in chosen if row not in far]
    spots = [
        Spot(
            f"{row.name}{DAGGER}" if row.marks else row.name,
            100 * _quality(row),
            max(_CHEAPEST, _seconds(row.costs[machine], tests)),
            elsewhere=machine != where[1],
        )
        for row, machine in chosen
    ]
    others = dict.fromkeys(_in_short(machine) for _, machine in chosen if machine != where[1])
    foot = [f"{_how(filter_name)}. Dashed: Pareto front. Filled: {_in_short(where[1])}."]
    foot += [f"Hollow: {'; '.join(others)}."] if others else []
    foot += [f"Below two thirds of the best: {', '.join(_with_quality(row) for row in far)}."] if far else []
    foot += [f"{DAGGER}: see the notes of the table."] if any(row.marks for row, _ in chosen) else []
    return Scatter(
        stem=f"{cell.dataset.lower()}-cost-{_slug(_COSTS)}",
        title=f"{_COSTS} against time, {cell.dataset}, {where[0].title}",
        label="seconds to train, reused artifacts included, and to predict the test set",
        spots=tuple(spots),
        foot=" ".join(foot),
    )


def _seconds(cost: Cost, tests: int) -> float:
    return cost.fit_s + cost.reused_s + cost.predict_ms * tests / 1000


def _with_quality(row: Row) -> str:
    return f"{title_of(row.name)} {100 * _quality(row):.1f}"


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
    names of the parameters that decide it (``parameters``).
    """
    groups: dict[str, list[tuple[int, Record]]] = {}
    for record in records:
        if record.ok and (found := _budget(record)):
            others = {name: value for name, value in record.cell.parameters.items() if name not in found.parameters}
            groups.setdefault(canonical_json([record.cell.method, others]), []).append((found.texts, record))
    kept = [groups[key] for key in sorted(groups) if len({texts for texts, _ in groups[key]}) >= _FEWEST]
    if not kept:
        return None
    rows = zip(_names(kept), kept, (over_seeds(placed, _BUDGETS, filter_name) for placed in kept), strict=True)
    chosen = select(
        rows,
        lambda row: row[0],
        lambda row: sum(len(point.seeds) for point in row[2].values()),
        lambda row: fmean(point.value for point in row[2].values()),
    )[:_LINES]
    budgets = sorted({texts for _, _, points in chosen for texts in points})
    first = next((texts for texts in budgets if texts), 1)
    cell, lines, marks = kept[0][0][1].cell, [], False
    for name, placed, points in chosen:
        notes = (staleness or Staleness()).problems(record for _, record in placed)
        marks |= bool(notes)
        run = tuple(_point(math.log2(1 + texts / first), point) for texts, point in points.items())
        lines.append(Line(f"{name}{DAGGER}" if notes else name, (run,)))
    return Lines(
        stem=f"{cell.dataset.lower()}-{cell.setting.slug}-budget-{_slug(_BUDGETS)}",
        title=f"{_BUDGETS} by training budget, {cell.dataset}, {cell.setting.title}",
        axis=_budget_axis(budgets, first),
        lines=tuple(lines),
        foot=f"{_how(filter_name)}; bands: range of seeds" + (f"; {DAGGER} stale or mixed" if marks else ""),
    )


def _budget_axis(budgets: Sequence[int], first: int) -> Axis:
    """A logarithmic axis that has 0. Ticks that would overlap are left out."""
    places = [
        (math.log2(1 + texts / first), f"{texts / 1000:.3g}K" if texts >= 1000 else str(texts)) for texts in budgets
    ]
    ticks: list[tuple[float, str]] = []
    for place, words in places:
        if not ticks or place - ticks[-1][0] >= places[-1][0] / _TICKS:
            ticks.append((place, words))
    return Axis(0.0, places[-1][0], tuple(ticks), "texts embedded in training (log scale from the first)")


class _Budget(msgspec.Struct):
    """A note that follows the convention."""

    texts: Annotated[int, msgspec.Meta(ge=0)]
    parameters: list[str]


def _budget(record: Record) -> _Budget | None:
    try:
        return msgspec.convert(record.notes.get("budget"), _Budget)
    except msgspec.ValidationError:
        return None


def _names(groups: Sequence[Sequence[tuple[int, Record]]]) -> list[str]:
    """Title, and the parts that the variants of all budgets have; and where names coincide, what tells them apart."""
    names = [
        shared_name(placed[0][1].method.title, [record.method.variant for _, record in placed]) for placed in groups
    ]
    found = []
    for name, placed in zip(names, groups, strict=True):
        alike = [other[0][1].cell for same, other in zip(names, groups, strict=True) if same == name]
        differences = apart([{"method": cell.method, **cell.parameters} for cell in alike])
        found.append(name + differences[alike.index(placed[0][1].cell)])
    return found
