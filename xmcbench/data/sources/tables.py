"""Tables with named columns: CSV, TSV, JSON, Parquet; one file, or train and test in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.compression import suffix_of
from xmcbench.data.rows import Located, at
from xmcbench.data.sources.records import ENDINGS, Record, columns_of, records
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.vectors import Vectors
from xmcbench.errors import DataError, UsageError
from xmcbench.output.quantities import counted

#: The columns that are tried for each role where none is named.
DEFAULTS = {
    "uid": ("uid", "id", "_id", "document_id"),
    "title": ("title",),
    "text": ("text", "content", "abstract", "body", "document", "sentence"),
    "labels": ("labels", "label", "subjects", "tags", "categories", "keywords"),
}

_TRAIN, _TEST, _LABELS = ("train", "trn"), ("test", "tst"), ("labels", "label")

#: Names of files that are parts of a dataset, without their endings.
PARTS = frozenset({*_TRAIN, *_TEST, *_LABELS})
_OTHER = ("validation", "valid", "dev", "val")

#: What follows the name of a split in the name of a shard, without its ending.
#: Older versions of `datasets` add 16 digits of a digest.
_SHARD = re.compile(r"-[0-9]+(-of-[0-9]+(-[0-9a-f]{16})?)?")

#: The end of the name of a shard, up to the first dot, that says how many there are: its number and the total.
_NUMBER_OF = re.compile(r"-([0-9]+)-of-([0-9]+)(?:-[0-9a-f]{16})?$")

#: Between labels in one cell, where they are not a list.
_SEPARATOR = ";"

#: The least number of cells with a comma, and none with the separator, that a note is about.
_COMMAS = 10

#: The tables whose cells are all text, so that labels are divided by the separator.
_TEXT = (".csv", ".tsv")


@dataclass(frozen=True)
class Columns:
    """The column of each role; None where there is none. separator: between the labels of a cell of text."""

    uid: str | None
    title: str | None
    text: str | None
    labels: str | None
    separator: str

    def __str__(self) -> str:
        used = [f"{role}={name}" for role in DEFAULTS if (name := getattr(self, role))]
        return f"{', '.join(used)}{'' if self.labels else '; there is no column of labels'}"

    def names(self) -> tuple[str, ...]:
        """The columns that are there."""
        return tuple(filter(None, (self.uid, self.title, self.text, self.labels)))

    @classmethod
    def of(cls, present: Sequence[str], options: Mapping[str, str], where: Path, labels: bool = False) -> Columns:
        """The columns that are named, or the first of the usual ones. labels: of a table of labels.

        A column that is named as title, text or labels is not taken for another of these. Raises UsageError for a
        column that is not there, and where there is no text.
        """
        found: dict[str, str | None] = {}
        options = {} if labels else options
        given = {options.get(role) for role in DEFAULTS if role != "uid"}
        for role, usual in DEFAULTS.items():
            wanted = options.get(role)
            if wanted is not None and wanted not in present:
                raise UsageError(f"{where} has no column {wanted!r}", f"it has: {', '.join(present)}")
            free = (name for name in usual if name in present and (role == "uid" or name not in given))
            found[role] = wanted or next(free, None)
        if found["text"] is None and found["title"] is None:
            hint = "call them uid and title" if labels else 'name it: "PLACE?text=COLUMN&labels=COLUMN"'
            raise UsageError(f"{where} has no text column with a known name", f"{hint}; it has: {', '.join(present)}")
        return cls(**found, separator=options.get("separator") or _SEPARATOR)


class Files(NamedTuple):
    """The files of a dataset of tables. parts: ``train``, ``test`` or both. labels: a table of them, or nothing."""

    parts: Mapping[str, tuple[Path, ...]]
    labels: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


class Tables(Source):
    """A file, or a folder with ``train`` and ``test``, and optionally ``labels`` (uid, title) beside them.

    Text without a title column is the title. Without a table of labels, the labels are the values that occur, in the
    order in which they do.
    """

    name = "tables"
    title = "tables with named columns: .csv, .tsv, .jsonl, .json or .parquet; one file, or train and test in a folder"
    options = frozenset({*DEFAULTS, "separator"})

    @classmethod
    def recognize(cls, place: Place) -> bool:
        if place.path.is_file():
            return place.path.name.endswith(ENDINGS)
        return bool(splits_of(place.path, _TRAIN) or splits_of(place.path, _TEST))

    def files(self) -> Files:
        """The files of the parts.

        Raises DataError where there is neither a training nor a test set, and where several files could be one part.
        """
        path = self.place.path
        if path.is_file():
            labels = _only(path.parent, [(each,) for each in _whole_files(path.parent, _LABELS) if each != path])
            notes = tuple(f"the labels of {path.name} are uids of {each.name}, which lies beside it" for each in labels)
            return Files({"train": (path,)}, labels, notes)
        parts = {name: _only(path, splits_of(path, names)) for name, names in (("train", _TRAIN), ("test", _TEST))}
        if not any(parts.values()):
            raise DataError(f"{path} has no train.csv", "or .tsv, .jsonl, .json, .parquet")
        labels = _only(path, splits_of(path, _LABELS))
        return Files({name: each for name, each in parts.items() if each}, labels, unused_splits(path))

    def holding(self) -> Holding:
        files = self.files()
        table = _Table(files.parts, files.labels, self.place.options)
        made = {name: table.part(name) for name in files.parts}
        notes = (*files.notes, *table.notes())
        return Holding(table.label_part(), made.get("train"), made.get("test"), notes=notes, **self.filters())

    def documents(self) -> Part:
        path = self.place.path
        # Labels beside a file do not matter to its texts.
        parts = {"train": (path,)} if path.is_file() else self.files().parts
        chosen = parts.get("test") or parts["train"]
        return _Table({"test": chosen}, (), self.place.options).document_part(chosen)


class _Table:
    """The tables of a dataset, which share their labels."""

    def __init__(
        self, parts: Mapping[str, tuple[Path, ...]], labels: tuple[Path, ...], options: Mapping[str, str]
    ) -> None:
        self._parts, self._labels, self._options = parts, labels, options
        self._found: dict[tuple[Path, ...], Columns] = {}

    def notes(self) -> tuple[str, ...]:
        """What the columns are, and the separator of labels in text; parts with the same ones share a note."""
        found: dict[str, list[str]] = {}
        for files in self._parts.values():
            columns = self._columns(files)
            divided = columns.labels and suffix_of(files[0]) in _TEXT
            said = f"{columns}, separator={columns.separator}" if divided else str(columns)
            found.setdefault(said, []).append(files[0].name)
        return tuple(f"columns of {' and '.join(names)}: {said}" for said, names in found.items())

    def _columns(self, files: tuple[Path, ...]) -> Columns:
        if files not in self._found:
            self._found[files] = Columns.of(columns_of(files), self._options, files[0])
        return self._found[files]

    def part(self, name: str) -> Part:
        files = self._parts[name]
        depends = tuple(dict.fromkeys([*files, *(self._labels or self._all())]))
        notes: list[str] = []
        return Part.located("instances", files[0], depends, lambda: self._instances(files, notes), notes)

    def label_part(self) -> Part:
        files = self._labels or self._all()
        return Part.located("labels", files[0], files, self._label_rows)

    def document_part(self, files: tuple[Path, ...]) -> Part:
        """The texts of these files."""
        return Part.located("documents", files[0], files, lambda: self._documents(files))

    def _documents(self, files: tuple[Path, ...]) -> Iterator[Located]:
        columns = self._columns(files)
        return (
            (each.path, each.line, (*_texts(columns, row, each), ()))
            for row, each in enumerate(records(files, columns.names()))
        )

    def _all(self) -> tuple[Path, ...]:
        return tuple(path for files in self._parts.values() for path in files)

    def _label_rows(self) -> Iterator[Located]:
        if not self._labels:
            yield from ((path, line, (title, title, "", ())) for title, (path, line) in self._values.items())
            return
        columns = Columns.of(columns_of(self._labels), {}, self._labels[0], labels=True)
        for row, each in enumerate(records(self._labels, columns.names())):
            title = each.text(columns.title or columns.text)
            if not title.strip():
                raise at(each.path, each.line, "the label has no text", "every label needs one")
            yield each.path, each.line, (_uid(columns, row, each), title, "", ())

    @cached_property
    def _places(self) -> dict[str, int]:
        """Label -> its row: of the table of labels by uid, or of the values that occur."""
        return {uid: row for row, (_, _, (uid, *_)) in enumerate(self._label_rows())}

    @cached_property
    def _values(self) -> dict[str, tuple[Path, int]]:
        """The labels that occur, each with the file and the line where it does first."""
        found: dict[str, tuple[Path, int]] = {}
        for files in self._parts.values():
            columns = self._columns(files)
            for each in records(files, columns.names()) if columns.labels else ():
                for label in self._named(columns, each):
                    found.setdefault(label, (each.path, each.line))
        if not found:
            path = next(iter(self._parts.values()))[0]
            raise UsageError(
                f"{path} has no labels", 'name their column: "PLACE?labels=COLUMN"; or put labels.csv beside it'
            )
        return found

    def _named(self, columns: Columns, each: Record) -> list[str]:
        """The labels of a row: uids as in the table of labels; without one, texts, without white space around them."""
        found = each.labels(columns.labels, columns.separator)
        return found if self._labels else [text for label in found if (text := label.strip())]

    def _instances(self, files: tuple[Path, ...], notes: list[str]) -> Iterator[Located]:
        columns, places = self._columns(files), self._places
        cells, vectors = _Cells(columns.separator), Vectors(columns.labels or "", bool(self._labels))
        for row, each in enumerate(records(files, columns.names())):
            cells.add(each.cells.get(columns.labels or ""))
            vectors.add(each, each.values(columns.labels, columns.separator))
            named = self._named(columns, each) if columns.labels else []
            unknown = [label for label in named if label not in places]
            if unknown:
                hint = f"labels are uids of {self._labels[0].name}" if self._labels else ""
                raise at(each.path, each.line, f"there is no label {unknown[0][:60]!r}", hint)
            yield each.path, each.line, (*_texts(columns, row, each), [places[label] for label in named])
        vectors.check()
        if cells.undivided():
            notes.append(
                f"no cell of {columns.labels} in {files[0].name} has the separator {columns.separator!r}, and "
                f"{cells.commas:,} of {cells.texts:,} have a comma; where commas separate labels, add ?separator=, to "
                "the place"
            )


class _Cells:
    """Counts cells of labels that are text: all of them, those with the separator, and those with a comma."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self.texts = self.divided = self.commas = 0

    def add(self, cell: object) -> None:
        """Count a cell; one that is no text, or a JSON list, says nothing about separators."""
        if isinstance(cell, str) and cell.strip() and not cell.lstrip().startswith("["):
            self.texts += 1
            self.divided += self._separator in cell
            self.commas += "," in cell

    def undivided(self) -> bool:
        """Whether commas seem to separate the labels, and the separator does not."""
        return not self.divided and self.commas >= max(_COMMAS, self.texts / 2)


