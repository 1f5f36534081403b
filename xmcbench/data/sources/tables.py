"""Tables with named columns: CSV, TSV, JSON, Parquet; one file, or train and test in a folder."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.sources import Content, Holding, Part, Place, Row, Source, records
from xmcbench.data.sources.columns import (
    CONTENT,
    DEFAULTS,
    LISTS,
    OF_LABELS,
    TEXT,
    Columns,
    LabelColumn,
    list_columns,
    note_gaps,
    spell,
)
from xmcbench.data.sources.records import ENDINGS, Record, read_records
from xmcbench.data.sources.source import clean_details, instance_rows, label_rows
from xmcbench.data.sources.splits import LABELS, TEST, TRAIN, choose_split, find_splits, list_tables, note_validation
from xmcbench.data.text_files import suffix_of
from xmcbench.errors import DataError, UsageError
from xmcbench.storage.atomic import atomic_file


class Files(NamedTuple):
    """The files of a dataset of tables. parts: ``train``, ``test`` or both. labels: a table of them, or nothing."""

    parts: Mapping[str, tuple[Path, ...]]
    labels: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


class Tables(Source):
    """A file, or a folder with ``train`` and ``test``, and optionally ``labels`` (uid, title) beside them.

    ``labels`` may have ``alternatives`` and ``parents``, which are lists as the labels of instances are, and
    ``content``. Text without a title column is the title. Without a table of labels, the labels are the values that
    occur, in the order in which they do.
    """

    name = "tables"
    title = "tables with named columns: .csv, .tsv, .jsonl, .json or .parquet; one file, or train and test in a folder"
    options = frozenset({*DEFAULTS, "separator"})

    @classmethod
    def recognize(cls, place: Place) -> bool:
        if place.path.is_file():
            return place.path.name.endswith(ENDINGS)
        return bool(find_splits(place.path, TRAIN) or find_splits(place.path, TEST))

    def files(self) -> Files:
        """The files of the parts. Raises DataError where there is no part, or several files could be one."""
        path = self.place.path
        if path.is_file():
            others = [(table,) for table in list_tables(path.parent, LABELS) if table != path]
            labels = choose_split(path.parent, others)
            notes = [f"the labels of {path.name} are uids of {table.name}, which lies beside it" for table in labels]
            return Files({"train": (path,)}, labels, tuple(notes))
        sides = {"train": TRAIN, "test": TEST}
        parts = {name: choose_split(path, find_splits(path, names)) for name, names in sides.items()}
        if not any(parts.values()):
            raise DataError(f"{path} has no train.csv", "or .tsv, .jsonl, .json, .parquet")
        labels = choose_split(path, find_splits(path, LABELS))
        return Files({name: files for name, files in parts.items() if files}, labels, note_validation(path))

    def find_parts(self) -> Holding:
        files = self.files()
        tables = _Tables(files.parts, files.labels, self.place.options)
        parts = {name: tables.instance_part(name) for name in files.parts}
        notes = (*files.notes, *tables.notes())
        return Holding(tables.label_part(), parts.get("train"), parts.get("test"), notes=notes)

    def find_training(self) -> Holding | None:
        files = self.files()
        if len(files.parts) < 2 or not files.labels:
            return super().find_training()
        tables = _Tables({"train": files.parts["train"]}, files.labels, self.place.options)
        return Holding(tables.label_part(), tables.instance_part("train"), notes=(*files.notes, *tables.notes()))

    def documents(self) -> Part:
        files = self._document_files()
        tables = _Tables({"test": files}, (), self.place.options)
        notes: list[str] = []
        return Part("documents", files[0], files, lambda: tables.document_rows(files, notes), notes)

    def _document_files(self) -> tuple[Path, ...]:
        path = self.place.path
        # Labels beside a file do not matter to its texts.
        parts = {"train": (path,)} if path.is_file() else self.files().parts
        return parts.get("test") or parts["train"]

    def shared_columns(self, options: Mapping[str, str]) -> dict[str, str]:
        """Of the columns that the options of a dataset name, those of texts that its documents here have as well.

        The title only with the text: a document is not to lose its text without a word.
        """
        present = list_columns(self._document_files())
        shared = {role: options[role] for role in ("uid", "title", "text") if options.get(role) in present}
        if "text" in options and "text" not in shared:
            shared.pop("title", None)
        return shared


class _Tables:
    """The tables of a dataset, which share their labels."""

    def __init__(
        self, parts: Mapping[str, tuple[Path, ...]], labels: tuple[Path, ...], options: Mapping[str, str]
    ) -> None:
        self._parts, self._labels, self._options = parts, labels, options
        self._found: dict[tuple[Path, ...], Columns] = {}

    def notes(self) -> tuple[str, ...]:
        """The columns, and the separator of labels in text; parts with the same ones share a note.

        Of a table of labels, the column of their text if it is not the title.
        """
        found: dict[str, list[str]] = {}
        for files in self._parts.values():
            columns = self._columns(files)
            is_divided = columns.labels and suffix_of(files[0]) in TEXT
            said = f"{columns}, separator={spell(columns.separator)}" if is_divided else str(columns)
            found.setdefault(said, []).append(files[0].name)
        notes = [f"columns of {' and '.join(names)}: {said}" for said, names in found.items()]
        if self._labels and (text := self._label_columns.title or self._label_columns.text) != "title":
            notes.append(f"the text of labels is the column {text} of {self._labels[0].name}")
        return tuple(notes)

    @cached_property
    def _label_columns(self) -> Columns:
        return Columns.of(self._labels, {}, labels=True)

    def _columns(self, files: tuple[Path, ...]) -> Columns:
        if files not in self._found:
            self._found[files] = Columns.of(files, self._options)
        return self._found[files]

    def instance_part(self, name: str) -> Part:
        files = self._parts[name]
        # Not each once: other parts may have files of the same names, and the digest must tell whose come first.
        depends = (*files, *(self._labels or self._all()))
        notes: list[str] = []
        return Part("instances", files[0], depends, lambda: self._instances(files, notes), notes)

    def label_part(self) -> Part:
        files = self._labels or self._all()
        return Part("labels", files[0], files, self._label_rows)

    def document_rows(self, files: tuple[Path, ...], notes: list[str]) -> Iterator[Row]:
        """The texts of these files. notes: gets one on their columns."""
        columns = self._columns(files)
        notes.append(f"columns of {files[0].name}: {columns.of_texts}")
        found = note_gaps(read_records(files, columns.names()), (columns.title, columns.text), notes)
        for row, record in enumerate(found):
            yield Row(record.path, record.line, *_texts(columns, row, record))

    def _all(self) -> tuple[Path, ...]:
        return tuple(path for files in self._parts.values() for path in files)

    def _label_rows(self) -> Iterator[Row]:
        if not self._labels:
            yield from (Row(*place, title, title) for title, place in self._values.items())
            return
        columns = self._label_columns
        # The content is the title where there is no other.
        content = CONTENT if columns.title else None
        for row, record in enumerate(read_records(self._labels, (*columns.names(), *OF_LABELS))):
            title = record.text(columns.title or columns.text)
            if not title.strip():
                raise record.error("the label has no text", "every label needs one")
            names, parents = (record.labels(column, columns.separator) for column in LISTS)
            details = clean_details(title, names, record.text(content), parents)
            yield Row(record.path, record.line, _uid(columns, row, record), title, details=details)

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Label -> its row: of the table of labels by uid, or of the values that occur."""
        return {label.uid: row for row, label in enumerate(self._label_rows())}

    @cached_property
    def _values(self) -> dict[str, tuple[Path, int]]:
        """The labels that occur, each with the file and the line where it does first."""
        found: dict[str, tuple[Path, int]] = {}
        for files in self._parts.values():
            columns = self._columns(files)
            for record in read_records(files, columns.names()) if columns.labels else ():
                for label in self._labels_of(columns, record):
                    found.setdefault(label, (record.path, record.line))
        if not found:
            hint = 'name their column: "PLACE?labels=COLUMN"; or put labels.csv beside it'
            raise UsageError(f"{self._all()[0]} has no labels", hint)
        return found

    def _labels_of(self, columns: Columns, record: Record) -> list[str]:
        """The labels of a row: uids as in the table of labels; without one, texts, without white space around them."""
        found = record.labels(columns.labels, columns.separator)
        return found if self._labels else [text for label in found if (text := label.strip())]

    def _instances(self, files: tuple[Path, ...], notes: list[str]) -> Iterator[Row]:
        columns = self._columns(files)
        column = LabelColumn(columns.labels or "", columns.separator, bool(self._labels))
        read = (columns.title, columns.text, columns.labels)
        for row, record in enumerate(note_gaps(read_records(files, columns.names()), read, notes)):
            labels = []
            if columns.labels:
                column.add(record)
                labels = self._labels_of(columns, record)
            if labels and self._labels and self._label_columns.uid is None:  # a code would be the number of a row
                hint = f"call the column of its uids uid; it has: {', '.join(list_columns(self._labels))}"
                raise record.error(f"{self._labels[0].name} has no column uid", hint)
            if unknown := [label for label in labels if label not in self._ids]:
                hint = self._describe_labels(unknown[0]) if self._labels else ""
                raise record.error(f"there is no label {unknown[0][:60]!r}", hint)
            yield Row(record.path, record.line, *_texts(columns, row, record), [self._ids[label] for label in labels])
        column.check()
        notes += column.notes(files[0].name)

    def _describe_labels(self, unknown: str) -> str:
        """Say what the labels of instances are, to somebody who gave one that is not there: maybe its title."""
        name = self._labels[0].name
        titled = next((label.uid for label in self._label_rows() if label.title == unknown), None)
        where = f", where this is the title of {titled[:60]!r}" if titled is not None else ""
        return f"labels are uids of {name}{where}; if they are texts, move it to another folder"


