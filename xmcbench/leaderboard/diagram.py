"""Critical-difference diagrams (Demšar, 2006): average ranks on a line, with bars over methods that cannot be told
apart."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import count

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.canvas import LEADING
from xmcbench.leaderboard.overall import Overall, Placed
from xmcbench.output.escaping import svg

_LEFT, _RIGHT = 20, 460
#: Where the axis lies if there is one marker at a rank, the space between bars below it, and the size of a marker.
_AXIS, _BAR, _MARKER = 96, 9, 10
#: The markers that fit between the axis and the critical difference, one above the other.
_STACKED = 2
#: Letters of a name in one line.
_LETTERS = 55


def draw(made: Overall) -> str:
    """The diagram as an SVG document: a line of names per method, in the order of their ranks."""
    methods = len(made.methods)
    names = [textwrap.wrap(_label(each), _LETTERS) for each in made.methods]
    levels = _levels([_x(each.rank, methods) for each in made.methods])
    axis = _AXIS + _MARKER * max(0, max(levels) + 1 - _STACKED)
    below = axis + 30
    first = below + _BAR * len(made.groups) + 26
    height = first + LEADING * sum(map(len, names)) + 14
    parts = [*_axis(methods, axis)]
    if made.difference is not None:
        parts += _ruler(made.difference, methods)
    for place, (low, high) in enumerate(made.groups):
        y = below + _BAR * place
        start, end = (_x(made.methods[each].rank, methods) for each in (low, high))
        parts.append(f'<path class="tick" stroke-width="4" d="M{start - 3:.1f} {y}H{end + 3:.1f}"/>')
    y = first
    for number, (each, lines, level) in enumerate(zip(made.methods, names, levels, strict=True)):
        x = _x(each.rank, methods)
        color = number % 7
        parts.append(f'<path class="m{color}" d="M{x:.1f} {axis - 2 - _MARKER * level}l-5 -9h10Z"/>')
        parts.append(f'<path class="m{color}" d="M{_LEFT} {y - 4}l-5 -9h10Z"/>')
        for line in lines:
            parts.append(f'<text class="ink" x="{_LEFT + 14}" y="{y}">{svg(line)}</text>')
            y += LEADING
    return canvas.frame(made.title, height, parts, _LEFT, _description(made))


def _levels(places: Sequence[float]) -> list[int]:
    """How many markers are below each one: markers that would overlap lie one above the other."""
    tops: list[tuple[float, int]] = []
    for x in places:
        taken = {level for other, level in tops if abs(other - x) < _MARKER}
        tops.append((x, next(level for level in count() if level not in taken)))
    return [level for _, level in tops]


def _description(made: Overall) -> str:
    """The ranks and the bars in words."""
    told = [f"Average ranks: {', '.join(_label(each) for each in made.methods)}."]
    told += [f"Critical difference {made.difference:.2f}."] if made.difference is not None else []
    for low, high in made.groups:
        told.append(f"Not told apart: {', '.join(each.label for each in made.methods[low : high + 1])}.")
    return " ".join(told)


def _label(each: Placed) -> str:
    return f"{each.rank:.2f}  {each.label}"


def _x(rank: float, methods: int) -> float:
    return _LEFT + (rank - 1) / max(1, methods - 1) * (_RIGHT - _LEFT)


def _axis(methods: int, y: int) -> Iterator[str]:
    yield f'<path class="tick" d="M{_LEFT} {y}H{_RIGHT}"/>'
    step = math.ceil(methods / 20)
    for rank in range(1, methods + 1, step):
        yield f'<path class="tick" d="M{_x(rank, methods):.1f} {y}v5"/>'
        yield f'<text class="ink" x="{_x(rank, methods):.1f}" y="{y + 18}" text-anchor="middle">{rank}</text>'


def _ruler(difference: float, methods: int) -> Iterator[str]:
    """The critical difference as a length; the whole axis if it is longer."""
    shown = min(difference, max(1, methods - 1))
    beyond = ", longer than the axis" if shown < difference else ""
    end = _x(1 + shown, methods)
    yield f'<path class="tick" d="M{_LEFT} 52v-8M{_LEFT} 48H{end:.1f}M{end:.1f} 52v-8"/>'
    yield f'<text class="ink" x="{_LEFT}" y="66" font-size="11">critical difference {difference:.2f}{beyond}</text>'
