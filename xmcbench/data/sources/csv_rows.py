"""Delimited text, quoted (CSV) or not (TSV), one row at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from xmcbench.data.compression import lines, open_source
from xmcbench.data.rows import at, decoded, lone_return
from xmcbench.output.quantities import counted
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.reading import LINE, raised

_NO_QUOTES = "cells of a TSV file are read as they are: write it without quotes, or as .csv"


def read_csv(path: Path, delimiter: str) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, column -> cell) of every row below the header. A tab as the delimiter means: no quotes.

    Raises DataError with file and line for a row that has more or fewer cells than the header, a column that is named
    twice, and text that is not UTF-8.
    """
    csv.field_size_limit(raised(LINE))  # of the whole process; the default is 128 KiB
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    with open_source(path) as stream:
        texts = _Texts(path, stream)
        rows = csv.reader(texts, delimiter=delimiter, quoting=quoting, strict=True)
        header: list[str] = []
        try:
            for row in rows:
                if not row:
                    continue  # a blank line
                if not header:
                    header = row
                    if len({*header}) < len(header):
                        raise at(path, texts.line, "a column is named twice", "every column needs its own name")
                    continue
                if len(row) != len(header):
                    raise at(path, texts.line, f"has {counted(len(row), 'cell')}", f"the header has {len(header)}")
                if quoting == csv.QUOTE_NONE and (quoted := next(filter(_quoted, row), "")):
                    raise at(path, texts.line, f"has the cell {quoted[:40]}, which is quoted as in CSV", _NO_QUOTES)
                yield texts.line, dict(zip(header, row, strict=True))
        except csv.Error as error:
            if "new-line character" in str(error):  # a carriage return that no line feed follows
                raise lone_return(path, texts.line) from None
            if quoting == csv.QUOTE_NONE:
                raise at(path, texts.line, f"is not TSV: {error}") from None
            hint = "a cell that begins with a quotation mark ends with one; within it, quotation marks are doubled"
            raise at(path, texts.line, f"is not CSV: {error}", hint) from None


def _quoted(cell: str) -> bool:
    """Whether a cell of TSV is written as in CSV, with quotation marks in it that are doubled."""
    inner = cell[1:-1]
    return cell[:1] == cell[-1:] == '"' and '""' in inner and '"' not in inner.replace('""', "")


class _Texts:
    """Lines as text; ``line`` is the number of the last one. A quoted cell may span several."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self._path, self._lines, self.line = path, lines(stream), 0

    def __iter__(self) -> _Texts:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.line += 1
        return decoded(self._path, self.line, line)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write CSV with every cell in quotes, so that any text can be held."""
    with atomic_file(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()