def _texts(columns: Columns, row: int, record: Record) -> tuple[str, str, str]:
    """Uid, title and content of a row; text without a title is the title."""
    title, text = record.text(columns.title), record.text(columns.text)
    return (_uid(columns, row, record), *((title, text) if columns.title else (text, "")))


def _uid(columns: Columns, row: int, record: Record) -> str:
    if columns.uid is None:
        return str(row)
    if record.cells.get(columns.uid) is None:
        raise record.error(f"{columns.uid} is missing", "give every row one, or none")
    return record.text(columns.uid)


#: An entry of a table that is written: texts, and the uids of the labels of an instance.
_Entry = dict[str, str | list[str]]
#: Rows of a Parquet file that are written at a time.
_ROWS = 16_384


class _Written(Tables):
    """``train``, ``test`` (uid, title, text, uids of labels) and ``labels`` (uid, title, what else they carry)."""

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
            cls.write_table(folder / f"{side}.{cls.name}", entries, ("uid", "title", "text", "labels"))

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
        records.write_csv(path, [*columns], rows)


class JsonLines(_Written):
    """One object per line."""

    name = "jsonl"
    title = "train.jsonl, test.jsonl and labels.jsonl"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: Iterable[str]) -> None:
        records.write_objects(path, entries)


class Parquet(_Written):
    """As Hugging Face `datasets` loads a folder of Parquet files."""

    name = "parquet"
    title = "train.parquet, test.parquet and labels.parquet"

    @classmethod
    def write_table(cls, path: Path, entries: Iterator[_Entry], columns: Iterable[str]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        lists = ("labels", *LISTS)
        schema = pa.schema([(name, pa.list_(pa.string()) if name in lists else pa.string()) for name in columns])
        with atomic_file(path) as stream, parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
            while batch := [*islice(entries, _ROWS)]:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
