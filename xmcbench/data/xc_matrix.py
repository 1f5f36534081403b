"""The sparse matrices of the Extreme Classification repository as text, plain or gzipped.

    matrix         header ``rows columns``, then one line per row: ``column:value column:value``; blank = an empty row

All ids are 0-based; a byte-order mark is no part of the text. Blocks of lines are parsed by Arrow's CSV reader; a block
that it rejects is read again line by line, to find the offending line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from xmcbench.data.compression import atomic_gzip, lines, open_source, whole_lines
from xmcbench.data.rows import at, lone_return, unmarked
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted
from xmcbench.storage.memory import bounded_memory

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

#: Bytes of text parsed at a time.
_BLOCK = 16 << 20

#: Rows converted to text at a time.
_ROWS = 65_536

_NEWLINE, _SPACE = 10, 32

#: Values are kept as float32.
_LARGEST = float(np.finfo(np.float32).max)

_ID = re.compile(rb"[0-9]{1,18}")


class _Irregular(Exception):
    """A block is not in the simple form that the fast parser accepts."""


def read_matrix(path: Path) -> csr_matrix:
    """Read a matrix: CSR float32 [rows, columns], column ids ascending.

    Raises DataError with file and line for a malformed entry, a column out of range or twice in a row, a value that is
    not a finite number, and a number of rows that differs from the header.
    """
    with bounded_memory(path), open_source(path) as stream:
        rows, columns = _header(path, next(lines(stream), b""), ("rows", "columns"))
        blocks = [
            _parse(path, block, columns, line) for line, block in _blocks(stream, path, rows, f"{rows} {columns}")
        ]
        return _assemble(path, blocks, rows, columns)


def _header(path: Path, line: bytes, names: tuple[str, ...]) -> list[int]:
    parts = unmarked(line).split()
    if len(parts) != len(names) or not all(_ID.fullmatch(part) for part in parts):
        shown = line.decode(errors="replace").strip()[:40]
        raise at(path, 1, f"the header is {shown!r}", f"it must hold the numbers of {', '.join(names)}")
    sizes = [int(part) for part in parts]
    for size, name in zip(sizes, names, strict=True):
        if size > np.iinfo(np.int32).max:
            raise at(path, 1, f"the header says {size} {name}", f"there can be {np.iinfo(np.int32).max} at most")
    return sizes


def _blocks(stream: BinaryIO, path: Path, rows: int, header: str) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, each ended by a newline, with the number of the first; checks the number of lines."""
    line = 2
    for block in whole_lines(stream, _BLOCK):
        _check_line_ends(path, block, line)
        yield line, block
        line += block.count(b"\n")
    if line - 2 != rows:
        raise DataError(
            f"{path} has {counted(line - 2, 'row')}, but its header {header!r} says {rows}",
            "is the file truncated? an empty row must be a blank line",
        )


def _check_line_ends(path: Path, block: bytes, line: int) -> None:
    """Refuse a carriage return within a line, which Arrow takes for the end of the line."""
    if block.count(b"\r") > block.count(b"\r\n"):
        for number, text in enumerate(block.split(b"\n"), line):
            if b"\r" in text.rstrip(b"\r"):
                raise lone_return(path, number)


#: Entries per row, then the concatenated column ids and values of all rows.
_Parsed = tuple[np.ndarray, np.ndarray, np.ndarray]


def _parse(path: Path, block: bytes, columns: int, line: int) -> _Parsed:
    try:
        return _parse_at_once(block, columns)
    except _Irregular:
        return _parse_by_line(path, block, columns, line)


