"""The corpora of Annif: short texts (TSV, CSV, JSON Lines) or a folder of full texts, and a subject vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.compression import suffix_of
from xmcbench.data.rows import Located
from xmcbench.data.sources.annif_documents import (
    SHORT,
    Document,
    Named,
    full_text_files,
    full_texts,
    short_texts,
)
from xmcbench.data.sources.csv_rows import write_csv
from xmcbench.data.sources.json_lines import write_objects
from xmcbench.data.sources.records import records
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.tables import DEFAULTS
from xmcbench.data.sources.vocabulary import LANGUAGE, NAMES, SUFFIXES, bare, read_vocabulary
from xmcbench.data.sources.writing import LONG_NAMES, rows_of, sides
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset


class Annif(Source):
    """``train`` and ``test``, each a file of short texts or a folder of full texts, and ``vocabulary`` beside them.

    Short texts: TSV (``text<TAB><uri> <uri>``), CSV (``text``, ``subject_uris``, ``document_id``), or JSON Lines
    (``text``, ``subjects``, ``document_id``, ``metadata``). Full texts: ``.txt`` files, each with its subjects in a
    ``.tsv`` or ``.key`` (a URI, a label, or both on a line), and ``.json`` files, each an object as in JSON Lines. A
    title in the metadata is the title, and the text is the content. As in Annif, subjects that are not in the
    vocabulary are left out, those in it without a label, and lines of TSV without a tab.
    """

    name = "annif"
    title = "Annif: train.tsv (or .csv, .jsonl, a folder of .txt or .json), vocabulary.tsv (or .csv, .ttl, .rdf, .nt)"
    options = frozenset({"vocabulary", "language"})

    @classmethod
    def recognize(cls, place: Place) -> bool:
        if "vocabulary" in place.options:
            return True
        names = LONG_NAMES.values()
        short = _short_files(place, *names)
        has_part = bool(short) or any((place.path / name).is_dir() for name in names)
        return has_part and _vocabulary(place) is not None and not any(map(_is_table, short))

    def holding(self) -> Holding:
        given = self.place.options.get("vocabulary")
        path = self.place.path / given if given else _vocabulary(self.place)
        if path is None or not path.is_file():
            raise DataError(
                f"{self.place.path} has no vocabulary{f' {given}' if given else ''}",
                "vocabulary.tsv, .csv, .ttl, .rdf or .nt; or name it: vocabulary=FILE",
            )
        language = self.place.options.get("language")
        notes: list[str] = []
        labels = Part.located("labels", path, (path,), lambda: _labels(path, language, notes), notes)
        train, test = (self._part(name, path, language) for name in ("train", "test"))
        if train is None and test is None:
            raise DataError(
                f"{self.place.path} has no train.tsv", "or .csv, .jsonl, or a folder of .txt or .json files"
            )
        return Holding(labels, train, test, **self.filters())

    def _part(self, name: str, vocabulary: Path, language: str | None) -> Part | None:
        notes: list[str] = []
        short = _short_files(self.place, name)
        files: tuple[Path, ...]
        folder = self.place.path / name
        several = [path.name for path in short] + ([f"{name}/"] if folder.is_dir() else [])
        if len(several) > 1:
            raise DataError(
                f"{self.place.path} has {' and '.join(several)}: only one of them can be read",
                "move the others to another folder",
            )
        path: Path
        if short:
            (path,) = short
            documents = partial(short_texts, path, notes)
            files = (path, vocabulary)
        elif folder.is_dir():
            path = folder
            documents = partial(full_texts, folder, notes)
            files = (*full_text_files(folder), vocabulary)
        else:
            return None

        def rows() -> Iterator[Located]:
            return _instances(path, documents(), _Subjects(vocabulary, language), notes)

        return Part.located("instances", path, files, rows, notes)

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        uris = list(dataset.labels.uids)
        subjects = zip(uris, dataset.labels.titles, strict=True)
        write_csv(folder / "vocabulary.csv", ("uri", "label_en"), subjects)
        for uri in uris:
            if bare(uri) != uri:
                raise DataError(f"the uid {uri!r} is in angle brackets or begins or ends with a space", "not in Annif")
        for side, texts, pairs in sides(dataset):
            name = LONG_NAMES[side]
            entries = (_entry(*row, uris) for row in rows_of(texts, pairs))
            write_objects(folder / f"{name}.jsonl", entries)


def _entry(uid: str, title: str, content: str, ids: Sequence[int], uris: Sequence[str]) -> dict[str, object]:
    entry: dict[str, object] = {"document_id": uid, "text": content or title}
    if content:
        entry["metadata"] = {"title": title}
    return {**entry, "subjects": [{"uri": uris[label]} for label in ids]}


class _Subjects:
    """The places of subjects among the labels, by URI and by label; and counts of those that have none."""

    def __init__(self, path: Path, language: str | None) -> None:
        self._by_uri: dict[str, int] = {}
        self._by_label: dict[str, int] = {}
        self._unlabeled: set[str] = set()
        self.unknown = self.unlabeled = 0
        for subject in read_vocabulary(path, language):
            if subject.label:
                row = self._by_uri.setdefault(subject.uri, len(self._by_uri))
                self._by_label.setdefault(subject.label, row)
            else:
                self._unlabeled.add(subject.uri)

    def places(self, subjects: Iterable[Named]) -> list[int]:
        """The label ids of subjects; others are counted."""
        return [place for subject in subjects if (place := self._place(subject)) is not None]

    def _place(self, subject: Named) -> int | None:
        uri = bare(subject.text)
        by_label = None if subject.is_uri else self._by_label.get(subject.text)
        place = self._by_uri.get(uri) if by_label is None else by_label
        if place is None:
            self.unlabeled += uri in self._unlabeled
            self.unknown += uri not in self._unlabeled
        return place


def _vocabulary(place: Place) -> Path | None:
    return place.find(*(name + suffix for name in NAMES for suffix in SUFFIXES))


def _short_files(place: Place, *names: str) -> list[Path]:
    """The files of short texts with one of these names."""
    return [path for name in names for suffix in SHORT if (path := place.find(name + suffix))]


def _is_table(path: Path) -> bool:
    """Whether a file is a table as ``Tables`` reads it: it names a column of labels in another way than Annif does."""
    labels = {*DEFAULTS["labels"]} - ({"subjects"} if suffix_of(path) == ".jsonl" else set())
    try:
        row = next(records((path,), ()), None)
    except DataError:  # which the reader of the layout will say again
        return False
    return row is not None and not labels.isdisjoint(row.cells)


def _labels(path: Path, language: str | None, notes: list[str]) -> Iterator[Located]:
    unlabeled = others = 0
    for subject in read_vocabulary(path, language):
        unlabeled += not subject.label
        others += bool(subject.language)
        if subject.label:
            yield path, subject.line, (subject.uri, subject.label, "", ())
    if unlabeled:
        notes.append(f"{counted(unlabeled, 'subject')} of {path.name} left out: deprecated, or without a label")
    if others:
        found = f"{counted(others, 'label')} of {path.name} in another language than {language or LANGUAGE!r}"
        notes.append(f"{found}, in which their concepts have none; ?language=LANGUAGE chooses one")


def _instances(path: Path, documents: Iterable[Document], subjects: _Subjects, notes: list[str]) -> Iterator[Located]:
    for document in documents:
        row = (document.uid, document.title, document.content, subjects.places(document.subjects))
        yield document.path, document.line, row
    if subjects.unknown:
        notes.append(f"{counted(subjects.unknown, 'subject')} of {path.name} left out: not in the vocabulary")
    if subjects.unlabeled:
        left_out = f"{counted(subjects.unlabeled, 'subject')} of {path.name} left out"
        notes.append(f"{left_out}: deprecated in the vocabulary, or without a label there")
