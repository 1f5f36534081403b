"""What all drawings share: a frame that is the same on every machine, colors for light and dark, ticks of an axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from xmcbench.output.escaping import svg

#: The width of a drawing, and the maximum width of a letter, the height of a line of text, the length of a title.
WIDTH = 480
LETTER, LEADING, _TITLE = 7.6, 19, 52
#: Where the text of a drawing begins.
LEFT = 16
#: Units of large numbers, used from ten units on.
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

#: Light and dark color of each line in turn; neighboring colors can be told apart by the color-blind.
COLORS = (
    ("#0072b2", "#5ab4f0"),
    ("#d55e00", "#ff9150"),
    ("#007a5a", "#35d6a6"),
    ("#b0508f", "#eda6cf"),
    ("#8a6d00", "#f2c744"),
    ("#5b4fc4", "#aea6ff"),
    ("#3f3f3f", "#d0d0d0"),
)


def frame(title: str, height: int, parts: Iterable[str], indent: int = LEFT, description: str = "") -> str:
    """A drawing as an SVG document: title, style, and what is drawn. description: for a reader who does not see it."""
    shown = title if len(title) <= _TITLE else f"{title[: _TITLE - 4].rstrip()} ..."
    told = [f"<desc>{svg(description)}</desc>"] if description else []
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="13">',
        f"<title>{svg(shown)}</title>",
        *told,
        style(),
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="ink" x="{indent}" y="24" font-size="14" font-weight="bold">{svg(shown)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def scale(low: float, high: float, digits: int) -> list[float]:
    """Two to eight ticks that enclose ``low`` to ``high``, starting at zero unless that would waste half of the height.
    No tick has more than ``digits`` decimals, or more than floats can represent."""
    if 0 <= low < high / 2:
        low = 0.0
    for step in (factor * 10.0**exponent for exponent in itertools.count(-digits) for factor in (1, 2, 5)):
        first, last = int(low // step), -int(-high // step)
        if last - first <= 6 and step > max(abs(low), abs(high)) / 2000:
            break
    last = max(last, first + 1)
    # Whole steps, so that a tick is 0.3 and not 0.30000000000000004.
    return [round(place * step, digits) for place in range(first, last + 1)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Short texts of ticks, all in one unit: 0.05; 2000; 150k."""
    highest = max(map(abs, ticks))
    size, unit = next((each for each in _UNITS if highest >= 10 * each[0]), (1.0, ""))
    return [f"{tick / size:g}{unit}" if tick else "0" for tick in ticks]


def style() -> str:
    """The style sheet of a drawing, as an element of it."""
    return f"<style>\n{rules()}</style>"


def rules() -> str:
    """The rules of a drawing's style sheet, light and dark."""

    def colors(dark: bool) -> Iterator[str]:
        paper, ink, grid = ("#14171c", "#e6e6e6", "#3a4049") if dark else ("#ffffff", "#1f1f1f", "#d9d9d9")
        yield f".paper{{fill:{paper}}} .blank{{stroke:{paper}}} .ink{{fill:{ink}}}"
        yield f".grid{{stroke:{grid}}} .tick{{stroke:{ink}}}"
        for number, pair in enumerate(COLORS):
            color = pair[dark]
            yield f".l{number}{{stroke:{color}}} .m{number},.b{number}{{fill:{color}}}"

    light, dark = "\n".join(colors(False)), "\n".join(colors(True))
    return f"path{{fill:none}}\n{light}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}\n"
