"""Columns of labels that hold something else: vectors of zeros and ones, or lists with another separator.

One cell can be either: only the whole column tells.
"""

from __future__ import annotations

import re

from xmcbench.data.sources.records import Record

#: The least number of cells with a comma, and none with the separator, that a note is about.
_COMMAS = 10

#: A cell of text that is a vector: with something between its digits, or bare, which could be the code of a label.
_DIVIDED, _BARE = re.compile(r"[01](?:[\s,|/]+[01])+"), re.compile(r"[01]{3,}")


class LabelColumn:
    """The cells of a column of labels, counted while they are read. has_table: they are uids of a table."""

    def __init__(self, name: str, separator: str, has_table: bool) -> None:
        self._name, self._separator, self._has_table = name, separator, has_table
        self._texts = self._divided = self._commas = 0
        self._first: Record | None = None
        self._digits = ""
        self._is_vector, self._is_certain = True, False

    def add(self, record: Record) -> None:
        """Count a cell."""
        cell = record.cells.get(self._name)
        text = cell if isinstance(cell, str) and not cell.lstrip().startswith("[") else ""
        is_text = bool(text.strip())
        self._texts += is_text
        self._divided += is_text and self._separator in text
        self._commas += is_text and "," in text
        values = record.values(self._name, self._separator)
        if not (self._is_vector and values):
            return
        only = values[0] if len(values) == 1 and isinstance(values[0], str) else ""
        is_bare = not self._has_table and _BARE.fullmatch(only) is not None
        if is_text and _DIVIDED.fullmatch(only):
            digits = re.sub("[^01]", "", only)
        else:
            digits = "".join(map(str, values)) if {*map(str, values)} <= {"0", "1"} or is_bare else ""
        if self._first is None:
            self._first, self._digits = record, digits
        self._is_vector = len(digits) > 1 and len(digits) == len(self._digits)
        if is_bare:  # a number does not begin with a zero
            self._is_certain |= digits.startswith("0")
        else:  # labels are neither repeated nor in another order
            self._is_certain |= len({*digits}) < len(digits) or digits != self._digits

    def check(self) -> None:
        """Raise DataError where all cells are vectors of zeros and ones, of one length."""
        if self._first is not None and self._is_vector and self._is_certain:
            cell = str(self._first.cells[self._name])[:40]
            what = f"a vector of {len(self._digits)} zeros and ones as in every row, not the labels"
            hint = "labels that are such codes need a table labels.csv with uid and title"
            raise self._first.error(
                f"{self._name} is {cell!r}, {what}", f"give every row the labels at its ones; {hint}"
            )

    def note(self, file: str) -> list[str]:
        """A note where commas seem to separate the labels, and the separator does not."""
        if self._divided or self._commas < max(_COMMAS, self._texts / 2):
            return []
        return [
            f"no cell of {self._name} in {file} has the separator {self._separator!r}, and {self._commas:,} of "
            f"{self._texts:,} have a comma; where commas separate labels, add ?separator=, to the place"
        ]
