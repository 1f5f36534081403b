"""A line chart as SVG: identical on every machine, legible in print and in dark mode.

Layout does not depend on installed fonts: positions are computed from the number of letters, with room to spare.
Lines differ in color and marker, flat lines in color and dashes, so a black-and-white print is legible.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.canvas import COLORS, LEADING, LETTER
from xmcbench.output.escaping import svg

_HEIGHT = 330
_INDENT, _RIGHT, _TOP = 46, 464, 40
_BOTTOM = _TOP + _HEIGHT
#: Width of a digit in the widest of the fonts.
_DIGIT = 8.3
#: Lines with more points than this have markers at only some of them.
_MARKED = 12

#: From a position on an axis to its coordinate in the drawing.
Place = Callable[[float], str]

_DASHES = ("7 4", "2 3", "9 3 2 3", "4 2")


@dataclass(frozen=True)
class Point:
    """A value with its band, at a position on the horizontal axis."""

    x: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Line:
    """``runs``: points joined by a stroke; there is a gap between runs. A flat line has one point, for all
    positions."""

    name: str
    runs: tuple[tuple[Point, ...], ...]
    flat: bool = False


@dataclass(frozen=True)
class Axis:
    """The horizontal axis: its ends, (position, text) of its ticks, and its label."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    label: str


@dataclass(frozen=True)
class Chart:
    """What is drawn. ``digits``: maximum decimals of a tick of the value axis. ``foot``: the small print."""

    title: str
    axis: Axis
    lines: tuple[Line, ...]
    digits: int
    foot: str


def draw(chart: Chart) -> str:
    """The chart as an SVG document, 480 wide; its height grows with the legend."""
    legend = [textwrap.wrap(line.name, int((_RIGHT - _INDENT - 14) / LETTER)) for line in chart.lines]
    height = _BOTTOM + 46 + LEADING * sum(len(texts) for texts in legend) + 26
    points = [point for line in chart.lines for run in line.runs for point in run]
    ticks = canvas.scale(min(point.low for point in points), max(point.high for point in points), chart.digits)
    texts = canvas.tick_texts(ticks)
    left = max(_INDENT, 11 + int(_DIGIT * max(map(len, texts))))

    def y(value: float) -> str:
        return f"{_BOTTOM - (value - ticks[0]) / (ticks[-1] - ticks[0]) * _HEIGHT:.1f}"

    def x(place: float) -> str:
        if chart.axis.low == chart.axis.high:
            return f"{(left + _RIGHT) / 2:.1f}"
        share = (place - chart.axis.low) / (chart.axis.high - chart.axis.low)
        return f"{left + 18 + (_RIGHT - left - 36) * share:.1f}"

    parts = list(_axes(chart.axis, zip(ticks, texts, strict=True), left, x, y))
    for number, line in enumerate(chart.lines):
        parts += _flat(line, number, left, y) if line.flat else _curved(line, number, x, y)
    parts += _keys(chart, legend)
    parts.append(f'<text class="ink" x="{_INDENT - 30}" y="{height - 10}" font-size="11">{svg(chart.foot)}</text>')
    return canvas.frame(chart.title, height, parts, _INDENT, _description(chart))


def _description(chart: Chart) -> str:
    """The lines in words: every point, or the ends of a line with many."""
    named = dict(chart.axis.ticks)
    told = [f"By {chart.axis.label}."]
    for line in chart.lines:
        points = [point for run in line.runs for point in run]
        if len(points) > _MARKED:
            points = [points[0], points[-1]]
        values = [f"{point.value:.4g} at {named.get(point.x, f'{point.x:.4g}')}" for point in points]
        told.append(f"{line.name}: {f'{points[0].value:.4g} everywhere' if line.flat else ', '.join(values)}.")
    return " ".join(told)


