"""The corpora of Annif: short texts (TSV, CSV, JSON Lines) or a folder of full texts, and a subject vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.compression import suffix_of
from xmcbench.data.rows import Located, at
from xmcbench.data.sources.csv_rows import read_csv, write_csv
from xmcbench.data.sources.json_lines import read_objects, string_of, write_objects
from xmcbench.data.sources.records import records
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.tables import DEFAULTS
from xmcbench.data.sources.text_lines import read_lines
from xmcbench.data.sources.vocabulary import NAMES, SUFFIXES, bare, read_vocabulary
from xmcbench.data.sources.writing import LONG_NAMES, rows_of, sides
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted
from xmcbench.storage.reading import read_text

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset

_SHORT = (".tsv", ".csv", ".jsonl")

#: One document: line, uid, title, content, its subjects as URIs or labels, and whether these are URIs.
_Document = tuple[int, str, str, str, list[str], bool]


class Annif(Source):
    """``train`` and ``test``, each a file of short texts or a folder of full texts, and ``vocabulary`` beside them.

    Short texts: TSV (``text<TAB><uri> <uri>``), CSV (``text``, ``subject_uris``, ``document_id``), or JSON Lines
    (``text``, ``subjects``, ``document_id``, ``metadata``). Full texts: ``.txt`` files with ``.tsv`` (URIs) or ``.key``
    (labels). A title in the metadata is the title, and the text is the content. As in Annif, subjects that are not in
    the vocabulary are left out, and lines of TSV without a tab.
    """

    name = "annif"
    title = "Annif: train.tsv (or .csv, .jsonl, a folder of .txt), test.tsv, vocabulary.tsv (or .csv, .ttl, .rdf)"
    options = frozenset({"vocabulary", "language"})

    @classmethod
    def recognize(cls, place: Place) -> bool:
        if "vocabulary" in place.options:
            return True
        return _vocabulary(place) is not None and not any(map(_is_table, _short_files(place, *LONG_NAMES.values())))

    def holding(self) -> Holding:
        given = self.place.options.get("vocabulary")
        path = self.place.path / given if given else _vocabulary(self.place)
        if path is None or not path.is_file():
            raise DataError(
                f"{self.place.path} has no vocabulary{f' {given}' if given else ''}",
                "vocabulary.tsv, .csv, .ttl or .rdf; or name it: vocabulary=FILE",
            )
        language = self.place.options.get("language", "en")
        labels = Part.located("labels", path, (path,), lambda: _labels(path, language))
        train, test = (self._part(name, path, language) for name in ("train", "test"))
        if train is None and test is None:
            raise DataError(f"{self.place.path} has no train.tsv", "or .csv, .jsonl, or a folder of .txt files")
        return Holding(labels, train, test, **self.filters())

    def _part(self, name: str, vocabulary: Path, language: str) -> Part | None:
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
            documents = partial(_short_texts, path, notes)
            files = (path, vocabulary)
        elif folder.is_dir():
            path = folder
            documents = partial(_full_texts, folder)
            files = (*sorted(each for each in folder.iterdir() if each.suffix in (".txt", ".tsv", ".key")), vocabulary)
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
    """The places of subjects in the vocabulary, by URI and by label."""

    def __init__(self, path: Path, language: str) -> None:
        self._by_uri: dict[str, int] = {}
        self._by_label: dict[str, int] = {}
        for row, (_, uri, label) in enumerate(read_vocabulary(path, language)):
            self._by_uri[uri] = row
            self._by_label.setdefault(label, row)
        self.unknown = 0

    def places(self, subjects: Iterable[str], uris: bool) -> list[int]:
        """The label ids of subjects; unknown ones are counted."""
        known = self._by_uri if uris else self._by_label
        found = [known.get(bare(each) if uris else each) for each in subjects]
        self.unknown += found.count(None)
        return [place for place in found if place is not None]


def _vocabulary(place: Place) -> Path | None:
    return place.find(*(name + suffix for name in NAMES for suffix in SUFFIXES))


def _short_files(place: Place, *names: str) -> list[Path]:
    """The files of short texts with one of these names."""
    return [path for name in names for suffix in _SHORT if (path := place.find(name + suffix))]


def _is_table(path: Path) -> bool:
    """Whether a file is a table as ``Tables`` reads it: it names a column of labels in another way than Annif does."""
    labels = {*DEFAULTS["labels"]} - ({"subjects"} if suffix_of(path) == ".jsonl" else set())
    try:
        row = next(records((path,), ()), None)
    except DataError:  # which the reader of the layout will say again
        return False
    return row is not None and not labels.isdisjoint(row.cells)


def _labels(path: Path, language: str) -> Iterator[Located]:
    return ((path, line, (uri, label, "", ())) for line, uri, label in read_vocabulary(path, language))


def _instances(path: Path, documents: Iterable[_Document], subjects: _Subjects, notes: list[str]) -> Iterator[Located]:
    for line, uid, title, content, named, uris in documents:
        yield path, line, (uid, title, content, subjects.places(named, uris))
    if subjects.unknown:
        notes.append(f"{counted(subjects.unknown, 'subject')} of {path.name} left out: not in the vocabulary")


def _short_texts(path: Path, notes: list[str]) -> Iterator[_Document]:
    if suffix_of(path) == ".tsv":
        return _tsv(path, notes)
    return {".csv": _csv, ".jsonl": _json_lines}[suffix_of(path)](path)


def _tsv(path: Path, notes: list[str]) -> Iterator[_Document]:
    row, without = 0, []
    for number, line in enumerate(read_lines(path), 1):
        text, tab, subjects = line.partition("\t")
        if tab:
            yield number, str(row), text, "", subjects.split(), True
            row += 1
        elif text.strip():
            without.append(number)
    if without and not row:
        raise at(path, without[0], "has no tab", "expected the text, a tab, and the <uri>s of its subjects")
    if without:
        notes.append(f"{counted(len(without), 'line')} of {path.name} left out: no tab")


def _csv(path: Path) -> Iterator[_Document]:
    for row, (number, cells) in enumerate(read_csv(path, ",")):
        if "text" not in cells:
            raise at(path, 1, "there is no column 'text'", f"there are: {', '.join(cells)}")
        title, text = cells.get("title", ""), cells["text"]
        uid = cells.get("document_id", str(row))
        both = (title, text) if title else (text, "")
        yield number, uid, *both, cells.get("subject_uris", "").split(), True


def _json_lines(path: Path) -> Iterator[_Document]:
    for row, (number, entry) in enumerate(read_objects(path)):
        yield _of_object(path, number, entry, str(row))


def _of_object(path: Path, number: int, entry: dict[str, object], uid: str) -> _Document:
    text, metadata = string_of(path, number, entry, "text", ""), entry.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    subjects = entry.get("subjects", [])
    if not isinstance(subjects, list) or not all(isinstance(each, dict) for each in subjects):
        raise at(path, number, "subjects is not a list of objects", 'expected [{"uri": "..."}]')
    uris = all("uri" in each for each in subjects)
    named = [string_of(path, number, each, "uri" if uris else "label") for each in subjects]
    both = (title, text) if isinstance(title, str) else (text, "")
    return number, string_of(path, number, entry, "document_id", uid), *both, named, uris


def _full_texts(folder: Path) -> Iterator[_Document]:
    """Every ``.txt`` of a folder, by name: its first line is the title."""
    documents = sorted(path for path in folder.iterdir() if path.suffix == ".txt")
    if not documents:
        raise DataError(f"{folder} has no .txt file", "a full text each, with a .tsv or .key of the same name")
    for path in documents:
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read {path}: {error}", "full texts are regular files in UTF-8") from None
        title, _, content = text.strip("\r\n").partition("\n")
        uris, labels = path.with_suffix(".tsv"), path.with_suffix(".key")
        named: list[str] = []
        if uris.is_file():
            named = [line.partition("\t")[0] for line in read_lines(uris) if line.strip()]
        elif labels.is_file():
            named = [line.strip() for line in read_lines(labels) if line.strip()]
        yield 0, path.stem, title.strip(), content.strip(), named, uris.is_file()
