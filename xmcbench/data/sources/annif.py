"""The corpora of Annif: short texts (TSV, CSV, JSON Lines) or a folder of full texts, and a subject vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from xmcbench.data.sources.annif_documents import SHORT, Document, Named, full_text_files, full_texts, short_texts
from xmcbench.data.sources.records import read_records, write_csv, write_objects
from xmcbench.data.sources.source import Content, Holding, Part, Place, Row, Source, instance_rows
from xmcbench.data.sources.tables import DEFAULTS
from xmcbench.data.sources.vocabulary import LANGUAGE, NAMES, SUFFIXES, bare, read_vocabulary
from xmcbench.data.text_files import suffix_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted


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
        short = _short_files(place, "train", "test")
        has_part = bool(short) or any((place.path / name).is_dir() for name in ("train", "test"))
        return has_part and _vocabulary(place) is not None and not any(map(_is_table, short))

    def holding(self) -> Holding:
        given, language = self.place.options.get("vocabulary"), self.place.options.get("language")
        path = self.place.path / given if given else _vocabulary(self.place)
        if path is None or not path.is_file():
            hint = "vocabulary.tsv, .csv, .ttl, .rdf or .nt; or name it: vocabulary=FILE"
            raise DataError(f"{self.place.path} has no vocabulary{f' {given}' if given else ''}", hint)
        notes: list[str] = []
        labels = Part("labels", path, (path,), partial(_labels, path, language, notes), notes)
        train, test = (self._part(name, path, language) for name in ("train", "test"))
        if train is None and test is None:
            hint = "or .csv, .jsonl, or a folder of .txt or .json files"
            raise DataError(f"{self.place.path} has no train.tsv", hint)
        return Holding(labels, train, test)

    def _part(self, name: str, vocabulary: Path, language: str | None) -> Part | None:
        folder = self.place.path / name
        found = [*_short_files(self.place, name), *([folder] if folder.is_dir() else [])]
        if not found:
            return None
        if len(found) > 1:
            names = " and ".join(f"{path.name}/" if path == folder else path.name for path in found)
            hint = "move the others to another folder"
            raise DataError(f"{self.place.path} has {names}: only one of them can be read", hint)
        (path,) = found
        read, files = (full_texts, full_text_files(folder)) if path == folder else (short_texts, [path])
        notes: list[str] = []

        def rows() -> Iterator[Row]:
            return _instances(path, read(path, notes), _Subjects(vocabulary, language), notes)

        return Part("instances", path, (*files, vocabulary), rows, notes)

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        uris = list(content.labels.uids)
        write_csv(folder / "vocabulary.csv", ("uri", "label_en"), zip(uris, content.labels.titles, strict=True))
        for uri in uris:
            if bare(uri) != uri:
                raise DataError(f"the uid {uri!r} is in angle brackets or begins or ends with a space", "not in Annif")
        for side, texts, pairs in content.sides():
            entries = (
                {"document_id": uid, "text": text or title}
                | ({"metadata": {"title": title}} if text else {})
                | {"subjects": [{"uri": uris[label]} for label in ids]}
                for uid, title, text, ids in instance_rows(texts, pairs)
            )
            write_objects(folder / f"{side}.jsonl", entries)


class _Subjects:
    """The rows of subjects among the labels, by URI and by label; and counts of those that have none."""

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

    def rows(self, subjects: Iterable[Named]) -> list[int]:
        """The label ids of subjects; others are counted."""
        return [row for subject in subjects if (row := self._row(subject)) is not None]

    def _row(self, subject: Named) -> int | None:
        uri = bare(subject.text)
        by_label = None if subject.is_uri else self._by_label.get(subject.text)
        row = self._by_uri.get(uri) if by_label is None else by_label
        if row is None:
            self.unlabeled += uri in self._unlabeled
            self.unknown += uri not in self._unlabeled
        return row


def _vocabulary(place: Place) -> Path | None:
    return place.find(*(name + suffix for name in NAMES for suffix in SUFFIXES))


def _short_files(place: Place, *names: str) -> list[Path]:
    """The files of short texts with one of these names."""
    return [path for name in names for suffix in SHORT if (path := place.find(name + suffix))]


def _is_table(path: Path) -> bool:
    """Tell whether ``Tables`` reads a file: it names a column of labels in another way than Annif does."""
    labels = {*DEFAULTS["labels"]} - ({"subjects"} if suffix_of(path) == ".jsonl" else set())
    try:
        record = next(read_records((path,)), None)
    except DataError:  # which the reader of the layout will say again
        return False
    return record is not None and not labels.isdisjoint(record.cells)


def _labels(path: Path, language: str | None, notes: list[str]) -> Iterator[Row]:
    unlabeled = others = 0
    for subject in read_vocabulary(path, language):
        unlabeled += not subject.label
        others += bool(subject.language)
        if subject.label:
            yield Row(path, subject.line, subject.uri, subject.label)
    if unlabeled:
        notes.append(f"{counted(unlabeled, 'subject')} of {path.name} left out: deprecated, or without a label")
    if others:
        found = f"{counted(others, 'label')} of {path.name} in another language than {language or LANGUAGE!r}"
        notes.append(f"{found}, in which their concepts have none; ?language=LANGUAGE chooses one")


def _instances(path: Path, documents: Iterable[Document], subjects: _Subjects, notes: list[str]) -> Iterator[Row]:
    for document in documents:
        yield Row(*document[:-1], subjects.rows(document.subjects))
    if subjects.unknown:
        notes.append(f"{counted(subjects.unknown, 'subject')} of {path.name} left out: not in the vocabulary")
    if subjects.unlabeled:
        left_out = f"{counted(subjects.unlabeled, 'subject')} of {path.name} left out"
        notes.append(f"{left_out}: deprecated in the vocabulary, or without a label there")
