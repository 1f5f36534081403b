"""The rows of tables as records: cells by column, with the file and the line that errors name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.data.compression import suffix_of
from xmcbench.data.rows import at, check_count
from xmcbench.data.sources.csv_rows import read_csv
from xmcbench.data.sources.json_lines import read_objects, read_rows
from xmcbench.errors import DataError
from xmcbench.storage.lfs import refuse_lfs_pointer
from xmcbench.storage.reading import ARRAYS, Unreadable, check_size, open_regular

if TYPE_CHECKING:
    import pyarrow as pa

#: The tables that are read, by suffix; those of text also gzipped. Arrow files are what `datasets` keeps.
_TEXT = (".csv", ".tsv", ".jsonl", ".json")
SUFFIXES = (*_TEXT, ".parquet")
ARROW = ".arrow"

#: The endings of their names.
ENDINGS = (*(f"{suffix}{packed}" for suffix in _TEXT for packed in ("", ".gz")), ".parquet")

#: A tuple, set, dictionary or array as Python prints it. A label may be in parentheses, but no quotation marks or lists
#: of numbers are directly within them.
_PRINTED = re.compile(
    r"""\((\s*['"].*['"]\s*,?|\s*-?\d+\s*,[\d\s,.-]*|)\s*\)"""
    r"""|\{.*\}"""
    r"""|(frozenset|set|array|deque|Index|dict_keys|dict_values)\(([\[{(].*)?\)""",
    re.DOTALL,
)

#: The code of a row without a label.
_NO_LABEL = -1

#: Rows of a Parquet file that are decoded at a time.
_ROWS = 1024


@dataclass(frozen=True)
class Record:
    """A row of a table.

    line: of a text file; of others, and of a JSON array, the number of the row, from 1. names: of coded labels.
    """

    path: Path
    line: int
    cells: Mapping[str, object]
    names: Mapping[str, tuple[str, ...]]

    def text(self, column: str | None) -> str:
        """The text in a column; an integer by its digits, nothing as the empty text. Raises DataError for others."""
        value = self._decoded(column or "", self.cells.get(column or ""))
        if value is None:
            return ""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise at(self.path, self.line, f"{column} is {str(value)[:40]!r}, not a text", "texts or integers")
        return value

    def labels(self, column: str | None, separator: str) -> list[str]:
        """The labels in a column: the names of its values.

        Of codes with names, -1 is no label, as in Hugging Face `datasets`. Raises DataError for a value that is neither
        a text nor an integer.
        """
        values = self.values(column, separator)
        if self.names.get(column or ""):
            values = [value for value in values if type(value) is not int or value != _NO_LABEL]
        return [self._name(column or "", value) for value in values]

    def values(self, column: str | None, separator: str) -> list[object]:
        """The values in a column: a list, a text that is a JSON list, or a text with a separator.

        Raises DataError for a text in brackets that is not a JSON list.
        """
        value = self._decoded(column or "", self.cells.get(column or ""))
        if isinstance(value, str):
            return self._listed(column or "", value, separator)
        if isinstance(value, list):
            return [self._decoded(column or "", each) for each in value]
        return [] if value is None else [value]

    def _decoded(self, column: str, value: object) -> object:
        """A value, or the text that bytes are: some programs write Parquet files without the type of texts."""
        if not isinstance(value, bytes):
            return value
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise at(self.path, self.line, f"{column} is not UTF-8", "expected texts or integers") from None

    def _listed(self, column: str, cell: str, separator: str) -> list[object]:
        text = cell.strip()
        if text.startswith("["):
            try:
                return list(json.loads(text))
            except (ValueError, RecursionError):
                pass
        # What Python or numpy prints, or a list that was cut off. Taken as a label, nobody would notice.
        is_list = text.startswith("[") and (text.endswith("]") or text[1:].lstrip().startswith(("'", '"')))
        if is_list or _PRINTED.fullmatch(text):
            raise at(
                self.path,
                self.line,
                f"{column} is {text[:40]!r}, which is not a JSON list",
                f'write ["a", "b"] or a{separator}b; a single label in brackets is ["[a]"]',
            )
        return [word for each in cell.split(separator) if (word := each.strip())]

    def _name(self, column: str, value: object) -> str:
        names = self.names.get(column, ())
        if isinstance(value, int) and not isinstance(value, bool):
            if not names:
                return str(value)
            if not 0 <= value < len(names):
                raise at(
                    self.path,
                    self.line,
                    f"{column} has the code {value}",
                    f"the names are those of 0 to {len(names) - 1}",
                )
            return names[value]
        if not isinstance(value, str):
            hint = "texts or integers; of a vector of zeros and ones, the labels at its ones"
            raise at(self.path, self.line, f"{column} has {str(value)[:40]!r}, which is not a label", hint)
        return value


def records(paths: Iterable[Path], columns: Iterable[str]) -> Iterator[Record]:
    """The rows of tables, one file after the other, with at least these columns where a table has them.

    Raises DataError with file and line.
    """
    wanted = frozenset(columns)
    readers = {".csv": _csv, ".tsv": _tsv, ".jsonl": _json_lines, ".json": _json, ".parquet": _parquet, ARROW: _arrow}
    for path in paths:
        yield from readers[suffix_of(path)](path, wanted)


def columns_of(paths: Iterable[Path]) -> list[str]:
    """The columns of the shards of a table; of JSON Lines, the keys of all rows. Raises DataError where no row is."""
    paths = [*paths]
    found = [*dict.fromkeys(name for path in paths for name in _columns(path))]
    if not found:
        raise DataError(f"{paths[0]} is empty", "a table needs rows")
    return found


def _columns(path: Path) -> Iterator[str]:
    if suffix_of(path) == ".parquet":
        with _opened(path) as file:
            yield from file.schema_arrow.names
    elif suffix_of(path) == ARROW:
        with _streamed(path) as stream:
            yield from stream.schema.names
    elif suffix_of(path) in (".jsonl", ".json"):  # a row need not have every key
        for row in records((path,), ()):
            yield from row.cells
    else:
        for row in records((path,), ()):
            yield from row.cells
            return


def _csv(path: Path, _: frozenset[str]) -> Iterator[Record]:
    return (Record(path, line, cells, {}) for line, cells in read_csv(path, ","))


def _tsv(path: Path, _: frozenset[str]) -> Iterator[Record]:
    return (Record(path, line, cells, {}) for line, cells in read_csv(path, "\t"))


def _json_lines(path: Path, _: frozenset[str]) -> Iterator[Record]:
    return (Record(path, line, entry, {}) for line, entry in read_objects(path))


def _json(path: Path, _: frozenset[str]) -> Iterator[Record]:
    return (Record(path, row, entry, {}) for row, entry in read_rows(path))


def _parquet(path: Path, columns: frozenset[str]) -> Iterator[Record]:
    with _opened(path) as file:
        names = class_names(file.schema_arrow)
        chosen = [name for name in file.schema_arrow.names if name in columns]

        def batches() -> Iterator[pa.RecordBatch]:
            check_count(file.metadata.num_rows)
            for group in range(file.num_row_groups):
                check_size(file.metadata.row_group(group).total_byte_size, ARRAYS, "a row group of it")
            yield from file.iter_batches(batch_size=_ROWS, columns=chosen, use_threads=False)

        yield from _rows(path, batches(), names)


def _arrow(path: Path, columns: frozenset[str]) -> Iterator[Record]:
    with _streamed(path) as stream:
        # Of several columns of one name, the last one.
        chosen = [*{name: place for place, name in enumerate(stream.schema.names) if name in columns}.values()]
        yield from _rows(path, (batch.select(chosen) for batch in stream), class_names(stream.schema))


def _rows(path: Path, batches: Iterator[pa.RecordBatch], names: Mapping[str, tuple[str, ...]]) -> Iterator[Record]:
    import pyarrow as pa

    from xmcbench.data.sources.portions import portions

    line = 0
    try:
        for portion in portions(path, batches):
            for cells in portion.to_pylist():
                line += 1
                yield Record(path, line, cells, names)
    except Unreadable as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except MemoryError:  # pyarrow's is an ArrowException too
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"cannot read {path}: {error}", "damaged? download it again") from None


def _opened(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    refuse_lfs_pointer(path, DataError)
    try:
        open_regular(path).close()
        return parquet.ParquetFile(path, memory_map=True)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}", "expected a Parquet file") from None


@contextmanager
def _streamed(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    refuse_lfs_pointer(path, DataError)
    try:
        open_regular(path).close()
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            yield stream
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}", "expected an Arrow stream") from None


def class_names(schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Column -> names of its codes, as Hugging Face `datasets` notes them in the metadata of an Arrow schema."""
    try:
        noted = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = noted["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return names_of(features)


def names_of(features: object) -> dict[str, tuple[str, ...]]:
    """Column -> names of its codes, from the features of a Hugging Face dataset."""
    found: dict[str, tuple[str, ...]] = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        inner = feature
        while isinstance(inner, dict) and isinstance(inner.get("feature"), dict):
            inner = inner["feature"]  # a list of codes
        if isinstance(inner, list) and inner:
            inner = inner[0]
        names = inner.get("names") if isinstance(inner, dict) else None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found[column] = tuple(names)
    return found
