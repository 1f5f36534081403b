"""Vectors of zeros and ones in place of lists of labels. One cell can be either: only the whole column tells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xmcbench.data.rows import at
from xmcbench.data.sources.records import Record

#: A cell of text that is a vector: with something between its digits, or bare, which could be the code of a label.
_DIVIDED, _BARE = re.compile(r"[01](?:[\s,|/]+[01])+"), re.compile(r"[01]{3,}")

_HINT = "give every row the labels at its ones; labels that are such codes need a table labels.csv with uid and title"


class Vectors:
    """Tells whether all cells of a column of labels are vectors of zeros and ones, of one length."""

    def __init__(self, column: str, has_table: bool) -> None:
        """has_table: the labels are the uids of a table, so that a bare row of digits is one of them."""
        self._column, self._has_table = column, has_table
        self._first: Record | None = None
        self._digits = ""
        self._is_vector, self._is_certain = True, False

    def add(self, record: Record, values: Sequence[object]) -> None:
        """Take the values of a cell; one without any says nothing."""
        if not self._is_vector or not values:
            return
        text = values[0] if len(values) == 1 and isinstance(values[0], str) else ""
        is_bare = not self._has_table and _BARE.fullmatch(text) is not None
        digits = text if is_bare else _digits(values)
        if self._first is None:
            self._first, self._digits = record, digits
        self._is_vector = len(digits) > 1 and len(digits) == len(self._digits)
        if is_bare:  # a number does not begin with a zero
            self._is_certain |= digits.startswith("0")
        else:  # labels are neither repeated nor in another order
            self._is_certain |= len({*digits}) < len(digits) or digits != self._digits

    def check(self) -> None:
        """Raise DataError where all cells are such vectors."""
        if self._first is not None and self._is_vector and self._is_certain:
            cell = str(self._first.cells[self._column])[:40]
            what = f"{self._column} is {cell!r}, a vector of {len(self._digits)} zeros and ones as in every row"
            raise at(self._first.path, self._first.line, f"{what}, not the labels", _HINT)


def _digits(values: Sequence[object]) -> str:
    """The zeros and ones that a cell consists of; empty where there is anything else in it."""
    if len(values) == 1 and isinstance(values[0], str) and _DIVIDED.fullmatch(values[0]):
        return re.sub("[^01]", "", values[0])
    digits = [str(value) for value in values]
    return "".join(digits) if {*digits} <= {"0", "1"} else ""
