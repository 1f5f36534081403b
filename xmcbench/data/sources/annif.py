"""The corpora of Annif: short texts (TSV, CSV, JSON Lines) or a folder of full texts, and a subject vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from xmcbench.data.sources import records
from xmcbench.data.sources.columns import DEFAULTS
from xmcbench.data.sources.records import Record
from xmcbench.data.sources.source import Content, Holding, Part, Place, Row, Source, instance_rows, note_left_out
from xmcbench.data.sources.vocabulary import LANGUAGE, NAMES, SKOS, SUFFIXES, bare, read_vocabulary
from xmcbench.data.text_files import at, find_source, read_document, read_lines, suffix_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count

#: The files of short texts, and of full texts: a text, a document with its subjects, and the subjects of a text.
_SHORT = (".tsv", ".csv", ".jsonl")
_TEXT, _OBJECT, _SUBJECTS = ".txt", ".json", (".tsv", ".key")


class Annif(Source):
    """``train`` and ``test``, each a file of short texts or a folder of full texts, and ``vocabulary`` beside them.

    Short texts: TSV (``text<TAB><uri> <uri>``), CSV (``text``, ``subject_uris``, ``document_id``), or JSON Lines
    (``text``, ``subjects``, ``document_id``, ``metadata``). Full texts: ``.txt`` files, each with its subjects in a
    ``.tsv`` or ``.key`` (a URI, a label, or both on a line), and ``.json`` files, each an object as in JSON Lines. A
    title in the metadata, or beside the text, is the title, and the text is the content. As in Annif, subjects that are
    not in the vocabulary are left out, those in it without a label, and lines of TSV without a tab.
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

    def find_parts(self) -> Holding:
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
        notes: list[str] = []
        files = (*(_full_text_files(folder) if path == folder else [path]), vocabulary)
        return Part("instances", path, files, partial(_instances, path, vocabulary, language, notes), notes)

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        uris = list(content.labels.uids)
        records.write_csv(folder / "vocabulary.csv", ("uri", "label_en"), zip(uris, content.labels.titles, strict=True))
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
            records.write_objects(folder / f"{side}.jsonl", entries)


def _vocabulary(place: Place) -> Path | None:
    return place.find(*(name + suffix for name in NAMES for suffix in SUFFIXES))


def _short_files(place: Place, *names: str) -> list[Path]:
    """The files of short texts with one of these names."""
    return [path for name in names for suffix in _SHORT if (path := place.find(name + suffix))]


def describe_lack(place: Place) -> str:
    """Return what a folder lacks to be a corpus of Annif; empty for one that has neither documents nor a vocabulary."""
    if not place.path.is_dir():
        return ""
    vocabulary, folders = _vocabulary(place), (place.path / name for name in ("train", "test"))
    documents = [*_short_files(place, "train", "test"), *filter(Path.is_dir, folders)]
    others = sorted(path.name for path in place.path.iterdir() if path.is_file() and suffix_of(path) in SKOS)
    if vocabulary and not documents:
        return f"it has {vocabulary.name}, but no train.tsv or test.tsv (or .csv, .jsonl, or a folder of .txt or .json)"
    if documents and not vocabulary:
        named = f"; call {others[0]} vocabulary{suffix_of(Path(others[0]))}" if others else ""
        return f"it has {documents[0].name}, but no vocabulary.tsv (or .csv, .ttl, .rdf, .nt) as in Annif{named}"
    return ""


def _is_table(path: Path) -> bool:
    """Tell whether ``Tables`` reads a file: it names a column of labels in another way than Annif does."""
    labels = {*DEFAULTS["labels"]} - ({"subjects"} if suffix_of(path) == ".jsonl" else set())
    try:
        record = next(records.read_records((path,)), None)
    except DataError:  # which the reader of the layout will say again
        return False
    return record is not None and not labels.isdisjoint(record.cells)


def _labels(path: Path, language: str | None, notes: list[str]) -> Iterator[Row]:
    unlabeled = others = 0
    for subject in read_vocabulary(path, language):
        unlabeled += not subject.label
        others += bool(subject.language)
        if subject.label:
            yield Row(path, subject.line, subject.uri, subject.label, details=subject.details)
    note_left_out(notes, unlabeled, "subject", path, "deprecated, or without a label")
    if others:
        found = f"{format_count(others, 'label')} of {path.name} in another language than {language or LANGUAGE!r}"
        notes.append(f"{found}, in which their concepts have none; ?language=LANGUAGE chooses one")


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

    def rows(self, names: Iterable[str], are_uris: bool) -> list[int]:
        """The label ids of subjects, named by URI, or else by label or by what may be a URI; others are counted."""
        rows = []
        for name in names:
            uri = bare(name)
            row = None if are_uris else self._by_label.get(name)
            row = self._by_uri.get(uri) if row is None else row
            if row is not None:
                rows.append(row)
            elif uri in self._unlabeled:
                self.unlabeled += 1
            else:
                self.unknown += 1
        return rows


