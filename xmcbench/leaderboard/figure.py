"""The figures of a leaderboard: what each kind is drawn with, its points as CSV, and the notes below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xmcbench.leaderboard import (
    budgets,
    canvas,
    chart,
    curves,
    diagram,
    dots,
    groups,
    losses,
    overall,
    scatter,
    tradeoff,
)
from xmcbench.leaderboard.budgets import BudgetCurve
from xmcbench.leaderboard.chart import Axis, Chart, Line, Point
from xmcbench.leaderboard.curves import CoverageLine, Curve
from xmcbench.leaderboard.groups import GroupFigure
from xmcbench.leaderboard.losses import LossCurve
from xmcbench.leaderboard.overall import Overall
from xmcbench.leaderboard.plot import DAGGER, Figure
from xmcbench.leaderboard.tradeoff import Tradeoff
from xmcbench.metrics import protocol

#: Ticks of an axis of budgets at most.
_TICKS = 9


def draw(made: Figure) -> str:
    """The figure as an SVG document."""
    return _KINDS[type(made)][0](made)


def as_csv(made: Figure) -> str:
    """The points of the figure."""
    return _KINDS[type(made)][1](made)


def notes(made: Iterable[Figure]) -> list[str]:
    """What daggers in figures stand for, and what the figures lack, one line each."""
    marked: dict[str, dict[str, None]] = {}
    missing: dict[str, None] = {}
    for each in made:
        missing |= dict.fromkeys(each.missing)
        for mark, names in each.marks.items():
            marked.setdefault(mark, {}).update(dict.fromkeys(names))
    found = [f"{DAGGER} {mark}: {', '.join(names)}." for mark, names in marked.items()]
    return [*found, *([f"Missing: {'; '.join(missing)}."] if missing else [])]


def _coverage(made: Curve) -> Chart:
    """Shares are equally spaced steps. A method that sees no pair is a flat line."""
    ticks = tuple((float(place), f"{100 * ratio:g}") for place, ratio in enumerate(made.ratios))
    what = "labels with known pairs" if made.by == "label" else "training pairs known"
    stale = f"; {DAGGER} stale or mixed" if any(line.marks for line in made.lines) else ""
    return Chart(
        title=f"{made.metric} on {made.dataset}, in percent",
        axis=Axis(0.0, len(ticks) - 1.0, ticks, f"% of the {what} (steps, not to scale)"),
        lines=tuple(
            Line(f"{line.label}, ignores pairs" if line.flat else line.label, tuple(_runs(made, line)), line.flat)
            for line in made.lines
        ),
        digits=1,
        foot=f"filter {made.filter}, metric protocol {protocol.VERSION}; bands: lowest to highest seed" + stale,
    )


def _runs(made: Curve, line: CoverageLine) -> Iterator[tuple[Point, ...]]:
    """The points in percent. Only adjacent points are joined."""
    run: list[Point] = []
    for place, ratio in enumerate((*made.ratios, None)):
        if ratio is not None and ratio in line.points:
            point = line.points[ratio]
            run.append(Point(place, 100 * point.value, 100 * point.low, 100 * point.high))
        elif run:
            yield tuple(run)
            run = []


def _budgets(made: BudgetCurve) -> Chart:
    """On a logarithmic axis that has 0. Ticks that would overlap are left out."""
    places = [(made.place(texts), texts) for texts in made.texts]
    ticks: list[tuple[float, str]] = []
    for place, texts in places:
        if not ticks or place - ticks[-1][0] >= places[-1][0] / _TICKS:
            ticks.append((place, f"{texts / 1000:.3g}K" if texts >= 1000 else str(texts)))
    lines = []
    for line in made.lines:
        points = [
            Point(made.place(texts), 100 * each.value, 100 * each.low, 100 * each.high)
            for texts, each in sorted(line.points.items())
        ]
        lines.append(Line(line.label, (tuple(points),)))
    stale = f"; {DAGGER} stale or mixed" if any(line.marks for line in made.lines) else ""
    return Chart(
        title=f"{made.metric} on {made.dataset}, {made.setting.title}",
        axis=Axis(0.0, places[-1][0], tuple(ticks), "texts embedded in training (log scale from the first)"),
        lines=tuple(lines),
        digits=1,
        foot=f"filter {made.filter}, metric protocol {protocol.VERSION}; bands: lowest to highest seed" + stale,
    )


def _losses(made: LossCurve) -> Chart:
    """By step, or by share of the steps if lines differ in length."""
    lengths = {line.points[-1].step for line in made.lines}
    longest = max(lengths)
    if len(lengths) == 1:
        ticks = [tick for tick in canvas.scale(0, longest, 0) if tick <= longest]
        axis = Axis(0, longest, tuple(zip(ticks, canvas.tick_texts(ticks), strict=True)), "steps")
    else:
        axis = Axis(0, 100, tuple((tick, f"{tick}") for tick in range(0, 101, 20)), "% of the steps of each line")
    lines = []
    for line in made.lines:
        last = line.points[-1].step
        width = 1.0 if len(lengths) == 1 else 100 / last
        said = len(lengths) == 1 or f" {last:.15g} steps" in line.label
        points = tuple(Point(width * each.step, each.value, each.low, each.high) for each in line.points)
        lines.append(Line(line.label if said else f"{line.label}, {last:.15g} steps", (points,)))
    foot = "each point: the mean since the previous one; bands: lowest to highest seed"
    return Chart(made.title, axis, tuple(lines), 3, foot)


_KINDS: dict[type, tuple[Callable[[Any], str], Callable[[Any], str]]] = {
    Curve: (lambda made: chart.draw(_coverage(made)), curves.as_csv),
    BudgetCurve: (lambda made: chart.draw(_budgets(made)), budgets.as_csv),
    LossCurve: (lambda made: chart.draw(_losses(made)), losses.as_csv),
    Overall: (diagram.draw, overall.as_csv),
    Tradeoff: (scatter.draw, tradeoff.as_csv),
    GroupFigure: (dots.draw, groups.as_csv),
}