def _axes(axis: Axis, ticks: Iterable[tuple[float, str]], left: int, x: Place, y: Place) -> Iterator[str]:
    """The grid of the value axis with its ``ticks``, then the horizontal axis."""
    for tick, text in ticks:
        yield f'<path class="grid" d="M{left} {y(tick)}H{_RIGHT}"/>'
        yield f'<text class="ink" x="{left - 7}" y="{y(tick)}" dy="4.5" text-anchor="end">{text}</text>'
    for place, text in axis.ticks:
        yield f'<path class="tick" d="M{x(place)} {_BOTTOM}v5"/>'
        yield f'<text class="ink" x="{x(place)}" y="{_BOTTOM + 19}" text-anchor="middle">{svg(text)}</text>'
    middle = (left + _RIGHT) / 2
    yield f'<path class="tick" d="M{left} {_BOTTOM}H{_RIGHT}"/>'
    yield f'<text class="ink" x="{middle:g}" y="{_BOTTOM + 38}" text-anchor="middle">{svg(axis.label)}</text>'


def _flat(line: Line, number: int, left: int, y: Place) -> list[str]:
    ((point,),) = line.runs
    parts = []
    if point.high > point.low:
        corners = f"M{left} {y(point.low)}H{_RIGHT}V{y(point.high)}H{left}Z"
        parts.append(f'<path class="b{_color(number)}" fill-opacity=".15" d="{corners}"/>')
    return [*parts, _stroke(f"M{left} {y(point.value)}H{_RIGHT}", number, flat=True)]


def _curved(line: Line, number: int, x: Place, y: Place) -> list[str]:
    """Bands, then strokes, then markers."""
    parts, strokes = [], []
    for run in line.runs:
        if len(run) > 1:
            strokes.append("M" + "L".join(f"{x(point.x)} {y(point.value)}" for point in run))
            if any(point.high > point.low for point in run):
                upper = [f"{x(point.x)} {y(point.high)}" for point in run]
                lower = [f"{x(point.x)} {y(point.low)}" for point in reversed(run)]
                corners = "M" + "L".join([*upper, *lower]) + "Z"
                parts.append(f'<path class="b{_color(number)}" fill-opacity=".18" d="{corners}"/>')
    parts += [_stroke(path, number, flat=False) for path in strokes]
    points = [point for run in line.runs for point in run]
    every = 1 if len(points) <= _MARKED else -(-len(points) // 8)
    # Lines that overlap have their markers at different positions.
    marked = points[number % every :: every]
    return [*parts, *(_marker(number, float(x(point.x)), float(y(point.value))) for point in marked)]


def _stroke(path: str, number: int, flat: bool) -> str:
    dashes = f' stroke-dasharray="{_DASHES[number % len(_DASHES)]}"' if flat else ""
    return f'<path class="l{_color(number)}" stroke-width="2"{dashes} d="{path}"/>'


def _marker(number: int, x: float, y: float) -> str:
    shape = (
        f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
        f"M{x - 3.6:.1f} {y - 3.6:.1f}h7.2v7.2h-7.2Z",
        f"M{x - 4.6:.1f} {y + 3.6:.1f}h9.2l-4.6 -8Z",
        f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5Z",
        f"M{x - 4.6:.1f} {y - 3.6:.1f}h9.2l-4.6 8Z",
    )[number % 5]
    if number // 5 % 2:  # hollow: ten lines can be told apart without color
        return f'<path class="paper l{_color(number)}" stroke-width="1.6" d="{shape}"/>'
    return f'<path class="m{_color(number)}" d="{shape}"/>'


def _color(number: int) -> int:
    return number % len(COLORS)


def _keys(chart: Chart, legend: list[list[str]]) -> Iterator[str]:
    """The key and name of every line, wrapped to fit."""
    y = _BOTTOM + 62
    for number, (line, texts) in enumerate(zip(chart.lines, legend, strict=True)):
        yield _stroke(f"M{_INDENT - 30} {y - 4}h36", number, line.flat)
        if not line.flat:
            yield _marker(number, _INDENT - 12, y - 4)
        for text in texts:
            yield f'<text class="ink" x="{_INDENT + 14}" y="{y}">{svg(text)}</text>'
            y += LEADING
