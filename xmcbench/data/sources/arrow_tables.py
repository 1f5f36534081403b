"""Parquet files and Arrow streams, in portions that take a few megabytes as Python objects.

The size of a batch in Arrow says little: a dictionary, a view or a list of nulls holds any number of values in a few
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import arrow
from xmcbench.data.sources.source import check_count
from xmcbench.errors import DataError
from xmcbench.storage import reading
from xmcbench.storage.reading import ARRAYS, STREAM, Unreadable, bounded_memory, check_size

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a Parquet file that are decoded at a time.
_ROWS = 1024
#: Bytes of a portion; one row may take more. Bytes of a Python object beside its text.
_PORTION, _OBJECT = 16 << 20, 32
#: The types of texts: with offsets, and of what type these are; and with views.
_OFFSETS = {"string": "i4", "binary": "i4", "large_string": "i8", "large_binary": "i8"}
_VIEWS = ("string_view", "binary_view")
#: Bytes of memory for the next batch: a column of a row group as it is stored, and what is decoded of it.
_DECODING = 2 * ARRAYS


def column_names(path: Path) -> list[str]:
    """Return the names of the columns of a table. Raises DataError."""
    with _open(path) as (schema, _):
        return list(schema.names)


def read_table(path: Path, columns: Collection[str]) -> Iterator[tuple[dict[str, object], Mapping[str, Any]]]:
    """Yield the cells of every row, of these columns, and the names of coded labels by column. Raises DataError."""
    with _open(path) as (schema, batches):
        names = _class_names(schema)
        for portion in portions(path, batches(columns)):
            for cells in portion.to_pylist():
                yield cells, names


@contextmanager
def _open(path: Path) -> Iterator[tuple[pa.Schema, Callable[[Collection[str]], Iterator[pa.RecordBatch]]]]:
    """The schema of a table, and a function from columns to its batches."""
    import pyarrow as pa
    from pyarrow import parquet

    reading.refuse_lfs_pointer(path, DataError)
    kind = "a Parquet file" if path.suffix == ".parquet" else "an Arrow stream"
    try:
        reading.open_regular(path).close()
        if path.suffix == ".parquet":
            with parquet.ParquetFile(path, memory_map=True) as file:
                yield file.schema_arrow, partial(_read_parquet, file)
        else:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                yield stream.schema, partial(_read_stream, stream)
    except Unreadable as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except MemoryError:  # pyarrow's is an ArrowException too
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"cannot read {path}: {error}", f"damaged, or not {kind}? download it again") from None


def _read_parquet(file: Any, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    check_count(file.metadata.num_rows)
    for group in range(file.num_row_groups):
        check_size(file.metadata.row_group(group).total_byte_size, ARRAYS, "a row group of it")
    chosen = [name for name in file.schema_arrow.names if name in columns]
    yield from file.iter_batches(batch_size=_ROWS, columns=chosen, use_threads=False)


def _read_stream(stream: Any, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    # Of several columns of one name, the last one.
    chosen = [*{name: place for place, name in enumerate(stream.schema.names) if name in columns}.values()]
    return (batch.select(chosen) for batch in stream)


def _class_names(schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Column -> names of its codes, as Hugging Face `datasets` notes them in the metadata of an Arrow schema."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    named = {column: _names(feature) for column, feature in features.items()} if isinstance(features, dict) else {}
    return {column: names for column, names in named.items() if names}


def _names(feature: object) -> tuple[str, ...]:
    if isinstance(feature, list) and feature:
        return _names(feature[0])
    if not isinstance(feature, dict):
        return ()
    if isinstance(feature.get("feature"), dict):
        return _names(feature["feature"])  # a list of codes
    names = feature.get("names")
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def portions(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a file, validated, in slices that can be turned into Python objects at once.

    Raises DataError where decoding takes too much memory, Unreadable for what is beyond a limit, and what pyarrow
    raises for damaged bytes.
    """
    rows = total = 0
    while True:
        with bounded_memory(path, _DECODING):
            batch = next(batches, None)
        if batch is None:
            return
        rows += batch.num_rows
        check_count(rows)
        batch.validate(full=True)  # offsets that lead out of a buffer would end the process
        sizes = np.full(batch.num_rows, _OBJECT, np.int64)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            sizes += _OBJECT + _sizes(name, column)
        ends = _ends(sizes)
        check_size(int(ends[-1]), ARRAYS, "a batch of rows")
        total += int(ends[-1])
        check_size(total, STREAM, "what it unpacks to")
        first = 0
        while first < batch.num_rows:
            after = max(first + 1, int(np.searchsorted(ends, ends[first] + _PORTION, "right")) - 1)
            yield batch.slice(first, after - first)
            first = after


def _sizes(column: str, array: pa.Array) -> np.ndarray:
    """Bytes of text and of objects in the values of an array that has been validated: int64 [rows].

    A null may count as any value. Raises Unreadable for a type that is no text, number or list, and for too many.
    """
    import pyarrow as pa

    check_size(_OBJECT * len(array), ARRAYS, "a batch of rows")
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        sizes = np.append(_sizes(column, array.dictionary), 0)  # the last one for an empty dictionary
        codes = _buffer(array.indices, str(kind.index_type))
        return np.take(sizes, np.clip(codes, 0, max(0, len(sizes) - 2)))
    if types.is_fixed_size_list(kind):
        width = kind.list_size
        inside = _sizes(column, array.values.slice(array.offset * width, len(array) * width))
        of_rows: np.ndarray = (_OBJECT + inside).reshape(len(array), width).sum(axis=1)
        return of_rows
    is_view = types.is_list_view(kind) or types.is_large_list_view(kind)
    if is_view or types.is_list(kind) or types.is_large_list(kind):
        ends, first = _ends(_OBJECT + _sizes(column, array.values)), arrow.to_numpy(array.offsets).astype(np.int64)
        return ends[first + arrow.to_numpy(array.sizes)] - ends[first] if is_view else np.diff(ends[first])
    if str(kind) in _OFFSETS:
        return np.diff(_buffer(array, _OFFSETS[str(kind)], more=1)).astype(np.int64)
    if str(kind) in _VIEWS:
        return _buffer(array, "i4, V12")["f0"].astype(np.int64)  # a view begins with its length
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise Unreadable(f"its column {column!r} is of the type {kind}: expected texts, integers, or lists of them")
    return np.zeros(len(array), np.int64)


def _buffer(array: pa.Array, kind: str, more: int = 0) -> np.ndarray:
    """The numbers of the values of an array, and of ``more`` behind them."""
    dtype = np.dtype(kind)
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array) + more, array.offset * dtype.itemsize)


def _ends(sizes: np.ndarray) -> np.ndarray:
    """The ends of the values, and before them the beginning of the first: int64 [values + 1]."""
    return np.concatenate([[0], np.cumsum(sizes)])
