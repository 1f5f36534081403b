"""The sparse matrices of the Extreme Classification repository as text, plain or gzipped.

    matrix         header ``rows columns``, then one line per row: ``column:value column:value``; blank = an empty row
    filter         one pair per line: ``document label``

All ids are 0-based; a byte-order mark is no part of the text.
"""

from __future__ import annotations

import re
from array import array
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.data.text_files import at, atomic_gzip, parse_finite, read_lines
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count
from xmcbench.storage.reading import bounded_memory

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Values are kept as float32, and ids as int32.
_LARGEST, _MOST = 3.4028235e38, np.iinfo(np.int32).max

_ID = re.compile(r"[0-9]{1,18}")


def read_matrix(path: Path) -> csr_matrix:
    """Read a matrix: CSR float32 [rows, columns], column ids ascending. Raises DataError with file and line."""
    from scipy.sparse import csr_matrix

    with bounded_memory(path):
        lines = read_lines(path)
        _, header = next(lines, (1, ""))
        sizes = header.split()
        if len(sizes) != 2 or not all(map(_ID.fullmatch, sizes)):
            raise at(path, 1, f"the header is {header.strip()[:40]!r}", "it must hold the numbers of rows and columns")
        rows, columns = map(int, sizes)
        if max(rows, columns) > _MOST:
            what = f"the header says {max(rows, columns)} rows or columns"
            raise at(path, 1, what, f"there can be {_MOST} at most")
        indices, values, indptr = array("i"), array("f"), array("q", [0])
        for number, line in lines:
            for entry in line.split():
                column, _, text = entry.partition(":")
                indices.append(_read_id(path, number, column, columns, "column"))
                value = None if "_" in text else parse_finite(text)
                if value is None or abs(value) > _LARGEST:
                    hint = "expected column:value with a finite value"
                    raise at(path, number, f"{entry[:40]!r} is not an entry", hint)
                values.append(value)
            indptr.append(len(indices))
        if len(indptr) - 1 != rows:
            what = f"{path} has {format_count(len(indptr) - 1, 'row')}, but its header '{rows} {columns}' says {rows}"
            raise DataError(what, "is the file truncated? an empty row must be a blank line")
        parts = (np.array(values, np.float32), np.array(indices, np.int32), np.array(indptr, np.int64))
        matrix = csr_matrix(parts, shape=(rows, columns))
        matrix.sort_indices()
    # Equal neighbors count within a row only: if the second does not start a row.
    twice = np.setdiff1d(np.flatnonzero(matrix.indices[1:] == matrix.indices[:-1]) + 1, matrix.indptr)
    if len(twice):
        row = int(np.searchsorted(matrix.indptr, twice[0], "right")) - 1
        raise at(path, row + 2, f"column {matrix.indices[twice[0]]} is given more than once in the row", "give it once")
    return matrix


def _read_id(path: Path, line: int, text: str, limit: int, what: str) -> int:
    if not _ID.fullmatch(text):
        raise at(path, line, f"{text[:40]!r} is not a {what} number", "0-based integers")
    if int(text) >= limit:
        raise at(path, line, f"{what} {int(text)} is out of range", f"there are {limit}: 0..{limit - 1}")
    return int(text)


def write_matrix(path: Path, matrix: csr_matrix) -> None:
    """Write a matrix, gzipped where the name ends in .gz; ``read_matrix`` gives back the same float32 values."""
    distinct, places = np.unique(matrix.data.astype(np.float32), return_inverse=True)
    texts = distinct.astype(str).tolist()
    with atomic_gzip(path) as stream:
        stream.write(b"%d %d\n" % matrix.shape)
        for first, end in pairwise(matrix.indptr.tolist()):
            entries = zip(matrix.indices[first:end].tolist(), places[first:end].tolist(), strict=True)
            stream.write((" ".join(f"{column}:{texts[place]}" for column, place in entries) + "\n").encode())


def read_filter(path: Path, rows: int, columns: int) -> csr_matrix:
    """Read a filter file: a binary CSR matrix, float32 [rows, columns]; repeated pairs count once. Raises DataError."""
    from scipy.sparse import csr_matrix

    documents, labels = array("q"), array("q")
    with bounded_memory(path):
        for number, line in read_lines(path):
            ids = line.split()
            if ids and len(ids) != 2:
                hint = "expected document and label, separated by a space"
                raise at(path, number, f"{line[:40]!r} is not a pair", hint)
            if ids:
                documents.append(_read_id(path, number, ids[0], rows, "document"))
                labels.append(_read_id(path, number, ids[1], columns, "label"))
        keys = np.unique(np.array(documents, np.int64) * columns + np.array(labels, np.int64))
        pairs = np.divmod(keys, max(1, columns))
        return csr_matrix((np.ones(len(keys), np.float32), pairs), shape=(rows, columns))


def write_filter(path: Path, pairs: csr_matrix) -> None:
    """Write a filter file, gzipped where the name ends in .gz; documents and labels ascending."""
    documents = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    with atomic_gzip(path) as stream:
        for document, label in zip(documents.tolist(), pairs.indices.tolist(), strict=True):
            stream.write(b"%d %d\n" % (document, label))
