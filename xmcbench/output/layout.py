"""Tables and paragraphs of text: for a terminal, no wider than it is, and tables in Markdown."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

#: Characters between two columns, and the fewest to which a column of text is narrowed.
_GAP, _NARROWEST = 2, 20

#: A part of a text in ASCII between which and the next a line may end.
_PIECE = re.compile(r"[^\s/]*/|[^\s/]*\s+|[^\s/]+$")

#: The limit on the width of tables where the standard output is no terminal.
_in_pipes: ContextVar[int | None] = ContextVar("_in_pipes", default=None)


@dataclass
class _Column:
    """A head and the cells below it, on the left or on the right. narrowest: of a column of text, if words allow."""

    texts: Sequence[str]
    is_right: bool = False
    narrowest: int = _NARROWEST

    @cached_property
    def natural(self) -> int:
        """The width with the head and each cell in one line."""
        head, *cells = map(_width, self.texts)
        # Heads are padded by as much as columns are apart.
        return max([head + _GAP, *cells])

    @cached_property
    def least(self) -> int:
        """The narrowest width: texts are wrapped between words only, and figures not at all."""
        head, *cells = self.texts
        whole = [*map(_width, cells)] if self.is_right else [self.narrowest]
        pieces = [piece for text in ([head] if self.is_right else self.texts) for piece in _pieces(text)]
        return min(self.natural, max([*whole, *(_width(piece.rstrip()) for piece in pieces)]))

    def lines(self, row: int, width: int) -> list[str]:
        """The lines of a cell, each as wide as the column."""
        made = []
        for line in _wrap(self.texts[row], width):
            blank = " " * (width - _width(line))
            made.append(blank + line if self.is_right else line + blank)
        return made


def format_table(
    lines: Sequence[Sequence[Any]], heads: Sequence[str], aligned: Sequence[str] = (), width: int | None = None
) -> str:
    """Return the lines under their heads, in columns. aligned: ``left`` or ``right`` per column, default left.

    width: characters at most, default those of the terminal that the standard output is; elsewhere there is no limit.
    In a table that is too wide, texts and heads are wrapped between words, those of the widest column first. What still
    does not fit is cut into tables below each other that all have the first column. A column alone is never cut.
    """
    texts = zip(heads, *([" ".join(str(cell).strip().splitlines()) for cell in line] for line in lines), strict=True)
    limit = width if width is not None else terminal_width()
    narrowest = _NARROWEST if limit is None else min(_NARROWEST, (limit - _GAP) // 2)  # two columns always fit
    columns = [_Column(column, side == "right", narrowest) for column, side in zip_longest(texts, aligned)]
    if limit is None:
        return _table(columns, [column.natural for column in columns])
    return "\n\n".join(_table(block, _widths(block, limit)) for block in _blocks(columns, limit))


def in_markdown(lines: Sequence[Sequence[str]], heads: Sequence[str], left: Container[int] = (0,)) -> str:
    """Return the lines under their heads as a table of Markdown; the columns at the places ``left`` are on the left."""
    # Without padding: one long name would change every line.
    rules = [":--" if place in left else "--:" for place in range(len(heads))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rules, *lines))


def fill(text: str, hang: int = 0) -> str:
    """Return a text whose lines fit the terminal that the standard output is; elsewhere the text as it is.

    Lines are wrapped between words and keep their indentation. A line that is a command stays whole, to be copied.
    hang: further indentation of what does not fit into the first line.
    """
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(part for line in text.split("\n") for part in _fold(line, width, hang))


def shorten(text: str, length: int) -> str:
    """Return a text in one line of at most this length."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 4].rstrip()} ..."


def _fold(line: str, width: int, hang: int) -> list[str]:
    content = line.lstrip()
    if _width(line) <= width or content.startswith("xmcbench "):
        return [line]
    place = min(len(line) - len(content) + hang, max(width - _NARROWEST, width // 2))
    first, *others = _wrap(line[place:], width - place)
    return [line[:place] + first, *(" " * place + other for other in others)]


@contextmanager
def limit_in_pipes(width: int | None) -> Iterator[None]:
    """Limit the width of tables within the block where the standard output is no terminal; None for no limit."""
    token = _in_pipes.set(width)
    try:
        yield
    finally:
        _in_pipes.reset(token)


def terminal_width() -> int | None:
    """Return the width of the terminal that the standard output is; elsewhere the limit that was set, if any."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _in_pipes.get()


def _table(columns: Sequence[_Column], widths: Sequence[int]) -> str:
    rows: list[Sequence[str | None]] = []
    for row in range(len(columns[0].texts)):
        rows += zip_longest(*(column.lines(row, width) for column, width in zip(columns, widths, strict=True)))
        if row == 0:
            rows.append(["-" * width for width in widths])
    whole = [[text or " " * width for text, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join((" " * _GAP).join(row).rstrip() for row in whole)


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two per Chinese, Japanese or Korean character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return int(cell_len(text))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _widths(columns: Sequence[_Column], limit: int) -> list[int]:
    """Return widths that fit, or the least ones: the widest column gives way first."""
    widths = [column.natural for column in columns]
    while _total(widths) > limit:
        wide = [place for place, column in enumerate(columns) if widths[place] > column.least]
        if not wide:
            break
        widths[max(wide, key=lambda place: widths[place])] -= 1
    return widths


def _blocks(columns: Sequence[_Column], limit: int) -> list[list[_Column]]:
    """Return the columns of each table: the first one, and as many others as fit, at least one."""
    if _total([column.natural for column in columns]) <= limit:
        return [[*columns]]
    first, *others = columns
    blocks = [[first]]
    for column in others:
        if len(blocks[-1]) == 1 or _total([member.least for member in (*blocks[-1], column)]) <= limit:
            blocks[-1].append(column)
        else:
            blocks.append([first, column])
    return blocks


def _wrap(text: str, width: int) -> list[str]:
    """Return a text in lines of at most ``width``, or one piece."""
    if _width(text) <= width:
        return [text]
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and _width(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _pieces(text: str) -> Iterator[str]:
    """Yield the parts of a text between which a line may end.

    These are words, the parts of a path, and the characters of scripts that are written without spaces.
    """
    if text.isascii():
        yield from _PIECE.findall(text) or [""]
        return
    piece = ""
    for character in text:
        last = piece[-1:]
        # A mark on a wide character takes no room, and stays with it.
        between = last and _width(character) and 2 in (_width(last), _width(character))
        if between or last == "/" or (last.isspace() and not character.isspace()):
            yield piece
            piece = ""
        piece += character
    yield piece
