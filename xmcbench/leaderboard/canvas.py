"""The canvas of all charts: frame, ticks, names that do not overlap, and the look of each method, light and dark.

Layout does not depend on installed fonts: positions are computed from the number of letters, with room to spare.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from xmcbench.output.escaping import svg

#: The width of a chart, the plot's left end, top and bottom, and the room for a letter and for a line of names.
WIDTH, LEFT, TOP, BOTTOM = 600, 48, 42, 362
LETTER, LEADING = 6.9, 15
#: Letters of a title, of a name beside a line or point, and of a line of small print.
_TITLE, LONGEST, _SMALL = 66, 30, 93
#: Units of large numbers, used from ten units on.
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
#: Follows the name of a row that has a note.
DAGGER = "\u2020"

#: Light and dark colors; neighboring ones can be told apart by the color-blind.
COLORS = (
    ("#0072b2", "#5ab4f0"),
    ("#d55e00", "#ff9150"),
    ("#007a5a", "#35d6a6"),
    ("#b0508f", "#eda6cf"),
    ("#8a6d00", "#f2c744"),
    ("#5b4fc4", "#aea6ff"),
    ("#3f3f3f", "#d0d0d0"),
    ("#8c2d19", "#ff8f7d"),
)
#: Circle, square, triangle, diamond, triangle upside down: paths from the center.
_MARKERS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "m-3.6-3.6h7.2v7.2h-7.2Z",
    "m-4.6 3.6h9.2l-4.6-8Z",
    "m0-5l5 5l-5 5l-5-5Z",
    "m-4.6-3.6h9.2l-4.6 8Z",
)
#: Titles of methods, in the order in which they get a color and a marker; other methods get theirs by a hash.
_METHODS = """TF-IDF,BM25,kNN,Label expansion,GloVe,Embedder,Hybrid,Rerank,SentBERT,SimCSE,ICT,MACLR,MPNet,RTS,NGAME,
PEFA,XR-Linear,XR-Transformer,AttentionXML,Astec,SiameseXML,ZestXML,Renee,DEXML""".replace("\n", "").split(",")


@dataclass(frozen=True, kw_only=True)
class Chart(ABC):
    """A chart. stem: the name of its file. foot: the small print. notes: meanings of daggers, and what is missing, for
    the text below it."""

    stem: str
    title: str
    foot: str
    notes: tuple[str, ...] = ()

    @abstractmethod
    def draw(self) -> str:
        """Return the chart as an SVG document."""

    @abstractmethod
    def points(self) -> Iterator[list[str]]:
        """Yield the head of a table of its points, and its lines."""


def title_of(name: str) -> str:
    """The title of the method in the name of a row; the whole name where nothing stands before its parameters."""
    return name.partition(" (")[0].rstrip(DAGGER).strip() or name


#: A color by its number, and the path of a marker.
Look = tuple[int, str]


def look(name: str) -> Look:
    """The color and the marker of a method on all charts, by the name of one of its rows."""
    title = title_of(name)
    known = title in _METHODS
    return look_of(_METHODS.index(title) if known else hashlib.sha256(title.encode()).digest()[0])


def look_of(number: int) -> Look:
    """The color and the marker of a number."""
    return number % len(COLORS), _MARKERS[number % len(_MARKERS)]


def marker(look: Look, x: float, y: float, told: str, hollow: bool = False) -> str:
    """Return the marker of a row at a position. told: the text that a pointer on it shows."""
    color, path = look
    kind = f"blank l{color}" if hollow else f"m{color}"
    return f'<path class="{kind}" stroke-width="1.6" d="M{x:.1f} {y:.1f}{path}">{tooltip(told)}</path>'


def tooltip(told: str) -> str:
    """Return the text that a pointer on an element shows, as a child of the element."""
    return f"<title>{svg(told)}</title>"


def short_names(names: Sequence[str]) -> list[str]:
    """Names that fit beside a line: the title, where one row has it, else also the beginning of what follows."""
    alike = [title_of(name) for name in names]
    found = []
    for name, title in zip(names, alike, strict=True):
        dagger = DAGGER if name.endswith(DAGGER) else ""
        whole = title if alike.count(title) == 1 else name.removesuffix(DAGGER)
        found.append((whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1].rstrip()}\u2026") + dagger)
    return found


def frame(chart: Chart, parts: Iterable[str], bottom: float, description: str) -> str:
    """A chart as an SVG document. bottom: of its parts. description: for a reader who does not see it."""
    title = chart.title if len(chart.title) <= _TITLE else f"{chart.title[: _TITLE - 1].rstrip()}\u2026"
    lines = wrap(chart.foot, _SMALL, break_long_words=False, break_on_hyphens=False)
    height = bottom + 22 + LEADING * len(lines)
    small = (text(16, bottom + 18 + LEADING * row, line, "", 11) for row, line in enumerate(lines))
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}" '
        'role="img" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12">',
        f"<title>{svg(title)}</title>",
        f"<desc>{svg(description)}</desc>",
        style(),
        f'<rect class="paper" width="{WIDTH}" height="{height:g}"/>',
        f'<text class="ink" x="16" y="23" font-size="14" font-weight="bold">{svg(title)}</text>',
    ]
    return "\n".join([*head, *parts, *small, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str = "", size: int = 0, name: bool = False) -> str:
    """A text. anchor: ``middle`` or ``end``, if not its start. name: of a point, which may lie on lines."""
    kind = "ink name" if name else "ink"
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' font-size="{size}"' if size else "")
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{more}>{svg(words)}</text>'


def axes(
    x_ticks: Iterable[tuple[float, str]], y_ticks: Iterable[tuple[float, str]], label: str, right: float
) -> Iterator[str]:
    """The grid and both axes of a plot; ticks are pairs of a position and a text."""
    for y, words in y_ticks:
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{right:.1f}"/>'
        yield text(LEFT - 7, y + 4, words, "end")
    for x, words in x_ticks:
        yield f'<path class="tick" d="M{x:.1f} {BOTTOM}v5"/>'
        yield text(x, BOTTOM + 18, words, "middle")
    yield f'<path class="tick" d="M{LEFT} {BOTTOM}H{right:.1f}"/>'
    yield text((LEFT + right) / 2, BOTTOM + 36, label, "middle")


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least ``gap`` apart and, if there is room, between two ends, as near as possible to those given."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found = [min(max(place, low), high) for place in places]
    for one, other in itertools.pairwise(order):
        found[other] = max(found[other], found[one] + gap)
    if order and found[order[-1]] > high:
        found[order[-1]] = max(high, low + gap * (len(order) - 1))
        for other, one in itertools.pairwise(reversed(order)):
            found[one] = min(found[one], found[other] - gap)
    return found


def scale(low: float, high: float, digits: int) -> list[float]:
    """Two to eight ticks that enclose ``low`` to ``high``. None has more than ``digits`` decimals, or more than floats
    can represent."""
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
    size, unit = next((unit for unit in _UNITS if highest >= 10 * unit[0]), (1.0, ""))
    return [f"{tick / size:g}{unit}" if tick else "0" for tick in ticks]


def style() -> str:
    """The style sheet of a chart, as an element of it."""
    return f"<style>\n{rules()}</style>"


def rules() -> str:
    """The rules of a chart's style sheet, light and dark."""

    def colors(dark: bool) -> Iterator[str]:
        paper, ink, grid = ("#14171c", "#e6e6e6", "#3a4049") if dark else ("#ffffff", "#1f1f1f", "#d9d9d9")
        yield f".paper,.blank{{fill:{paper}}} .ink{{fill:{ink}}} .name{{stroke:{paper}}}"
        yield f".grid{{stroke:{grid}}} .tick{{stroke:{ink}}}"
        for number, pair in enumerate(COLORS):
            color = pair[dark]
            yield f".l{number}{{stroke:{color}}} .m{number},.b{number}{{fill:{color}}}"

    light, dark = "\n".join(colors(False)), "\n".join(colors(True))
    base = "path{fill:none} .name{paint-order:stroke;stroke-width:3px}"
    return f"{base}\n{light}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}\n"
