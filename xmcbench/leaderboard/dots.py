"""Rows by group of labels as a drawing: a line for each row, and on it a dot for each group, with its interval.

The dots of the groups differ in shape as well as in color.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.canvas import LEADING, LEFT, LETTER, WIDTH
from xmcbench.leaderboard.groups import METRICS, GroupFigure
from xmcbench.leaderboard.plot import DAGGER
from xmcbench.metrics import protocol
from xmcbench.output.escaping import svg

#: The left and right end of the panels, one for each metric.
_PANELS = ((LEFT + 8, 230), (258, WIDTH - LEFT - 8))
#: Where the rows begin, and the room for a row's dots below its name.
_TOP, _TRACK = 116, 18
#: The dots of the first, second and third group: color, ends of a stroke without length, whether they are hollow.
_DOTS = ((0, "round", False), (1, "round", True), (2, "square", False))
#: Letters in a line of small print.
_SMALL = 72


def draw(made: GroupFigure) -> str:
    """The drawing as an SVG document; its height grows with the number of rows."""
    names = [textwrap.wrap(each.label, int((WIDTH - 2 * LEFT) / LETTER)) for each in made.lines]
    tracks, bottom = [], _TOP
    for lines in names:
        bottom += LEADING * len(lines)
        tracks.append(bottom)
        bottom += _TRACK
    parts = [
        f'<text class="ink" x="{LEFT}" y="44" font-size="11">{svg(made.setting.title)}</text>',
        *_legend(made.groups),
    ]
    for metric, (left, right) in zip(METRICS, _PANELS, strict=True):
        parts += _panel(made, metric, tracks, left, right)
    for track, lines in zip(tracks, names, strict=True):
        for number, line in enumerate(reversed(lines)):
            parts.append(f'<text class="ink" x="{LEFT}" y="{track - 9 - LEADING * number}">{svg(line)}</text>')
    for number, line in enumerate(textwrap.wrap(_foot(made), _SMALL)):
        parts.append(f'<text class="ink" x="{LEFT}" y="{bottom + 14 + 15 * number}" font-size="11">{svg(line)}</text>')
        height = bottom + 24 + 15 * number
    title = f"{made.short[:1].upper()}{made.short[1:]}, {made.dataset}"
    return canvas.frame(title, height, parts, LEFT, _description(made))


def _legend(groups: Sequence[str]) -> Iterator[str]:
    x = LEFT + 6
    for place, group in enumerate(groups):
        yield from _dots(place, f"M{x} 62h0")
        yield f'<text class="ink" x="{x + 10}" y="66">{svg(group)}</text>'
        x += 30 + int(LETTER * len(group))


def _panel(made: GroupFigure, metric: str, tracks: Sequence[int], left: int, right: int) -> Iterator[str]:
    """The axis of a metric, the lines of its rows, the intervals, and the dots, one path for all rows each."""
    values = [[100 * each.figures[group][metric].value for group in made.groups] for each in made.lines]
    ticks = canvas.scale(0.0, max(max(row) for row in values), 1)

    def x(value: float) -> float:
        return left + min(max(value, ticks[0]), ticks[-1]) / ticks[-1] * (right - left)

    yield f'<text class="ink" x="{left}" y="{_TOP - 28}" font-size="12" font-weight="bold">{metric}</text>'
    yield f'<path class="grid" d="{"".join(f"M{x(tick):.1f} {_TOP - 6}V{tracks[-1] + 10}" for tick in ticks)}"/>'
    for tick, text in zip(ticks, canvas.tick_texts(ticks), strict=True):
        yield f'<text class="ink" x="{x(tick):.1f}" y="{_TOP - 10}" font-size="11" text-anchor="middle">{text}</text>'
    ranges = ((track, min(row), max(row)) for track, row in zip(tracks, values, strict=True))
    joined = "".join(f"M{x(low):.1f} {track}H{x(high):.1f}" for track, low, high in ranges)
    yield f'<path class="grid" stroke-width="3" d="{joined}"/>'
    for place, group in enumerate(made.groups):
        found = [each.figures[group][metric] for each in made.lines]
        spans, dots = "", ""
        for track, each in zip(tracks, found, strict=True):
            low, high = x(100 * (each.value - each.half_width)), x(100 * (each.value + each.half_width))
            spans += f"M{low:.1f} {track}H{high:.1f}" if high - low > 0.1 else ""
            dots += f"M{x(100 * each.value):.1f} {track}h0"
        if spans:
            yield f'<path class="l{_DOTS[place][0]}" d="{spans}"/>'
        yield from _dots(place, dots)


def _dots(place: int, path: str) -> Iterator[str]:
    """Strokes without length, whose ends are the dots."""
    color, ends, hollow = _DOTS[place]
    width = 9 if ends == "round" else 7
    yield f'<path class="l{color}" stroke-width="{width}" stroke-linecap="{ends}" d="{path}"/>'
    if hollow:
        yield f'<path class="blank" stroke-width="{width - 4}" stroke-linecap="{ends}" d="{path}"/>'


def _foot(made: GroupFigure) -> str:
    dagger = f" {DAGGER}: see the notes of the table." if any(each.marks for each in made.lines) else ""
    return f"In percent, with 95% intervals; filter {made.filter}, metric protocol {protocol.VERSION}.{dagger}"


def _description(made: GroupFigure) -> str:
    """The figures of the rows in words."""
    told = []
    for each in made.lines:
        figures = (
            f"{metric} {', '.join(f'{group} {100 * each.figures[group][metric].value:.2f}' for group in made.groups)}"
            for metric in METRICS
        )
        told.append(f"{each.label}: {'; '.join(figures)}.")
    return " ".join(told)
