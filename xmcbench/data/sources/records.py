"""Rows of tables and of JSON Lines as records: cells by column, with the file and the line that errors name."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from xmcbench.data import text_files
from xmcbench.data.text_files import at, atomic_gzip, number_lines, strip_marks, suffix_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.reading import FLAG, LINE, raise_limit

#: The tables that are read, by suffix; those of text also gzipped. Arrow files are what `datasets` keeps.
_TEXT = (".csv", ".tsv", ".jsonl", ".json")
SUFFIXES = (*_TEXT, ".parquet")
ARROW = ".arrow"
#: The endings of their names.
ENDINGS = (*(f"{suffix}{packed}" for suffix in _TEXT for packed in ("", ".gz")), ".parquet")
#: Bytes of a JSON array, which is read as a whole.
_ARRAY = 256 << 20
#: A tuple, set, dictionary or array as Python prints it. A label may be in parentheses, but no quotation marks or lists
#: of numbers are directly within them.
_PRINTED = re.compile(
    r"""\(\s*+(['"].*['"]\s*+,?\s*+|-?\d+\s*,[\d\s,.-]*+|)\)"""
    r"""|\{.*\}"""
    r"""|(frozenset|set|array|deque|Index|dict_keys|dict_values)\(([\[{(].*)?\)""",
    re.DOTALL,
)
#: A cell as in CSV, with quotation marks in it that are doubled.
_QUOTED = re.compile(r'"[^"]*(""[^"]*)+"')
#: The code of a row without a label, in Hugging Face `datasets`.
_NO_LABEL = -1
_OBJECTS = "expected one JSON object per line"


class Record(NamedTuple):
    """A row of a table. line: of the text file, or the number of the row, from 1. names: of coded labels."""

    path: Path
    line: int
    cells: Mapping[str, object]
    names: Mapping[str, tuple[str, ...]] = {}

    def error(self, what: str, hint: str = "") -> DataError:
        """The error of this row."""
        return at(self.path, self.line, what, hint)

    def text(self, column: str | None, required: bool = False) -> str:
        """The text in a column: an integer's digits, an empty text for nothing. Raises DataError if one is required."""
        value = self._cell(column)
        if value is None and required:
            raise self.error(f"{column} is missing", f'a row looks like {{"{column}": "...", ...}}')
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str | None):
            raise self.error(f"{column} is {str(value)[:40]!r}, not a text", "texts or integers")
        return value or ""

    def labels(self, column: str | None, separator: str) -> list[str]:
        """The labels in a column: the names of its values. Raises DataError for neither a text nor an integer."""
        found, names = [], self.names.get(column or "", ())
        for value in self.values(column, separator):
            if isinstance(value, int) and not isinstance(value, bool):
                if names and value == _NO_LABEL:
                    continue
                if names and not 0 <= value < len(names):
                    raise self.error(f"{column} has the code {value}", f"the names are those of 0 to {len(names) - 1}")
                found.append(names[value] if names else str(value))
            elif isinstance(value, str):
                found.append(value)
            else:
                hint = "texts or integers; of a vector of zeros and ones, the labels at its ones"
                raise self.error(f"{column} has {str(value)[:40]!r}, which is not a label", hint)
        return found

    def values(self, column: str | None, separator: str) -> list[object]:
        """The values in a column: a list, a JSON list as text, or a text with a separator. Raises DataError."""
        value = self._cell(column)
        if isinstance(value, list):
            return [self._decode(column, item) for item in value]
        if not isinstance(value, str):
            return [] if value is None else [value]
        text = value.strip()
        if text.startswith("["):
            with suppress(ValueError, RecursionError):
                return list(json.loads(text))
        # A list as Python or numpy prints it, or one that was cut off. Taken as a label, nobody would notice.
        is_list = text.startswith("[") and (text.endswith("]") or text[1:].lstrip().startswith(("'", '"')))
        if is_list or _PRINTED.fullmatch(text):
            hint = f'write ["a", "b"] or a{separator}b; a single label in brackets is ["[a]"]'
            raise self.error(f"{column} is {text[:40]!r}, which is not a JSON list", hint)
        return [word for part in value.split(separator) if (word := part.strip())]

    def _cell(self, column: str | None) -> object:
        """The value in a column; nothing without one: a column may have the empty name, as the index of pandas has."""
        return None if column is None else self._decode(column, self.cells.get(column))

    def _decode(self, column: str | None, value: object) -> object:
        """Return a value, or the text that bytes are: some programs write Parquet files without the type of texts."""
        try:
            return value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            raise self.error(f"{column} is not UTF-8", "expected texts or integers") from None


def read_records(paths: Iterable[Path], columns: Iterable[str] = ()) -> Iterator[Record]:
    """The rows of tables, one file after the other, with at least these columns where a table has them."""
    wanted = frozenset(columns)
    readers: dict[str, Callable[[Path], Iterator[Record]]]
    readers = {".csv": read_csv, ".tsv": partial(read_csv, delimiter="\t"), ".jsonl": read_objects, ".json": _read_json}
    for path in paths:
        if reader := readers.get(suffix_of(path)):
            yield from reader(path)
        else:
            from xmcbench.data.sources.arrow_tables import read_table

            for row, (cells, names) in enumerate(read_table(path, wanted), 1):
                yield Record(path, row, cells, names)


def read_csv(path: Path, delimiter: str = ",") -> Iterator[Record]:
    """Every row below the header of delimited text; without quotes where a tab is the delimiter. Raises DataError."""
    limit = raise_limit(LINE)
    csv.field_size_limit(limit)  # of the whole process; the default is 128 KiB
    is_tsv, line = delimiter == "\t", 0
    quoting: Literal[0, 3] = csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL

    def texts() -> Iterator[str]:
        nonlocal line  # a quoted cell may span several
        for number, text in number_lines(path):
            line = number
            yield text

    header: list[str] = []
    try:
        for row in csv.reader(texts(), delimiter=delimiter, quoting=quoting, strict=True):
            if not row:
                continue  # a blank line
            if not header:
                header = row
                if len({*header}) < len(header):
                    raise at(path, line, "a column is named twice", "every column needs its own name")
                continue
            if len(row) != len(header):
                hint = f"the header has {len(header)}{note_division(header, path)}"
                raise at(path, line, f"has {format_count(len(row), 'cell')}", hint)
            if is_tsv and (cell := next(filter(_QUOTED.fullmatch, row), "")):
                hint = "cells of a TSV file are read as they are: write it without quotes, or as .csv"
                raise at(path, line, f"has the cell {cell[:40]}, which is quoted as in CSV", hint)
            yield Record(path, line, dict(zip(header, row, strict=True)))
    except csv.Error as error:
        if "new-line character" in str(error):  # a carriage return that no line feed follows
            raise text_files.lone_return(path, line) from None
        if "field limit" in str(error):
            hint = f"{FLAG} {(limit >> 30) + 1} raises the limit"
            raise at(path, line, f"has a cell of more than {limit:,} characters", hint) from None
        hint = "a cell that begins with a quotation mark ends with one; within it, quotation marks are doubled"
        raise at(path, line, f"is not {'TSV' if is_tsv else 'CSV'}: {error}", "" if is_tsv else hint) from None


def note_division(header: Sequence[str], path: Path) -> str:
    """Say, after a hint, that another sign seems to divide the columns of a table, which then are one; or nothing."""
    own = {".csv": ",", ".tsv": "\t"}.get(suffix_of(path))
    signs = {",": "commas", ";": "semicolons", "\t": "tabs"}
    other = next((sign for sign in signs if len(header) == 1 and sign != own and sign in header[0]), None)
    return f"; its columns seem divided by {signs[other]}: write it with {signs[own]}" if own and other else ""


def read_objects(path: Path) -> Iterator[Record]:
    """The JSON object of every line that is not blank. Raises DataError with file and line for anything else."""
    for line, text in number_lines(path):
        if text.strip():
            yield Record(path, line, parse_object(path, line, text, _OBJECTS))


def _read_json(path: Path) -> Iterator[Record]:
    """The rows of a .json file: JSON Lines, or an array of objects. Raises DataError with file and number."""
    with text_files.open_source(path) as stream:
        is_array = strip_marks(stream.peek(1024)).lstrip().startswith(b"[")
        content = text_files.read_all(stream, _ARRAY, "an array, which is read at once,") if is_array else b""
    if not is_array:
        yield from read_objects(path)
        return
    hint = f"{_OBJECTS}, or an array of objects"
    try:
        rows = json.loads(strip_marks(content))
    except (ValueError, RecursionError) as error:
        raise at(path, 1, f"is not JSON: {error}", hint) from None
    for number, row in enumerate(rows, 1):
        if type(row) is not dict:
            raise at(path, number, "is not a JSON object", hint)
        yield Record(path, number, row)


def parse_object(path: Path, line: int, text: str, hint: str = "expected a JSON object") -> dict[str, object]:
    """Return the JSON object that a text is. Raises DataError with file and line for anything else."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise at(path, line, f"is not JSON: {error}", hint) from None
    if type(entry) is not dict:
        raise at(path, line, "is not a JSON object", hint)
    return entry


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write CSV with every cell in quotes, so that any text can be held."""
    with atomic_file(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()


def write_objects(path: Path, entries: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object per line, UTF-8, gzipped where the name ends in .gz; equal objects give equal bytes."""
    with atomic_gzip(path) as stream:
        for entry in entries:
            stream.write(f"{json.dumps(entry, ensure_ascii=False)}\n".encode())
