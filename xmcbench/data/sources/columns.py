"""The columns of tables: which one has which role, and what only a whole column tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from xmcbench.data.sources.records import Record, note_division, read_records
from xmcbench.data.text_files import suffix_of
from xmcbench.errors import DataError, UsageError
from xmcbench.output.quantities import format_count
from xmcbench.storage.atomic import write_text
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.reading import read_text

#: The columns that are tried per role where none is named.
DEFAULTS = {
    "uid": ("uid", "id", "_id", "document_id"),
    "title": ("title",),
    "text": ("text", "content", "abstract", "body", "document", "sentence"),
    "labels": ("labels", "label", "subjects", "tags", "categories", "keywords"),
}

#: The title in a table of labels that has no column of texts.
_LABEL_TITLES = ("title", "label", "name")
#: Columns of a table of labels: lists, and a content.
LISTS, CONTENT = ("alternatives", "parents"), "content"
OF_LABELS = (*LISTS, CONTENT)
#: Between labels in one cell, where they are not a list.
_SEPARATOR = ";"
#: The tables whose rows need not have every column, and the file in the cache that has the columns of one.
_JSON, _COLUMNS = (".json", ".jsonl"), "columns.json"
#: The tables whose cells are all text, so that labels are divided by the separator.
TEXT = (".csv", ".tsv")
#: Other separators that people use, the ones first that are the least likely within a label. A note is about one in at
#: least so many cells without the separator, if no more than this share of them have the separator.
_OTHERS = {
    "\n": "line breaks",
    "|": "vertical bars",
    "\uff1b": "full-width semicolons",
    "\u3001": "ideographic commas",
    "\uff0c": "full-width commas",
    " / ": "slashes",
    ",": "commas",
}
_LEAST, _FEW = 10, 0.1
#: A cell of text that is a vector: with something between its digits, or bare, which could be the code of a label.
_DIVIDED, _BARE = re.compile(r"[01](?:[\s,|/]+[01])+"), re.compile(r"[01]{3,}")
#: An integer, also as a program writes it that keeps numbers as floats; and missing values as pandas prints them.
_INTEGER, _MISSING = re.compile(r"-?[0-9]+(\.0)?"), ("nan", "none", "null", "<na>")


@dataclass(frozen=True)
class Columns:
    """The column of each role; None where there is none. separator: between the labels of a cell of text."""

    uid: str | None
    title: str | None
    text: str | None
    labels: str | None
    separator: str

    def __str__(self) -> str:
        return f"{self.of_texts}{f', labels={self.labels}' if self.labels else '; there is no column of labels'}"

    @property
    def of_texts(self) -> str:
        """The columns of a document, in words."""
        return ", ".join(f"{role}={name}" for role in ("uid", "title", "text") if (name := getattr(self, role)))

    def names(self) -> tuple[str, ...]:
        """The columns that are there."""
        return tuple(filter(None, (self.uid, self.title, self.text, self.labels)))

    @classmethod
    def of(cls, files: Sequence[Path], options: Mapping[str, str], labels: bool = False) -> Columns:
        """The columns that are named, or the first of the usual ones. labels: of a table of labels.

        A column that is named as title, text or labels is not taken for another of these. Raises UsageError, and
        DataError for a shard without a column that is read.
        """
        found: dict[str, str | None] = {}
        present, where = list_columns(files), files[0]
        has = f"it has: {', '.join(present)}{note_division(present, where)}"
        given = {options.get(role) for role in DEFAULTS if role != "uid"}
        usual_names = {**DEFAULTS, "title": _LABEL_TITLES} if labels and "text" not in present else DEFAULTS
        for role, usual in usual_names.items():
            wanted = options.get(role)
            if wanted is not None and wanted not in present:
                raise UsageError(f"{where} has no column {wanted!r}", has)
            free = (name for name in usual if name in present and (role == "uid" or name not in given))
            found[role] = wanted or next(free, None)
        if found["text"] is None and found["title"] is None:
            hint = "call them uid and title" if labels else 'name it: "PLACE?text=COLUMN&labels=COLUMN"'
            raise UsageError(f"{where} has no text column with a known name", f"{hint}; {has}")
        columns = cls(**found, separator=options.get("separator") or _SEPARATOR)
        used = (columns.uid, columns.title or columns.text, *OF_LABELS) if labels else columns.names()
        _check_shards(files, [name for name in used if name and name in present])
        return columns


def _check_shards(files: Sequence[Path], used: Sequence[str]) -> None:
    """Raise DataError for a shard without a column that is read, of which its rows would be empty.

    In JSON, a row need not have every key.
    """
    for path in files if len(files) > 1 and suffix_of(files[0]) not in _JSON else ():
        present = _list_of_file(path)
        if present and (lacking := next((name for name in used if name not in present), None)):
            hint = f"every shard needs the columns of the others, in CSV a header; it has: {', '.join(present)}"
            raise DataError(f"{path} has no column {lacking!r}, which other shards have", hint)


def list_columns(files: Sequence[Path]) -> list[str]:
    """List the columns of the shards of a table; of JSON, the keys of all rows, which are kept in the cache.

    Raises DataError where no row is.
    """
    if suffix_of(files[0]) not in _JSON:
        return _list(files)
    from xmcbench.data.store import changed_error, get_cached

    sha256 = fingerprint(*files)

    def fill(folder: Path) -> None:
        write_text(folder / _COLUMNS, json.dumps(_list(files)))  # a key may be no text
        if fingerprint(*files) != sha256:
            raise changed_error(files[0])

    folder = get_cached("columns", {"sha256": sha256}, fill)
    return [*json.loads(read_text(folder / _COLUMNS))]


def _list(paths: Sequence[Path]) -> list[str]:
    found = {name: None for path in paths for name in _list_of_file(path)}
    if not found:
        raise DataError(f"{paths[0]} is empty", "a table needs rows")
    return [*found]


def _list_of_file(path: Path) -> list[str]:
    """List the columns of a file; of JSON Lines, the keys of all rows. None of a text file without rows."""
    if suffix_of(path) not in (*TEXT, *_JSON):
        from xmcbench.data.sources.arrow_tables import column_names

        return column_names(path)
    found: dict[str, None] = {}
    for record in read_records((path,)):
        found |= dict.fromkeys(record.cells)
        if suffix_of(path) in TEXT:
            break  # in JSON, a row need not have every key
    return [*found]


def note_gaps(rows: Iterable[Record], columns: Iterable[str | None], notes: list[str]) -> Iterator[Record]:
    """Yield rows. notes: gets one on each column that some of them do not have: in JSON a key may be misspelled."""
    names = [*filter(None, columns)]
    total, gaps = 0, dict[str, tuple[int, Record]]()
    for record in rows:
        total += 1
        for name in names:
            if name not in record.cells:
                count, first = gaps.get(name, (0, record))
                gaps[name] = (count + 1, first)
        yield record
    for name, (count, first) in gaps.items():
        where = f"{count:,} of {format_count(total, 'row')}, the first in {first.path.name}, line {first.line}"
        notes.append(f"no key {name!r} in {where}: read as empty")


def spell(separator: str) -> str:
    """Return a separator as one writes it behind ?separator=, with white space that can be seen."""
    return separator.replace(" ", "%20").replace("\n", "%0A")


class LabelColumn:
    """The cells of a column of labels, counted while they are read: vectors of zeros and ones, integers written as
    floats, or lists with another separator, are told by the whole column only. has_table: labels are uids of a table.
    """

    def __init__(self, name: str, separator: str, has_table: bool) -> None:
        self._name, self._separator, self._has_table = name, separator, has_table
        self._texts = self._divided = 0
        self._others = dict.fromkeys(_OTHERS, 0)
        self._first: Record | None = None
        self._digits = ""
        self._is_vector, self._is_certain = True, False
        self._are_integers = not has_table
        self._float: tuple[Record, str] | None = None
        self._missing: dict[str, None] = {}
        self._without = 0

    def add(self, record: Record) -> None:
        """Count a cell."""
        cell = record.cells.get(self._name)
        text = cell if isinstance(cell, str) and not cell.lstrip().startswith("[") else ""
        is_text = bool(text.strip())
        self._texts += is_text
        is_divided = is_text and self._separator in text
        self._divided += is_divided
        for sign in () if is_divided else self._others:
            self._others[sign] += sign in text.strip()
        values = record.values(self._name, self._separator)
        if not self._has_table:
            self._count_numbers(record, [str(value).strip() for value in values], is_text)
        if not (self._is_vector and values):
            return
        only = values[0] if len(values) == 1 and isinstance(values[0], str) else ""
        is_bare = not self._has_table and _BARE.fullmatch(only) is not None
        if is_text and _DIVIDED.fullmatch(only):
            digits = re.sub("[^01]", "", only)
        else:
            digits = "".join(map(str, values)) if {*map(str, values)} <= {"0", "1"} or is_bare else ""
        if self._first is None:
            self._first, self._digits = record, digits
        self._is_vector = len(digits) > 1 and len(digits) == len(self._digits)
        if is_bare:  # a number does not begin with a zero
            self._is_certain |= digits.startswith("0")
        else:  # labels are neither repeated nor in another order
            self._is_certain |= len({*digits}) < len(digits) or digits != self._digits

    def _count_numbers(self, record: Record, labels: Sequence[str], is_text: bool) -> None:
        """Tell integers and missing values. is_text: these labels are no list."""
        missing = [label for label in labels if label.casefold() in _MISSING]
        self._missing |= dict.fromkeys(missing)
        self._without += bool(missing)
        for label in labels if self._are_integers else ():
            found = _INTEGER.fullmatch(label)
            if found and found[1] and is_text:
                self._float = self._float or (record, label)
            elif label not in self._missing:
                self._are_integers = found is not None and not found[1]

    def check(self) -> None:
        """Raise DataError where all cells are vectors of zeros and ones, of one length, or integers, some as floats."""
        if self._float and self._are_integers:
            record, label = self._float
            hint = f"in pandas, frame[{self._name!r}].astype('Int64') writes {label.removesuffix('.0')}"
            what = f"{self._name} has {label[:40]!r}, which is not a label"
            raise record.error(what, f'{hint}; a label that is such a text is written ["{label}"]')
        if self._first is not None and self._is_vector and self._is_certain:
            cell = str(self._first.cells[self._name])[:40]
            what = f"a vector of {len(self._digits)} zeros and ones as in every row, not the labels"
            hint = "labels that are such codes need a table labels.csv with uid and title"
            raise self._first.error(
                f"{self._name} is {cell!r}, {what}", f"give every row the labels at its ones; {hint}"
            )

    def notes(self, file: str) -> list[str]:
        """A note where another sign seems to separate the labels, and one on labels that may be missing values."""
        return [*self._note_missing(file), *self._note_separator(file)]

    def _note_missing(self, file: str) -> list[str]:
        if not self._without:
            return []
        *others, last = map(repr, self._missing)
        named = f"{', '.join(others)} or {last}" if others else last
        rows = f"{format_count(self._without, 'row')} of {file} {'has' if self._without == 1 else 'have'}"
        return [f"{rows} the label {named}: if that means no label, leave the cell empty"]

    def _note_separator(self, file: str) -> list[str]:
        sign, count = max(self._others.items(), key=itemgetter(1))
        if count < max(_LEAST, self._texts / 2) or self._divided > _FEW * count:
            return []
        return [
            f"the separator {self._separator!r} is in {self._divided:,} of {self._texts:,} cells of {self._name} in "
            f"{file}, and {sign!r} in {count:,} of the others; if {_OTHERS[sign]} separate the labels, append "
            f"?separator={spell(sign)} to the place"
        ]