def _instances(path: Path, vocabulary: Path, language: str | None, notes: list[str]) -> Iterator[Row]:
    subjects = _Subjects(vocabulary, language)
    yield from (_full_texts if path.is_dir() else _short_texts)(path, subjects, notes)
    note_left_out(notes, subjects.unknown, "subject", path, "not in the vocabulary")
    note_left_out(notes, subjects.unlabeled, "subject", path, "deprecated in the vocabulary, or without a label there")


def _short_texts(path: Path, subjects: _Subjects, notes: list[str]) -> Iterator[Row]:
    """The documents of a file.

    notes: gets one on lines of TSV without a tab, which are left out as in Annif, or on a file without subjects.
    """
    if suffix_of(path) == ".tsv":
        row, without = 0, []
        for number, line in read_lines(path):
            text, tab, uris = line.partition("\t")
            if tab:
                yield Row(path, number, str(row), text, "", subjects.rows(uris.split(), are_uris=True))
                row += 1
            elif text.strip():
                without.append(number)
        if without and not row:
            raise at(path, without[0], "has no tab", "expected the text, a tab, and the <uri>s of its subjects")
        note_left_out(notes, len(without), "line", path, "no tab")
        return
    is_csv = suffix_of(path) == ".csv"
    key = "subject_uris" if is_csv else "subjects"
    has_subjects = False
    for row, record in enumerate((records.read_csv if is_csv else records.read_objects)(path)):
        has_subjects |= key in record.cells
        if not is_csv:
            yield _of_object(record, str(row), subjects)
        else:
            if "text" not in record.cells:
                raise at(path, 1, "there is no column 'text'", f"there are: {', '.join(record.cells)}")
            title, text = record.text("title"), record.text("text")
            uid = record.text("document_id") if "document_id" in record.cells else str(row)
            ids = subjects.rows(record.text(key).split(), are_uris=True)
            yield Row(path, record.line, uid, *((title, text) if title else (text, "")), ids)
    if not has_subjects:
        notes.append(f"no pairs: no row of {path.name} has {key}")


def _of_object(record: Record, uid: str, subjects: _Subjects) -> Row:
    text, metadata = record.text("text"), record.cells.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    if not isinstance(title, str) and "text" not in record.cells:
        raise record.error("there is no key 'text'", f"there are: {', '.join(record.cells)}")
    title = title if isinstance(title, str) else record.text("title") or None
    named = record.cells.get("subjects", [])
    if not isinstance(named, list) or not all(isinstance(subject, dict) for subject in named):
        raise record.error("subjects is not a list of objects", 'expected [{"uri": "..."}]')
    ids: list[int] = []
    for subject in named:
        key = "uri" if "uri" in subject else "label"
        ids += subjects.rows([record._replace(cells=subject).text(key, required=True)], are_uris=key == "uri")
    uid = uid if record.cells.get("document_id") is None else record.text("document_id")
    return Row(record.path, record.line, uid, *((text, "") if title is None else (title, text)), ids)


def _full_text_files(folder: Path) -> list[Path]:
    """The files of a folder that full texts are read from."""
    return sorted(path for path in folder.iterdir() if suffix_of(path) in (_TEXT, _OBJECT, *_SUBJECTS))


def _full_texts(folder: Path, subjects: _Subjects, notes: list[str]) -> Iterator[Row]:
    """The full texts of a folder, by name; the first line is the title. notes: gets one on subjects without a text."""
    files = _full_text_files(folder)
    documents = [path for path in files if suffix_of(path) not in _SUBJECTS]
    if not documents:
        raise DataError(f"{folder} has no .txt or .json file", "a full text each, a .txt with a .tsv or .key beside it")
    for path in documents:
        if suffix_of(path) == _OBJECT:
            entry = records.parse_object(path, 1, read_document(path))
            yield _of_object(Record(path, 1, entry), _stem(path), subjects)
            continue
        title, _, content = read_document(path).strip("\r\n").partition("\n")
        # One subject per line: a URI, a label, or a URI, a tab and its label.
        beside = find_source(folder, *(f"{_stem(path)}{suffix}" for suffix in _SUBJECTS))
        cells = (line.strip().partition("\t")[0].strip() for _, line in (read_lines(beside) if beside else ()))
        ids = subjects.rows(filter(None, cells), are_uris=False)
        yield Row(path, 1, _stem(path), title.strip(), content.strip(), ids)
    texts = {_stem(path) for path in documents if suffix_of(path) == _TEXT}
    if alone := [path for path in files if suffix_of(path) in _SUBJECTS and _stem(path) not in texts]:
        notes.append(f"{format_count(len(alone), 'file')} of subjects in {folder.name} left out: without a text")


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(suffix_of(path))
