"""Raw text of instances or labels: a read-only, memory-mapped sequence of strings.

The text of a row is its title, or title + TAB + content where there is a content (the convention of the MACLR
archive). Rows are in an Arrow IPC file that is mapped, not read: slices are views, and a corpus of 1.8M documents
creates no Python strings until they are used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from xmcbench import arrow
from xmcbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

#: Rows and bytes that are turned into text at a time when streaming.
BATCH, _BYTES = 65_536, 1 << 26


class Column(Sequence[str]):
    """One column of a corpus as a read-only sequence of strings; slices are views."""

    def __init__(self, array: pa.ChunkedArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Column: ...
    def __getitem__(self, index: int | slice) -> str | Column:
        if isinstance(index, slice):
            start, length = _view(index, len(self))
            return Column(self._array.slice(start, length))
        return str(self._array[_position(index, len(self))].as_py())

    def __iter__(self) -> Iterator[str]:
        for start, length in _parts([self._array], BATCH):
            yield from self._array.slice(start, length).to_pylist()

    def to_arrow(self) -> pa.ChunkedArray:
        """Return the column as Arrow ``large_string`` (no copy)."""
        return self._array


class Texts(Sequence[str]):
    """A read-only sequence of texts with ``titles``, ``contents`` and ``uids`` columns.

    ``texts[i]`` is a ``str``; ``texts[a:b]`` is a view. For labels ``contents`` holds empty strings.
    """

    def __init__(self, table: pa.Table, digest: str = "") -> None:
        self._table = table
        self._digest = digest

    @classmethod
    def from_lists(
        cls, titles: Iterable[str], contents: Iterable[str] | None = None, uids: Iterable[str] | None = None
    ) -> Texts:
        """Return a corpus in memory. ``contents`` default to empty, ``uids`` to the row numbers.

        Raises UsageError, naming the row, for a value that is not text, and for columns of different lengths; and for
        a dict or a table instead of a list.
        """
        import pyarrow as pa

        titles = _list(titles)
        columns = {
            "uid": _list(uids) if uids is not None else [str(row) for row in range(len(titles))],
            "title": titles,
            "content": _list(contents) if contents is not None else [""] * len(titles),
        }
        for name, values in columns.items():
            _check_strings(name, values)
            if len(values) != len(titles):
                raise UsageError(f"there are {len(titles)} titles and {len(values)} {name}s", "give one for each text")
        return cls(pa.table({name: pa.array(values, pa.large_string()) for name, values in columns.items()}))

    @classmethod
    def of(cls, texts: Texts | Iterable[str]) -> Texts:
        """Return a list of strings as texts without contents; texts as they are. Raises as ``from_lists``."""
        return texts if isinstance(texts, Texts) else cls.from_lists(texts)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the Arrow IPC file at ``path`` (columns uid, title, content)."""
        import pyarrow as pa

        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(
                f"cannot read the text store {path}: {error}", "delete its folder: it will be regenerated"
            ) from error
        return cls(table, (table.schema.metadata or {}).get(b"digest", b"").decode())

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Texts: ...
    def __getitem__(self, index: int | slice) -> str | Texts:
        if isinstance(index, slice):
            start, length = _view(index, len(self))
            return self if length == len(self) else Texts(self._table.slice(start, length))
        row = _position(index, len(self))
        title, content = self._table["title"][row].as_py(), self._table["content"][row].as_py()
        return f"{title}\t{content}" if content else str(title)

    def __iter__(self) -> Iterator[str]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def batches(self, rows: int = BATCH) -> Iterator[pa.Array]:
        """Yield the texts as Arrow ``large_string`` arrays: native code needs no Python strings.

        An array has at most ``rows`` rows, and fewer where they have more than 64 MiB.
        """
        import pyarrow.compute as pc

        for start, length in _parts([self._table["title"], self._table["content"]], rows):
            part = self._table.slice(start, length)
            title, content = part["title"].combine_chunks(), part["content"].combine_chunks()
            empty = pc.equal(content, arrow.scalar(""))
            if pc.all(empty).as_py():
                yield title
            else:
                joined = pc.binary_join_element_wise(title, content, arrow.scalar("\t"))
                yield pc.if_else(empty, title, joined)

    def take(self, rows: np.ndarray) -> Texts:
        """Return a copy of the texts at ``rows`` (int array), in this order."""
        return Texts(self._table.take(rows))

    @property
    def titles(self) -> Column:
        """Title of every row."""
        return Column(self._table["title"])

    @property
    def contents(self) -> Column:
        """Content of every row; empty strings where a row has a title only."""
        return Column(self._table["content"])

    @property
    def uids(self) -> Column:
        """Identifier of every row, as in the source."""
        return Column(self._table["uid"])

    def intact(self) -> bool:
        """Return whether the content still has the digest that was stored with it. Reads everything."""
        return text_digest(self._table) == self.digest

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of titles and contents: the identity of the texts for a method, whatever the file layout."""
        if not self._digest:
            self._digest = text_digest(self._table)
        return self._digest


def text_digest(table: pa.Table) -> str:
    """Return the SHA-256 over the lengths and the bytes of the columns title and content."""
    import pyarrow.compute as pc

    hashes = []
    for name in ("title", "content"):
        lengths, content = hashlib.sha256(), hashlib.sha256()
        for chunk in table[name].chunks:
            if len(chunk):
                sizes = arrow.to_numpy(pc.binary_length(chunk))
                lengths.update(sizes.astype("<i8").tobytes())
                _, offsets, values = chunk.buffers()
                if values is not None:
                    first = np.frombuffer(offsets, np.int64)[chunk.offset]
                    content.update(memoryview(values)[first : first + int(sizes.sum())])
        hashes += [lengths.hexdigest(), content.hexdigest()]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def _parts(columns: Sequence[pa.ChunkedArray], rows: int) -> Iterator[tuple[int, int]]:
    """Yield the blocks of rows that are read at a time: the first row, and how many. One row may be any size."""
    import pyarrow.compute as pc

    for start in range(0, len(columns[0]), rows):
        sizes = sum(arrow.to_numpy(pc.binary_length(column.slice(start, rows)).combine_chunks()) for column in columns)
        ends, first = np.cumsum(sizes), 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            after = max(first + 1, int(np.searchsorted(ends, before + _BYTES, side="right")))
            yield start + first, after - first
            first = after


def _list(values: Iterable[str]) -> list[str]:
    if isinstance(values, Mapping) or hasattr(values, "columns"):  # their keys and the names of their columns
        kind = type(values).__name__
        raise UsageError(f"an object of type {kind} is no list of texts", 'pass one column of it: df["text"]')
    return list(values)


def _check_strings(name: str, values: Sequence[object]) -> None:
    for row, value in enumerate(values):
        if not isinstance(value, str):
            hint = 'an empty text is "": pandas has fillna("")'
            raise UsageError(f"the {name} of row {row} is not text, but of type {type(value).__name__}", hint)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the {name} of row {row} has a character that no UTF-8 text has: {value[:60]!a}",
                'read the file with errors="replace"',
            ) from None


def _view(index: slice, length: int) -> tuple[int, int]:
    start, stop, step = index.indices(length)
    if step != 1:
        raise ValueError("slices must have a step of 1; use take() for other rows")
    return start, max(0, stop - start)


def _position(index: int, length: int) -> int:
    position = index + length if index < 0 else index
    if not 0 <= position < length:
        raise IndexError(f"row {index} of {length}")
    return position
