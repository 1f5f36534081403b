"""Rows of a corpus on their way from a file into the loaded form, a batch at a time."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

from xmcbench.storage.memory import MEMORY
from xmcbench.storage.reading import check_size

#: Instances (training or test), labels, or documents: instances whose labels are not read.
Kind = Literal["instances", "labels", "documents"]

#: Rows, and characters of text, that a batch holds at most; one row may be longer.
ROWS, CHARACTERS = 65_536, 1 << 25

#: Bytes of memory that reading a part takes for each of its rows and pairs, besides the texts; about.
_ROW_BYTES, _PAIR_BYTES = 400, 32

#: An instance or a label: uid, title, content, label ids. A label has neither content nor label ids.
Row = tuple[str, str, str, Sequence[int]]

#: A row with the file and its line, from 1.
Located = tuple[Path, int, Row]


class Rows(NamedTuple):
    """Consecutive rows of a corpus. targets: the label ids of all rows; lengths: their number in each row."""

    uids: list[str]
    titles: list[str]
    contents: list[str]
    targets: array[int]
    lengths: list[int]


def batch_rows(rows: Iterable[Row], size: int = ROWS) -> Iterator[Rows]:
    """Rows in batches of at most ``size``, and of not many more than ``CHARACTERS`` characters.

    Label ids must be within int32.
    """
    batch, held = Rows([], [], [], array("i"), []), 0
    for uid, title, content, targets in rows:
        batch.uids.append(uid)
        batch.titles.append(title)
        batch.contents.append(content)
        batch.targets.extend(targets)
        batch.lengths.append(len(targets))
        held += len(title) + len(content)
        if len(batch.uids) == size or held >= CHARACTERS:
            yield batch
            batch, held = Rows([], [], [], array("i"), []), 0
    if batch.uids:
        yield batch


def check_count(rows: int, pairs: int = 0) -> None:
    """Raise Unreadable for so many rows and pairs of a part that they do not fit into the memory for reading it."""
    check_size(_ROW_BYTES * rows + _PAIR_BYTES * pairs, MEMORY, f"reading {rows:,} rows and {pairs:,} pairs")


class Places:
    """The file and the line of each row, noted while the rows are read: not every line of a file is a row."""

    def __init__(self) -> None:
        self._lines = array("q")
        self._files: list[tuple[int, Path]] = []

    def note(self, rows: Iterable[Located]) -> Iterator[Row]:
        """Yield rows without their file and line, which replace those noted before."""
        del self._lines[:]
        self._files.clear()
        for path, line, row in rows:
            if not self._files or self._files[-1][1] != path:
                self._files.append((len(self._lines), path))
            self._lines.append(line)
            yield row

    def of(self, row: int) -> tuple[Path, int]:
        """The file and the line of a row."""
        first = bisect_right(self._files, row, key=itemgetter(0)) - 1
        return self._files[first][1], self._lines[row]