def _parse_at_once(block: bytes, columns: int) -> _Parsed:
    import pyarrow as pa

    buffer = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(buffer == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    spaces = np.searchsorted(np.flatnonzero(buffer == _SPACE), ends)
    lengths = np.where(ends > starts, np.diff(spaces, prepend=0) + 1, 0)
    if not lengths.sum():
        return lengths, np.zeros(0, np.int32), np.zeros(0, np.float32)
    types = {"column": pa.int32(), "value": pa.float32()}
    entries = _columns_of(block.replace(b" ", b"\n"), ":", types)
    # Two spaces in a row, or one at the end, make fewer entries than counted.
    indices, values = (entries[name].to_numpy() for name in ("column", "value"))
    if len(indices) != lengths.sum() or indices.min() < 0 or indices.max() >= columns or not np.isfinite(values).all():
        raise _Irregular
    return lengths, indices, values


def _columns_of(text: bytes, delimiter: str, types: dict[str, object]) -> pa.Table:
    """Delimited numbers as an Arrow table. Raises _Irregular for whatever is not of these types."""
    import pyarrow as pa
    from pyarrow import csv

    if b"x" in text or b"X" in text:  # Arrow would read 0x1f as a number
        raise _Irregular
    try:
        return csv.read_csv(
            pa.BufferReader(text),
            # One block needs no threads, and threads of Arrow that outlive the interpreter can abort the process.
            csv.ReadOptions(use_threads=False, column_names=list(types), block_size=_BLOCK),
            csv.ParseOptions(delimiter=delimiter, quote_char=False),
            csv.ConvertOptions(column_types=types, null_values=[]),
        )
    except pa.ArrowInvalid:
        raise _Irregular from None


def _parse_by_line(path: Path, block: bytes, columns: int, line: int) -> _Parsed:
    lengths, indices, values = [], [], []
    for number, text in enumerate(block.split(b"\n")[:-1], line):
        entries = text.split()
        lengths.append(len(entries))
        for entry in entries:
            column, _, value = entry.partition(b":")
            indices.append(_in_range(path, number, column, columns, "column"))
            values.append(_finite(path, number, entry, value))
    return np.array(lengths, np.int64), np.array(indices, np.int32), np.array(values, np.float32)


def _in_range(path: Path, line: int, text: bytes, limit: int, what: str) -> int:
    if not _ID.fullmatch(text):
        raise at(path, line, f"{text.decode(errors='replace')[:40]!r} is not a {what} number", "0-based integers")
    if int(text) >= limit:
        raise at(path, line, f"{what} {int(text)} is out of range", f"there are {limit}: 0..{limit - 1}")
    return int(text)


def _finite(path: Path, line: int, entry: bytes, text: bytes) -> float:
    try:
        value = math.nan if b"_" in text else float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:  # NaN too
        raise at(
            path,
            line,
            f"{entry.decode(errors='replace')[:40]!r} is not an entry",
            "expected column:value with a finite value",
        )
    return value


def _assemble(path: Path, blocks: list[_Parsed], rows: int, columns: int) -> csr_matrix:
    from scipy.sparse import csr_matrix

    empty = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    lengths, indices, values = (np.concatenate(part) for part in zip(empty, *blocks, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    if len(indices) < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    matrix = csr_matrix((values.astype(np.float32), indices.astype(np.int32), indptr), shape=(rows, columns))
    matrix.sort_indices()
    twice = np.flatnonzero(matrix.indices[1:] == matrix.indices[:-1]) + 1
    # Equal neighbors only count within a row: if the second does not start a row.
    twice = twice[~np.isin(twice, matrix.indptr)]
    if len(twice):
        row = int(np.searchsorted(matrix.indptr, twice[0], "right")) - 1
        raise at(path, row + 2, f"column {matrix.indices[twice[0]]} is given more than once in the row", "give it once")
    return matrix


def write_matrix(path: Path, matrix: csr_matrix) -> None:
    """Write a matrix, gzipped where the name ends in .gz; ``read_matrix`` gives back the same float32 values."""
    with atomic_gzip(path) as stream:
        stream.write(b"%d %d\n" % matrix.shape)
        for entries in _row_texts(matrix, lambda part: np.char.add(":", part.data.astype(np.float32).astype(str))):
            stream.write((" ".join(entries) + "\n").encode())


def _row_texts(matrix: csr_matrix, suffix: Callable[[csr_matrix], np.ndarray]) -> Iterator[list[str]]:
    for start in range(0, matrix.shape[0], _ROWS):
        part = matrix[start : start + _ROWS]
        texts = np.char.add(part.indices.astype(str), suffix(part)).tolist() if part.nnz else []
        for first, end in zip(part.indptr[:-1], part.indptr[1:], strict=True):
            yield texts[first:end]


def read_filter(path: Path, rows: int, columns: int) -> csr_matrix:
    """Read a filter file, one ``document label`` per line, without a header: a binary CSR matrix, float32 [rows,
    columns].

    An empty file is an empty filter; a repeated pair counts once. Raises DataError with file and line for a
    malformed line and for ids out of range.
    """
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    documents, labels, line = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 1
    with bounded_memory(path), open_source(path) as stream:
        for part in whole_lines(stream, _BLOCK):
            block = unmarked(part) if line == 1 else part
            _check_line_ends(path, block, line)
            try:
                table = _columns_of(block, " ", {"document": pa.int64(), "label": pa.int64()})
                pair = [table[name].to_numpy() for name in ("document", "label")]
                inside = [(ids >= 0) & (ids < limit) for ids, limit in zip(pair, (rows, columns), strict=True)]
                if len(pair[0]) != block.count(b"\n") or not (inside[0] & inside[1]).all():
                    raise _Irregular
            except _Irregular:
                pair = _pairs_by_line(path, block, rows, columns, line)
            documents.append(pair[0])
            labels.append(pair[1])
            line += block.count(b"\n")
        keys = np.unique(np.concatenate(documents) * columns + np.concatenate(labels))
        at_row, at_column = np.divmod(keys, max(1, columns))
        return csr_matrix((np.ones(len(keys), np.float32), (at_row, at_column)), shape=(rows, columns))


def _pairs_by_line(path: Path, block: bytes, rows: int, columns: int, line: int) -> list[np.ndarray]:
    pairs = []
    for number, text in enumerate(block.split(b"\n")[:-1], line):
        parts = text.split()
        if parts and len(parts) != 2:
            raise at(
                path,
                number,
                f"{text.decode(errors='replace')[:40]!r} is not a pair",
                "expected document and label, separated by a space",
            )
        if parts:
            document = _in_range(path, number, parts[0], rows, "document")
            pairs.append((document, _in_range(path, number, parts[1], columns, "label")))
    return [np.array(ids, np.int64) for ids in zip(*pairs, strict=True)] or [np.zeros(0, np.int64)] * 2


def write_filter(path: Path, pairs: csr_matrix) -> None:
    """Write a filter file, gzipped where the name ends in .gz; documents and labels ascending."""
    documents = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    with atomic_gzip(path) as stream:
        for document, label in zip(documents.tolist(), pairs.indices.tolist(), strict=True):
            stream.write(b"%d %d\n" % (document, label))
