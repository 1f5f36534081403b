"""The tables that are written: CSV, JSON Lines and Parquet. ``Tables`` reads them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import ClassVar

from xmcbench.data.sources.records import write_csv, write_objects
from xmcbench.data.sources.source import Content, Place, instance_rows
from xmcbench.data.sources.tables import Tables
from xmcbench.storage.atomic import atomic_file

#: An entry of a table: texts, and the uids of the labels of an instance.
_Entry = dict[str, str | list[str]]

#: Rows of a Parquet file that are written at a time.
_ROWS = 16_384


class _Written(Tables):
    """``train``, ``test`` (uid, title, text, labels) and ``labels`` (uid, title); labels of instances by uid."""

    suffix: ClassVar[str]

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return False  # ``Tables`` recognizes these files

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        columns = ("uid", "title", "text", "labels")
        uids = list(content.labels.uids)
        labels: Iterator[_Entry] = (
            {"uid": uid, "title": title} for uid, title in zip(uids, content.labels.titles, strict=True)
        )
        cls.write_table(folder / f"labels{cls.suffix}", labels, columns[:2])
        for side, texts, pairs in content.sides():
            entries: Iterator[_Entry] = (
                {"uid": uid, "title": title, "text": text, "labels": [uids[label] for label in ids]}
                for uid, title, text, ids in instance_rows(texts, pairs)
            )
            cls.write_table(folder / f"{side}{cls.suffix}", entries, columns)

    @classmethod
    @abstractmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: tuple[str, ...]) -> None:
        """Write a table."""


class Csv(_Written):
    """A list of labels is JSON in its cell."""

    name, suffix = "csv", ".csv"
    title = "train.csv, test.csv and labels.csv"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: tuple[str, ...]) -> None:
        def cell(value: str | list[str]) -> str:
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

        write_csv(path, columns, ([cell(entry[name]) for name in columns] for entry in entries))


class JsonLines(_Written):
    """One object per line."""

    name, suffix = "jsonl", ".jsonl"
    title = "train.jsonl, test.jsonl and labels.jsonl"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: tuple[str, ...]) -> None:
        write_objects(path, entries)


class Parquet(_Written):
    """As Hugging Face `datasets` loads a folder of Parquet files."""

    name, suffix = "parquet", ".parquet"
    title = "train.parquet, test.parquet and labels.parquet"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: tuple[str, ...]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        schema = pa.schema([(name, pa.list_(pa.string()) if name == "labels" else pa.string()) for name in columns])
        with atomic_file(path) as stream, parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
            while batch := [*islice(entries, _ROWS)]:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
