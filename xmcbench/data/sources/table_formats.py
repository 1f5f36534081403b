"""The tables that are written: CSV, JSON Lines and Parquet. ``Tables`` reads them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from xmcbench.data.sources.records import write_csv, write_objects
from xmcbench.data.sources.source import Content, Place, instance_rows, label_rows
from xmcbench.data.sources.tables import Tables
from xmcbench.storage.atomic import atomic_file

#: An entry of a table: texts, and the uids of the labels of an instance.
_Entry = dict[str, str | list[str]]

#: The columns of lists.
_LISTS = ("labels", "alternatives", "parents")
_COLUMNS = ("uid", "title", "text", "labels")

#: Rows of a Parquet file that are written at a time.
_ROWS = 16_384


class _Written(Tables):
    """``train``, ``test`` (uid, title, text, labels) and ``labels`` (uid, title, and what else labels carry).

    Labels of instances are named by uid.
    """

    holds_details = True

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return False  # ``Tables`` recognizes these files

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        uids = list(content.labels.uids)
        columns = next(label_rows(content.labels), {})
        cls.write_table(folder / f"labels.{cls.name}", label_rows(content.labels), columns)
        for side, texts, pairs in content.sides():
            entries: Iterator[_Entry] = (
                {"uid": uid, "title": title, "text": text, "labels": [uids[label] for label in ids]}
                for uid, title, text, ids in instance_rows(texts, pairs)
            )
            cls.write_table(folder / f"{side}.{cls.name}", entries, _COLUMNS)

    @classmethod
    @abstractmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: Iterable[str]) -> None:
        """Write a table."""


class Csv(_Written):
    """A list of labels is JSON in its cell."""

    name = "csv"
    title = "train.csv, test.csv and labels.csv"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: Iterable[str]) -> None:
        rows = (
            [cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in entry.values()]
            for entry in entries
        )
        write_csv(path, [*columns], rows)


class JsonLines(_Written):
    """One object per line."""

    name = "jsonl"
    title = "train.jsonl, test.jsonl and labels.jsonl"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: Iterable[str]) -> None:
        write_objects(path, entries)


class Parquet(_Written):
    """As Hugging Face `datasets` loads a folder of Parquet files."""

    name = "parquet"
    title = "train.parquet, test.parquet and labels.parquet"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: Iterable[str]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        schema = pa.schema([(name, pa.list_(pa.string()) if name in _LISTS else pa.string()) for name in columns])
        with atomic_file(path) as stream, parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
            while batch := [*islice(entries, _ROWS)]:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
