"""What figures of all kinds share: what each must have, and the dagger of a line that has notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

#: Follows the name of a line with a mark.
DAGGER = "\u2020"


class Figure(Protocol):
    """What all kinds of figures have; ``figure`` draws them.

    stem: the name of its files. short: a title for a row of drawings. missing: what it lacks, one line each. marks:
    note -> the names of the lines that it is about.
    """

    @property
    def stem(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def short(self) -> str: ...

    @property
    def missing(self) -> tuple[str, ...]: ...

    @property
    def marks(self) -> Mapping[str, Sequence[str]]: ...


class WithoutNotes:
    """The base of figures that need no notes of their own: the table of the same rows has them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Empty: nothing is expected that is not drawn."""
        return ()

    @property
    def marks(self) -> Mapping[str, Sequence[str]]:
        """Empty: the notes are in the table."""
        return {}


class WithMarkedLines:
    """The base of figures whose lines have notes. lines: each ``Marked``."""

    lines: Sequence[Marked]

    @property
    def marks(self) -> Mapping[str, Sequence[str]]:
        """Note -> the names of the lines that it is about."""
        found: dict[str, list[str]] = {}
        for line in self.lines:
            for mark in line.marks:
                found.setdefault(mark, []).append(line.name)
        return found


class Marked:
    """The base of lines and points of a figure. name: of the row. marks: as of ``Row``."""

    name: str
    marks: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name, with a dagger if there are marks."""
        return f"{self.name}{DAGGER}" if self.marks else self.name
