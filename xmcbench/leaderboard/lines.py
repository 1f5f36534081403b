"""Charts of lines: a value by a number, with bands, and the name of each line at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.canvas import BOTTOM, LEADING, LEFT, LETTER, TOP, WIDTH, Chart, Look

#: Lines with more points than this have markers at only some of them.
_MARKED = 12
#: The dashes of the rows of one method, one after the other.
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2")

#: From a value on an axis to its coordinate.
Place = Callable[[float], float]


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

    @property
    def points(self) -> list[Point]:
        """The points of all runs."""
        return [point for run in self.runs for point in run]


@dataclass(frozen=True)
class Axis:
    """The horizontal axis: its ends, (position, text) of its ticks, and its label."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    label: str

    def reading(self, point: Point) -> str:
        """Return the value of a point and its position in words."""
        return f"{point.value:.4g} at {dict(self.ticks).get(point.x, f'{point.x:.4g}')}"


@dataclass(frozen=True, kw_only=True)
class Lines(Chart):
    """A chart of lines. ``digits``: maximum decimals of a tick of the value axis. of_methods: whether the names are
    those of rows of methods, which have their looks."""

    axis: Axis
    lines: tuple[Line, ...]
    digits: int = 1
    of_methods: bool = True

    def draw(self) -> str:
        """Return the chart as an SVG document; it is higher if there are many lines."""
        names = canvas.short_names([line.name for line in self.lines])
        right = WIDTH - 30 - LETTER * max(map(len, names))
        points = [point for line in self.lines for point in line.points]
        ticks = canvas.scale(min(point.low for point in points), max(point.high for point in points), self.digits)

        def y(value: float) -> float:
            return BOTTOM - (value - ticks[0]) / (ticks[-1] - ticks[0]) * (BOTTOM - TOP - 8)

        def x(place: float) -> float:
            if self.axis.low == self.axis.high:
                return (LEFT + right) / 2
            return LEFT + 14 + (right - LEFT - 28) * (place - self.axis.low) / (self.axis.high - self.axis.low)

        shown = zip(map(y, ticks), canvas.tick_texts(ticks), strict=True)
        parts = [*canvas.axes(((x(place), words) for place, words in self.axis.ticks), shown, self.axis.label, right)]
        titles = [canvas.title_of(line.name) for line in self.lines]
        styles = [_DASHES[titles[:number].count(title) % len(_DASHES)] for number, title in enumerate(titles)]
        looks = [
            canvas.look(line.name) if self.of_methods else canvas.look_of(number)
            for number, line in enumerate(self.lines)
        ]
        for number, (line, look, dashes) in enumerate(zip(self.lines, looks, styles, strict=True)):
            if line.flat:
                parts += _flat(line, look, dashes, right, y)
            else:
                parts += _curve(line, look, dashes, number, x, y, self.axis)
        lasts = [line.points[-1] for line in self.lines]
        ends = [
            (right if line.flat else x(last.x), y(last.value)) for line, last in zip(self.lines, lasts, strict=True)
        ]
        heights = canvas.spread([end for _, end in ends], LEADING, TOP, BOTTOM)
        for (color, _), name, end, height in zip(looks, names, ends, heights, strict=True):
            path = f"M{end[0] + 6:.1f} {end[1]:.1f}L{right + 8:.1f} {height:.1f}h6"
            dashes = "" if end[0] > right - 30 else ' stroke-dasharray="1 4"'
            parts.append(f'<path class="l{color}" stroke-opacity=".6"{dashes} d="{path}"/>')
            parts.append(canvas.text(right + 17, height + 4, name))
        return canvas.frame(self, parts, max(BOTTOM + 40, *heights), self._description())

    def points(self) -> Iterator[list[str]]:
        """Yield the head of a table of its points, and its lines."""
        yield ["chart", "line", "x", "value", "lowest_seed", "highest_seed"]
        for line in self.lines:
            for point in line.points:
                values = (point.x, point.value, point.low, point.high)
                yield [self.title, line.name, *(f"{value:.10g}" for value in values)]

    def _description(self) -> str:
        """The lines in words: every point, or the ends of a line with many."""
        told = [f"By {self.axis.label}."]
        for line in self.lines:
            points = line.points if len(line.points) <= _MARKED else [line.points[0], line.points[-1]]
            values = [self.axis.reading(point) for point in points]
            told.append(f"{line.name}: {f'{points[0].value:.4g} everywhere' if line.flat else ', '.join(values)}.")
        return " ".join(told)


def _flat(line: Line, look: Look, dashes: str, right: float, y: Place) -> Iterator[str]:
    (point,) = line.points
    if point.high > point.low:
        corners = f"M{LEFT} {y(point.low):.1f}H{right:.1f}V{y(point.high):.1f}H{LEFT}Z"
        yield f'<path class="b{look[0]}" fill-opacity=".15" d="{corners}"/>'
    reading = f"{line.name}: {point.value:.4g} everywhere"
    yield _stroke(look, f"M{LEFT} {y(point.value):.1f}H{right:.1f}", dashes or "1 3", reading)


def _curve(line: Line, look: Look, dashes: str, number: int, x: Place, y: Place, axis: Axis) -> Iterator[str]:
    """Bands, then strokes, then markers."""
    for run in line.runs:
        if len(run) > 1 and any(point.high > point.low for point in run):
            upper = [f"{x(point.x):.1f} {y(point.high):.1f}" for point in run]
            lower = [f"{x(point.x):.1f} {y(point.low):.1f}" for point in reversed(run)]
            corners = "M" + "L".join([*upper, *lower]) + "Z"
            yield f'<path class="b{look[0]}" fill-opacity=".13" d="{corners}"/>'
    for run in line.runs:
        if len(run) > 1:
            yield _stroke(look, "M" + "L".join(f"{x(p.x):.1f} {y(p.value):.1f}" for p in run), dashes, line.name)
    every = 1 if len(line.points) <= _MARKED else -(-len(line.points) // 8)
    # Lines that overlap have their markers at different positions.
    for point in line.points[number % every :: every]:
        reading = f"{line.name}: {axis.reading(point)}"
        yield canvas.marker(look, x(point.x), y(point.value), reading, hollow=bool(dashes))


def _stroke(look: Look, path: str, dashes: str, told: str) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path class="l{look[0]}" stroke-width="1.8"{dashed} d="{path}">{canvas.tooltip(told)}</path>'
