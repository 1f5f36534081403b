"""Tables of text for a terminal, no wider than it is."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

#: Characters between two columns, and the fewest to which a column of text is narrowed.
_GAP, _NARROWEST = 2, 20


def laid_out(
    lines: Sequence[Sequence[Any]], heads: Sequence[str], aligned: Sequence[str] = (), width: int | None = None
) -> str:
    """The lines under their heads, in columns. aligned: ``left`` or ``right`` for each column, default left.

    width: characters at most, default those of the terminal that the standard output is; elsewhere there is no limit.
    What is too wide is wrapped in the columns of text, the widest first, and then cut into tables below each other that
    all have the first column. A column alone is never cut.
    """
    shown = [[str(cell) for cell in line] for line in lines]
    aligned = [*aligned] or ["left"] * len(heads)
    limit = width if width is not None else _terminal_width()
    # tabulate pads heads by as much as columns are apart.
    natural = [max([_columns(head) + _GAP, *map(_columns, rest)]) for head, *rest in zip(heads, *shown, strict=True)]
    widths = _narrowed(natural, aligned, limit) if limit is not None else natural
    blocks = _blocks(widths, limit) if limit is not None else [[*range(len(heads))]]
    made = []
    for block in blocks:
        columns = [(heads[each], aligned[each], widths[each]) for each in block]
        made.append(_table([[line[each] for each in block] for line in shown], *zip(*columns, strict=True)))
    return "\n\n".join(made)


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for each Chinese, Japanese or Korean character."""
    from wcwidth import wcswidth

    width = wcswidth(text)
    return width if width >= 0 else len(text)  # -1 where it has control characters


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _narrowed(widths: Sequence[int], aligned: Sequence[str], limit: int) -> list[int]:
    """Widths that fit, or the narrowest: only columns on the left give way, the widest first."""
    found = list(widths)
    text = [place for place, side in enumerate(aligned) if side == "left"]
    while _total(found) > limit:
        widest = max(text, key=lambda place: found[place], default=None)
        if widest is None or found[widest] <= _NARROWEST:
            break
        found[widest] -= 1
    return found


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _blocks(widths: Sequence[int], limit: int) -> list[list[int]]:
    """The columns of each table: the first one, and as many others as fit, at least one."""
    blocks: list[list[int]] = []
    for place in range(1, len(widths)):
        if blocks and _total([widths[each] for each in [*blocks[-1], place]]) <= limit:
            blocks[-1].append(place)
        else:
            blocks.append([0, place])
    return blocks or [[0]]


def _table(lines: Sequence[Sequence[str]], heads: Sequence[str], aligned: Sequence[str], widths: Sequence[int]) -> str:
    from tabulate import tabulate

    # disable_numparse: "35.60" must not become "35.6".
    options: dict[str, Any] = {"disable_numparse": True, "colalign": aligned if lines else None}
    if any(_columns(cell) > width for line in lines for cell, width in zip(line, widths, strict=True)):
        # tabulate lets a wide character begin in the last column.
        wide = [any(len(cell) < _columns(cell) for cell in column) for column in zip(*lines, strict=True)]
        options |= {"maxcolwidths": [max(1, width - each) for width, each in zip(widths, wide, strict=True)]}
    return str(tabulate(lines, heads, **options))
