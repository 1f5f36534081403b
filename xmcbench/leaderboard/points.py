"""Charts of points: rows by two numbers with the Pareto front, or one below the other with an interval each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.canvas import BOTTOM, LEADING, LEFT, LETTER, TOP, WIDTH, Chart

#: Left, top, right and bottom.
Box = tuple[float, float, float, float]
#: Half of the height of a name, and its distances from its point, the best first.
_TALL, _DISTANCES = 6.8, (0, 11, 19, 28, 38, 50, 64, 80, 98, 118, 140, 165, 190)


@dataclass(frozen=True)
class Spot:
    """A point: a value at a cost, or ``value`` alone with its interval. elsewhere: the cost is of another machine."""

    name: str
    value: float
    cost: float = 1.0
    low: float = 0.0
    high: float = 0.0
    elsewhere: bool = False


@dataclass(frozen=True, kw_only=True)
class _Spots(Chart):
    """A chart of points. label: of its horizontal axis."""

    label: str
    spots: tuple[Spot, ...]

    def points(self) -> Iterator[list[str]]:
        """Yield the head of a table of its points, and its lines."""
        yield ["chart", "name", "value", "cost", "low", "high"]
        for spot in self.spots:
            values = (spot.value, spot.cost, spot.low, spot.high)
            yield [self.title, spot.name, *(f"{value:.10g}" for value in values)]


@dataclass(frozen=True, kw_only=True)
class Scatter(_Spots):
    """Values by their costs, on a logarithmic axis, with names beside them; the Pareto front is joined by steps."""

    def front(self) -> list[Spot]:
        """The points that no other one beats, the cheapest first."""
        kept = (spot for spot in self.spots if not any(_beats(other, spot) for other in self.spots))
        return sorted(kept, key=lambda spot: (spot.cost, spot.value, spot.name))

    def draw(self) -> str:
        """The chart as an SVG document."""
        right, front = WIDTH - 18.0, self.front()
        ticks = canvas.scale(min(spot.value for spot in self.spots), max(spot.value for spot in self.spots), 1)
        powers = [math.log10(spot.cost) for spot in self.spots]
        low = min(powers)
        span = max(max(powers) - low, 0.5)

        def x(cost: float) -> float:
            return LEFT + 22 + (math.log10(cost) - low) / span * (right - LEFT - 120)

        def y(value: float) -> float:
            return BOTTOM - (value - ticks[0]) / (ticks[-1] - ticks[0]) * (BOTTOM - TOP - 8)

        costs = [(x(cost), f"{cost:g}") for cost in _round_costs(low, low + span)]
        values = [(y(tick), words) for tick, words in _label_ticks(ticks)]
        parts = [*canvas.axes(costs, values, self.label, right)]
        places = {spot: (x(spot.cost), y(spot.value)) for spot in self.spots}
        steps = "".join("H{:.1f}V{:.1f}".format(*places[spot]) for spot in front)
        parts.append(
            f'<path class="tick" stroke-dasharray="3 3" d="M{places[front[0]][0]:.1f} {BOTTOM}{steps}H{right}"/>'
        )
        parts += _names(self.spots, places, right)
        for spot in self.spots:
            reading = f"{spot.name}: {spot.value:.2f} at {spot.cost:.3g}"
            parts.append(canvas.marker(canvas.look(spot.name), *places[spot], reading, hollow=spot.elsewhere))
        told = ", ".join(f"{spot.name} ({spot.value:.2f}; {spot.cost:.3g})" for spot in front)
        return canvas.frame(self, parts, BOTTOM + 40, f"Pareto front over {self.label}: {told}.")


@dataclass(frozen=True, kw_only=True)
class Ranking(_Spots):
    """Values one below the other, each with its interval: rows whose intervals overlap are statistically tied."""

    def draw(self) -> str:
        """The chart as an SVG document; its height grows with the number of rows."""
        names = canvas.short_names([spot.name for spot in self.spots])
        left, right, top = 30 + LETTER * max(map(len, names)), WIDTH - 24.0, TOP + 24
        ticks = canvas.scale(min(spot.low for spot in self.spots), max(spot.high for spot in self.spots), 1)
        bottom = top + 20 * len(self.spots)

        def x(value: float) -> float:
            return left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (right - left)

        parts = [canvas.text(left, TOP, self.label, size=11)]
        for tick, words in _label_ticks(ticks):
            parts += [f'<path class="grid" d="M{x(tick):.1f} {top}V{bottom}"/>']
            parts += [canvas.text(x(tick), top - 6, words, "middle")]
        for row, (spot, name) in enumerate(zip(self.spots, names, strict=True)):
            y, color = top + 10 + 20 * row, canvas.look(spot.name)[0]
            parts.append(canvas.text(left - 12, y + 4, name, "end"))
            parts.append(f'<path class="l{color}" stroke-width="3" d="M{x(spot.low):.1f} {y}H{x(spot.high):.1f}"/>')
            reading = f"{spot.name}: {spot.value:.2f} ({spot.low:.2f} to {spot.high:.2f})"
            parts.append(canvas.marker(canvas.look(spot.name), x(spot.value), y, reading))
        told = ", ".join(f"{spot.name} {spot.value:.2f}" for spot in self.spots)
        return canvas.frame(self, parts, bottom, f"{self.label}: {told}.")


def _label_ticks(ticks: Sequence[float]) -> Iterator[tuple[float, str]]:
    return zip(ticks, canvas.tick_texts(ticks), strict=True)


def _round_costs(low: float, high: float) -> list[float]:
    """Round numbers between two powers of ten: 1, 10, 100, and on a short axis also numbers between them."""
    factors: tuple[float, ...] = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2.5 else (1,)
    found = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for factor in factors]
    return [cost for cost in found if low - 1e-9 <= math.log10(cost) <= high + 1e-9]


def _names(spots: Sequence[Spot], places: dict[Spot, tuple[float, float]], right: float) -> Iterator[str]:
    """The name of every point, beside it where there is room: not on a point, another name, or an axis."""
    taken: list[Box] = [(x - 5, y - 5, x + 5, y + 5) for x, y in places.values()]
    for spot, name in zip(spots, canvas.short_names([spot.name for spot in spots]), strict=True):
        x, y = places[spot]
        width = LETTER * len(name)
        box = next((box for box in _boxes(x, y, width) if _is_free(box, right, taken)), None)
        if box is None:
            continue  # the description has it
        taken.append(box)
        if abs((box[1] + box[3]) / 2 - y) > LEADING:
            near = min(max(x, box[0]), box[2])
            yield f'<path class="grid" d="M{x:.1f} {y:.1f}L{near:.1f} {(box[1] + box[3]) / 2:.1f}"/>'
        side = "" if box[0] > x else "end" if box[2] < x else "middle"
        place = {"": box[0], "end": box[2], "middle": x}[side]
        yield canvas.text(place, box[3] - 2.5, name, side, name=True)


def _boxes(x: float, y: float, width: float) -> Iterator[Box]:
    """Boxes for a name around its point, the nearest first: right, left, above and below."""
    for distance in _DISTANCES:
        for shift in (-distance, distance) if distance else (0,):
            middle = y + shift
            for left in (x + 8, x - 8 - width, x - width / 2):
                if distance >= 11 or left != x - width / 2:
                    yield left, middle - _TALL, left + width, middle + _TALL


def _is_free(box: Box, right: float, taken: Sequence[Box]) -> bool:
    inside = box[0] >= LEFT + 2 and box[2] <= right and box[1] >= TOP - 6 and box[3] <= BOTTOM - 1
    return inside and all(
        box[0] >= other[2] or other[0] >= box[2] or box[1] >= other[3] or other[1] >= box[3] for other in taken
    )


def _beats(one: Spot, other: Spot) -> bool:
    """Return whether a point is at least as good and as cheap as another, and better or cheaper."""
    no_worse = one.value >= other.value and one.cost <= other.cost
    return no_worse and (one.value > other.value or one.cost < other.cost)
