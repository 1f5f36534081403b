"""Quality against cost as a drawing: a panel for each cost, numbered points, the Pareto fronts joined.

What is on a front is filled and joined by steps, the rest is hollow, so that no color is needed to tell them apart.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.canvas import LEADING, LEFT, LETTER, WIDTH
from xmcbench.leaderboard.plot import DAGGER
from xmcbench.leaderboard.tradeoff import Tradeoff, TradePoint
from xmcbench.metrics import protocol
from xmcbench.output.escaping import svg

_TOP, _HEIGHT = 60, 280
_BOTTOM = _TOP + _HEIGHT
#: Left and right end of the panels.
_PANELS = ((48, 252), (272, 468))
#: The label of each horizontal axis, and its lowest value: less than this is drawn there.
_AXES = (("fit s, reused included", 0.01), ("predict ms/instance", 0.001))
#: Directions in twelfths of a circle, clockwise from the right; a front comes from below and goes on to the right.
_DIRECTIONS = (9, 6, 8, 10, 0, 3, 7, 11, 5, 1, 4, 2)
#: Where a number may stand, best first: its distance from its point, and the direction.
_PLACES = tuple((distance, angle) for distance in (11, 20, 30, 42, 56, 72, 90, 110) for angle in _DIRECTIONS)
#: A number that is farther away is joined to its point by a line.
_NEAR = 12
#: Half the height of a number, and the width of its digits.
_TALL, _WIDE = 5.6, 6.3
#: Left, top, right and bottom.
Box = tuple[float, float, float, float]

#: Letters in a line of small print.
_SMALL = 72


@dataclass(frozen=True)
class _Panel:
    """A panel: its cost, ends, and the powers of ten that its axis reaches from and to."""

    cost: int
    left: int
    right: int
    low: int
    high: int

    @classmethod
    def of(cls, made: Tradeoff, cost: int) -> _Panel:
        values = [max(each.costs[cost], _AXES[cost][1]) for each in made.points]
        low = math.floor(math.log10(min(values)))
        return cls(cost, *_PANELS[cost], low, max(low + 1, math.ceil(math.log10(max(values)))))

    def x(self, point: TradePoint) -> float:
        place = math.log10(max(point.costs[self.cost], _AXES[self.cost][1]))
        return self._at(place)

    def ticks(self) -> Iterator[tuple[float, str]]:
        every = -(-(self.high - self.low) // 5)
        for power in range(self.low, self.high + 1, every):
            (text,) = canvas.tick_texts([float(f"1e{power}")])
            yield self._at(power), text

    def _at(self, place: float) -> float:
        return self.left + 10 + (place - self.low) / (self.high - self.low) * (self.right - self.left - 20)


def draw(made: Tradeoff) -> str:
    """The drawing as an SVG document; its height grows with the legend."""
    ticks = canvas.scale(
        100 * min(each.value for each in made.points), 100 * max(each.value for each in made.points), 1
    )

    def y(value: float) -> float:
        return _BOTTOM - (100 * value - ticks[0]) / (ticks[-1] - ticks[0]) * _HEIGHT

    numbers = {each: f"{number}" for number, each in enumerate(made.points, 1)}
    parts = [f'<text class="ink" x="{LEFT}" y="44" font-size="11">{svg(made.setting.title)}</text>']
    for panel in (_Panel.of(made, cost) for cost in range(len(_AXES))):
        parts += _frame(panel, [(y(tick / 100), text) for tick, text in _named(ticks)])
        places = {each: (panel.x(each), y(each.value)) for each in made.points}
        front = made.front(panel.cost)
        parts += _numbers({numbers[each]: place for each, place in places.items()}, panel)
        parts += _points(places, front, panel.right)
    best = {each for cost in range(len(_AXES)) for each in made.front(cost)}
    bottom = _BOTTOM + 62
    for each in made.points:
        weight = ' font-weight="bold"' if each in best else ""
        parts.append(f'<text class="ink" x="{LEFT + 18}" y="{bottom}" text-anchor="end">{numbers[each]}</text>')
        for line in textwrap.wrap(each.label, int((WIDTH - LEFT - 36) / LETTER)):
            parts.append(f'<text class="ink" x="{LEFT + 28}" y="{bottom}"{weight}>{svg(line)}</text>')
            bottom += LEADING
    for line in textwrap.wrap(_foot(made), _SMALL):
        parts.append(f'<text class="ink" x="{LEFT}" y="{bottom + 2}" font-size="11">{svg(line)}</text>')
        bottom += 15
    return canvas.frame(f"{made.metric} against time, {made.dataset}", bottom + 4, parts, LEFT, _description(made))


def _named(ticks: Sequence[float]) -> Iterator[tuple[float, str]]:
    yield from zip(ticks, canvas.tick_texts(ticks), strict=True)


def _frame(panel: _Panel, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    """The grid and both axes of a panel; only the first has numbers on its vertical axis."""
    grid = "".join(f"M{panel.left} {y:.1f}H{panel.right}" for y, _ in ticks)
    yield f'<path class="grid" d="{grid}"/>'
    if panel.cost == 0:
        for y, text in ticks:
            yield f'<text class="ink" x="{panel.left - 7}" y="{y:.1f}" dy="4.5" text-anchor="end">{text}</text>'
    marks = "".join(f"M{x:.1f} {_BOTTOM}v5" for x, _ in panel.ticks())
    yield f'<path class="tick" d="M{panel.left} {_BOTTOM}H{panel.right}{marks}"/>'
    for x, text in panel.ticks():
        yield f'<text class="ink" x="{x:.1f}" y="{_BOTTOM + 19}" text-anchor="middle">{text}</text>'
    middle = (panel.left + panel.right) / 2
    yield f'<text class="ink" x="{middle:g}" y="{_BOTTOM + 38}" text-anchor="middle">{_AXES[panel.cost][0]}</text>'


def _points(places: dict[TradePoint, tuple[float, float]], front: Sequence[TradePoint], right: int) -> Iterator[str]:
    """The steps of the front, then all points: strokes without length, whose round ends are the dots."""
    steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in (places[each] for each in front))
    first = places[front[0]]
    yield f'<path class="l0" stroke-width="1.5" d="M{first[0]:.1f} {_BOTTOM}{steps}H{right}"/>'
    for color, width, chosen in (
        ("l6", 9, [each for each in places if each not in front]),
        ("blank", 5.5, [each for each in places if each not in front]),
        ("l0", 10, front),
    ):
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in (places[each] for each in chosen))
        if dots:
            yield f'<path class="{color}" stroke-width="{width}" stroke-linecap="round" d="{dots}"/>'


def _numbers(points: dict[str, tuple[float, float]], panel: _Panel) -> Iterator[str]:
    """The number of every point, beside it where there is room: not on a point, another number, or an axis."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points.values()]
    texts, joined = [], ""
    for number, (x, y) in points.items():
        places = [
            (distance, x + distance * math.cos(math.pi * angle / 6), y + distance * math.sin(math.pi * angle / 6))
            for distance, angle in _PLACES
        ]
        half = _WIDE * len(number) / 2
        free = (each for each in places if _is_free(_box(each, half), panel, taken))
        chosen = next(free, places[0])
        taken.append(_box(chosen, half))
        distance, left, top = chosen
        joined += f"M{x:.1f} {y:.1f}L{left:.1f} {top:.1f}" if distance > _NEAR else ""
        texts.append(
            f'<text class="ink" x="{left:.1f}" y="{top + 2.8:.1f}" font-size="11" text-anchor="middle">{number}</text>'
        )
    if joined:
        yield f'<path class="grid" d="{joined}"/>'
    yield from texts


def _box(place: tuple[float, float, float], half: float) -> Box:
    _, x, y = place
    return x - half, y - _TALL, x + half, y + _TALL


def _is_free(box: Box, panel: _Panel, taken: Sequence[Box]) -> bool:
    inside = panel.left <= box[0] and box[2] <= panel.right and box[1] >= _TOP - 10 and box[3] <= _BOTTOM
    return inside and not any(_overlap(box, other) for other in taken)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _foot(made: Tradeoff) -> str:
    parts = [
        f"{made.machine}; filter {made.filter}, metric protocol {protocol.VERSION}. Filled and joined: on "
        "the Pareto front of this cost. Bold: on one of the fronts."
    ]
    if any(each.marks for each in made.points):
        parts.append(f"{DAGGER}: see the notes of the table.")
    return " ".join(parts)


def _description(made: Tradeoff) -> str:
    """The fronts in words."""
    told = []
    for cost, (name, _) in enumerate(_AXES):
        front = [f"{each.label} ({100 * each.value:.2f}; {each.costs[cost]:.3g})" for each in made.front(cost)]
        told.append(f"Pareto front over {name}: {', '.join(front)}.")
    return " ".join(told)
