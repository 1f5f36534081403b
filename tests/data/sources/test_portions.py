"""Small Arrow and Parquet files that hold any number of bytes, rows or values."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from xmcbench.data import load_dataset
from xmcbench.data.sources import arrow_tables as bounds
from xmcbench.data.sources import source
from xmcbench.data.sources.arrow_tables import portions
from xmcbench.errors import DataError
from xmcbench.storage.reading import FLAG, Unreadable

MIB = 1 << 20


def codes(count, texts):
    """Many values of a dictionary of few."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array(texts))


def views(count, text):
    """Many views of one text."""
    made = np.zeros(count, [("length", "<i4"), ("prefix", "S4"), ("buffer", "<i4"), ("offset", "<i4")])
    made["length"], made["prefix"] = len(text), text[:4]
    return pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(made.tobytes()), pa.py_buffer(text)])


def list_of(values):
    """One row with a list of values."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def batch(**columns):
    return pa.record_batch(list(columns.values()), list(columns))


def save(folder, *batches, **options):
    """A folder as `save_to_disk` writes it, with these batches in the training and in the test set."""
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "state.json").write_text(json.dumps({"_data_files": [{"filename": "d.arrow"}]}))
        how = pa.ipc.IpcWriteOptions(**options)
        with pa.ipc.new_stream(folder / split / "d.arrow", batches[0].schema, options=how) as stream:
            for rows in batches:
                stream.write_batch(rows)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    return folder


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "xyz" * 9, ""]),
        pa.array(["a", None, "xyz" * 9, ""], pa.large_string()),
        pa.array(["a", None, "xyz" * 9, ""], pa.string_view()),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.array([None] * 4, pa.dictionary(pa.int8(), pa.string())),
        pa.array([["a", "b"], None, [], ["c" * 40]]),
        pa.array([["a", "b"], None, [], ["c" * 40]], pa.large_list(pa.string())),
        pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.int64(), 2)),
        pa.array([["a"], ["b", "a"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.array([[[1], []], None, [], [[2, 3]]]),
        pa.array([1, None, 3, 4]),
        pa.array([None] * 4),
        pa.array([True, None, False, True]),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("most", [1, 150, MIB])
def test_portions_are_the_rows_whatever_their_types_and_sizes(column, most, monkeypatch):
    monkeypatch.setattr(bounds, "_PORTION", most)
    whole = batch(text=column)
    for rows in (whole, whole.slice(1, 2), whole.slice(2, 0)):
        parts = [*portions(Path("x"), iter([rows, rows]))]
        assert [row for part in parts for row in part.to_pylist()] == 2 * rows.to_pylist()
        assert most > 1 or len(parts) == 2 * len(rows)


@pytest.mark.parametrize(
    ("value", "kind", "size"),
    [
        (1, pa.int64(), 0),
        (None, pa.null(), 0),
        ("abc", pa.string(), 3),
        ("abc", pa.large_string(), 3),
        ("abc", pa.string_view(), 3),
        ("abc", pa.dictionary(pa.int8(), pa.string()), 3),
        ([1, 2, 3], pa.list_(pa.int64()), 3 * 32),
        (["abc"], pa.large_list(pa.string()), 32 + 3),
        (["abc", "d"], pa.list_(pa.string(), 2), 2 * 32 + 4),
    ],
    ids=str,
)
def test_a_portion_has_as_many_rows_as_fit(value, kind, size, monkeypatch):
    """A row and each of its values count as 32 bytes, besides what is in them."""
    rows = batch(text=pa.array([value] * 4, kind))
    for most, expected in ((2 * (64 + size), [2, 2]), (2 * (64 + size) - 1, [1, 1, 1, 1])):
        monkeypatch.setattr(bounds, "_PORTION", most)
        assert [part.num_rows for part in portions(Path("x"), iter([rows]))] == expected


@pytest.mark.parametrize(
    "columns",
    [
        {"text": codes(100, ["x" * MIB]), "labels": codes(100, ["a"])},
        {"text": views(100, b"x" * MIB), "labels": codes(100, ["a"])},
        {"text": pa.array(["t"]), "labels": list_of(pa.nulls(2 * MIB))},
        {
            "text": pa.array(["t"]),
            "labels": pa.ListArray.from_arrays(pa.array([0, 100], pa.int32()), codes(100, ["x" * MIB])),
        },
    ],
    ids=["dictionary", "views", "nulls", "list"],
)
def test_a_batch_counts_as_what_it_holds(tmp_path, own_cache, columns, monkeypatch):
    monkeypatch.setattr(bounds, "ARRAYS", 32 * MIB)
    folder = save(tmp_path / "bomb", batch(**columns), compression="zstd")
    assert (folder / "train" / "d.arrow").stat().st_size < MIB
    with pytest.raises(DataError, match=rf"d\.arrow: a batch of rows takes more .* 32\.0 MiB: {FLAG} 1 raises it"):
        load_dataset(folder)


def test_a_dictionary_in_parquet_counts_as_what_it_holds(tmp_path, own_cache, monkeypatch):
    monkeypatch.setattr(bounds, "ARRAYS", 32 * MIB)
    table = pa.table({"text": codes(100, ["x" * MIB]), "labels": ["a"] * 100})
    for schema in (True, False):  # without the schema of Arrow, the column is one of texts
        for split in ("train", "test"):
            parquet.write_table(table, tmp_path / f"{split}.parquet", store_schema=schema)
        with pytest.raises(DataError, match=r"train\.parquet: a batch of rows takes more"):
            load_dataset(tmp_path)


def test_many_batches_are_refused_in_all(monkeypatch):
    monkeypatch.setattr(bounds, "STREAM", 5 * MIB)
    rows = batch(text=codes(2, ["x" * MIB]))
    read = portions(Path("x"), iter([rows] * 3))
    assert next(read).num_rows == next(read).num_rows == 2
    with pytest.raises(Unreadable, match="what it unpacks to takes more"):
        next(read)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux counts the memory of a process")
def test_a_packed_buffer_is_refused_before_it_is_unpacked(tmp_path, own_cache, monkeypatch):
    """The allocation fails, which is no sign of damage."""
    monkeypatch.setattr(bounds, "_DECODING", 64 * MIB)
    folder = save(
        tmp_path / "bomb", batch(text=pa.array(["x" * (256 * MIB)]), labels=pa.array(["a"])), compression="zstd"
    )
    with pytest.raises(DataError) as caught:
        load_dataset(folder)
    assert caught.value.message.endswith("it takes more memory than there is, or than the limit of 64.0 MiB")
    assert caught.value.hint == f"{FLAG} 1 raises the limit"


def test_an_allocation_that_fails_is_not_taken_for_damage(tmp_path, own_cache, monkeypatch):
    def fail(*_):
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    folder = save(tmp_path / "data", batch(text=pa.array(["x"]), labels=pa.array(["a"])))
    for split in ("train", "test"):
        parquet.write_table(pa.table({"text": ["x"], "labels": ["a"]}), tmp_path / f"{split}.parquet")
    monkeypatch.setattr("xmcbench.data.sources.arrow_tables.portions", fail)
    for place in (folder, tmp_path):
        with pytest.raises(DataError, match="it takes more memory than there is"):
            load_dataset(place)


def test_rows_are_counted_before_they_are_read(tmp_path, own_cache, monkeypatch):
    monkeypatch.setattr(source, "MEMORY", 100 * 400)
    many = pa.table({"text": pa.nulls(101), "labels": pa.nulls(101)})
    folder = save(tmp_path / "many", *many.to_batches())
    for split in ("train", "test"):
        parquet.write_table(many, tmp_path / f"{split}.parquet")
    monkeypatch.setattr("xmcbench.data.sources.records.Record", None)
    monkeypatch.setattr("xmcbench.data.sources.arrow_tables._ROWS", 10)  # of Parquet, the first batch is not too many
    for place in (folder, tmp_path):
        with pytest.raises(DataError, match="reading 101 rows and 0 pairs takes more than the limit"):
            load_dataset(place)


@pytest.mark.parametrize(("lines", "labels"), [(100, 1), (2, 999)])
def test_rows_and_pairs_of_every_layout_are_bounded(tmp_path, own_cache, monkeypatch, lines, labels):
    """In a text file, a row can take two bytes."""
    for split in ("train", "test"):
        line = json.dumps({"text": "x", "labels": ["a"] * labels})
        (tmp_path / f"{split}.jsonl").write_text(f"{line}\n" * lines)
    needed = 400 * lines + 32 * lines * labels
    monkeypatch.setattr(source, "MEMORY", needed - 1)
    counts = f"reading {lines:,} rows and {lines * labels:,} pairs"
    with pytest.raises(DataError, match=rf"train\.jsonl: {counts} takes more than the limit"):
        load_dataset(tmp_path)
    monkeypatch.setattr(source, "MEMORY", needed)
    assert len(load_dataset(tmp_path).train) == lines


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"])),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_of_another_type_is_named(column):
    with pytest.raises(Unreadable, match="its column 'text' is of the type .*: expected texts, integers, or lists"):
        [*portions(Path("x"), iter([batch(text=column)]))]