def _texts(columns: Columns, row: int, each: Record) -> tuple[str, str, str]:
    """Uid, title and content of a row; text without a title is the title."""
    text = each.text(columns.text) if columns.text else ""
    title = each.text(columns.title) if columns.title else ""
    uid = _uid(columns, row, each)
    return (uid, title, text) if columns.title else (uid, text, "")


def _uid(columns: Columns, row: int, each: Record) -> str:
    if columns.uid is None:
        return str(row)
    if each.cells.get(columns.uid) is None:
        raise at(each.path, each.line, f"{columns.uid} is missing", "give every row one, or none")
    return each.text(columns.uid)


def _whole_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """The tables of a folder with one of these names, first what is taken."""
    return [path for name in names for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()]


def splits_of(folder: Path, names: Iterable[str]) -> list[tuple[Path, ...]]:
    """What could be a split, here or in ``data``: ``train.csv``, or the shards ``train-00000-of-00002.parquet``.

    Shards of different totals are different splits. Files that only begin like one (train-small.csv) count where there
    is nothing else, each as a split of its own.
    """
    found: list[tuple[Path, ...]] = []
    others: list[tuple[Path, ...]] = []
    for name in names:
        for place in (folder, folder / "data"):
            found += [(path,) for path in _whole_files(place, (name,))]
            for ending in ENDINGS if place.is_dir() else ():
                shards: dict[int | None, list[Path]] = {}
                rest = []
                for path in filter(Path.is_file, sorted(place.glob(f"{name}-*{ending}"))):
                    if _SHARD.fullmatch(path.name.removesuffix(ending), len(name)):
                        numbered = _number_of(path)
                        shards.setdefault(numbered[1] if numbered else None, []).append(path)
                    else:
                        rest.append(path)
                found += map(tuple, shards.values())
                others += [(path,) for path in rest]
    return found or others


def unused_splits(folder: Path) -> tuple[str, ...]:
    """A note on the validation set, if there is one."""
    unused = [each.name for files in splits_of(folder, _OTHER) for each in files]
    return (f"the validation set is not used: {', '.join(unused)}",) if unused else ()


def _number_of(path: Path) -> tuple[int, int] | None:
    """The number of a shard and their total, where its name has both."""
    found = _NUMBER_OF.search(path.name.partition(".")[0])
    return (int(found[1]), int(found[2])) if found else None


def whole(files: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files of a split. Raises DataError where some of its shards are missing."""
    if (first := _number_of(files[0])) and len({*map(_number_of, files)}) != first[1]:
        said = f"{len(files)} of {counted(first[1], 'shard')}"
        raise DataError(f"{files[0].parent} has {said} such as {files[0].name}", "get the others too")
    return files


def _only(folder: Path, found: Sequence[tuple[Path, ...]]) -> tuple[Path, ...]:
    """The files of a split, if any were found. Raises DataError where several could be meant, or some are missing."""
    if len(found) > 1:
        names = " and ".join(str(files[0].relative_to(folder)) for files in found)
        raise DataError(f"{folder} has {names}: only one of them can be read", "move the others to another folder")
    return whole(found[0]) if found else ()
