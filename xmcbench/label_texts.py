"""Texts of labels, and what else labels carry: alternative names, a content, and the labels above them.

The text of a label is its title, whatever else it carries: a method reads the rest only where it asks for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from xmcbench import arrow
from xmcbench.texts import Column, Texts, text_digest

if TYPE_CHECKING:
    import pyarrow as pa

#: The details of a label: its other names, its content, and the uids of broader labels.
Details = tuple[Sequence[str], str, Sequence[str]]
#: The columns of details. A table lacks those in which no label has anything.
COLUMNS = ("alternatives", "description", "parents")


class Lists(Sequence[tuple[str, ...]]):
    """A column of lists of texts, read-only."""

    def __init__(self, array: pa.ChunkedArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, index: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return tuple(self._array[index].as_py())

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        for chunk in self._array.chunks:
            yield from map(tuple, chunk.to_pylist())


class LabelTexts(Texts):
    """The texts of labels, which are their titles, with ``alternatives``, ``contents`` and ``parents`` beside them."""

    @classmethod
    def with_details(cls, titles: Sequence[str], details: Sequence[Details], uids: Sequence[str]) -> LabelTexts:
        """Return labels in memory. Raises UsageError for a title or a uid that is not text."""
        plain = Texts.from_lists(titles, uids=uids)._table
        for name, column in details_table(details).items():
            plain = plain.append_column(name, column)
        return cls(without_empty(plain))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Texts: ...
    def __getitem__(self, index: int | slice) -> str | Texts:
        found = super().__getitem__(index)
        return found if isinstance(found, str | LabelTexts) else LabelTexts(found._table)

    def take(self, rows: np.ndarray) -> LabelTexts:
        """Return a copy of the labels at ``rows`` (int array), in this order."""
        return LabelTexts(self._table.take(rows))

    @property
    def contents(self) -> Column:
        """Content of every label, such as a definition: no part of its text."""
        return Column(self._table["description"]) if "description" in self.details else super().contents

    @property
    def alternatives(self) -> Sequence[tuple[str, ...]]:
        """Other names of every label."""
        return Lists(self._table["alternatives"]) if "alternatives" in self.details else [()] * len(self)

    @property
    def parents(self) -> Sequence[tuple[str, ...]]:
        """Uids of the labels that are broader than each."""
        return Lists(self._table["parents"]) if "parents" in self.details else [()] * len(self)

    @property
    def details(self) -> dict[str, pa.ChunkedArray]:
        """The columns of details in which some label has something, as Arrow arrays."""
        return {name: self._table[name] for name in COLUMNS if name in self._table.column_names}

    def titles_only(self) -> Texts:
        """Return the labels without details."""
        return Texts(self._table.drop_columns([*self.details])) if self.details else self

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of titles and details; without details, that of the titles."""
        if not self._digest:
            self._digest = label_digest(self._table)
        return self._digest

    def intact(self) -> bool:
        """Return whether the content still has the digest that was stored with it. Reads everything."""
        return label_digest(self._table) == self.digest


def details_table(details: Sequence[Details]) -> dict[str, pa.Array]:
    """Return the columns of details."""
    import pyarrow as pa

    types = column_types()
    columns = zip(*details, strict=True) if details else ((), (), ())
    return {name: pa.array(column, types[name]) for name, column in zip(COLUMNS, columns, strict=True)}


def column_types() -> dict[str, pa.DataType]:
    """Return the types of the columns of details."""
    import pyarrow as pa

    lists = pa.large_list(pa.large_string())
    return dict(zip(COLUMNS, (lists, pa.large_string(), lists), strict=True))


def without_empty(table: pa.Table) -> pa.Table:
    """Return a table of labels without the columns of details that hold nothing."""
    import pyarrow.compute as pc

    held = [name for name in COLUMNS if name in table.column_names]
    lengths = {name: pc.list_value_length if name != "description" else pc.binary_length for name in held}
    return table.drop_columns([name for name in held if not pc.any(pc.greater(lengths[name](table[name]), 0)).as_py()])


def label_digest(table: pa.Table) -> str:
    """Return the SHA-256 of titles and details; without details, that of the titles.

    Where labels have parents, it covers the uids too, which say which labels these are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [text_digest(table)]
    names = [name for name in COLUMNS if name in table.column_names]
    for name in [*names, "uid"] if "parents" in names else names:
        column = table[name]
        if name in ("alternatives", "parents"):
            lengths = arrow.to_numpy(pc.list_value_length(column).combine_chunks())
            parts.append(hashlib.sha256(lengths.astype("<i8").tobytes()).hexdigest())
            column = pc.list_flatten(column)
        parts += [name, text_digest(pa.table({"title": column, "content": column}))]
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
