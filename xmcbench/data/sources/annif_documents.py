"""The documents of Annif: short texts in TSV, CSV or JSON Lines, and folders of full texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.sources.records import Record, parse_object, read_csv, read_objects
from xmcbench.data.text_files import at, find_source, open_source, read_all, read_lines, strip_marks, suffix_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted
from xmcbench.storage.reading import DOCUMENT

#: The files of short texts.
SHORT = (".tsv", ".csv", ".jsonl")

#: The files of full texts: a text, a document with its subjects, and the subjects of a text.
_TEXT, _OBJECT, _SUBJECTS = ".txt", ".json", (".tsv", ".key")


class Named(NamedTuple):
    """A subject as a document names it. is_uri: by its URI; otherwise by its label, or by what may be its URI."""

    text: str
    is_uri: bool


class Document(NamedTuple):
    """A document with its file and its line."""

    path: Path
    line: int
    uid: str
    title: str
    content: str
    subjects: list[Named]


def short_texts(path: Path, notes: list[str]) -> Iterator[Document]:
    """The documents of a file. notes: gets one on lines of TSV without a tab, which are left out as in Annif."""
    if suffix_of(path) == ".tsv":
        yield from _tsv(path, notes)
    elif suffix_of(path) == ".jsonl":
        for row, record in enumerate(read_objects(path)):
            yield _of_object(record, str(row))
    else:
        for row, record in enumerate(read_csv(path)):
            if "text" not in record.cells:
                raise at(path, 1, "there is no column 'text'", f"there are: {', '.join(record.cells)}")
            title, text = record.text("title"), record.text("text")
            uid = record.text("document_id") if "document_id" in record.cells else str(row)
            both = (title, text) if title else (text, "")
            yield Document(path, record.line, uid, *both, _uris(record.text("subject_uris")))


def full_text_files(folder: Path) -> list[Path]:
    """The files of a folder that full texts are read from."""
    return sorted(path for path in folder.iterdir() if suffix_of(path) in (_TEXT, _OBJECT, *_SUBJECTS))


def full_texts(folder: Path, notes: list[str]) -> Iterator[Document]:
    """The ``.txt`` and ``.json`` files of a folder, by name; the first line of a text is its title.

    notes: gets one on files of subjects without a text.
    """
    files = full_text_files(folder)
    documents = [path for path in files if suffix_of(path) not in _SUBJECTS]
    if not documents:
        raise DataError(f"{folder} has no .txt or .json file", "a full text each, a .txt with a .tsv or .key beside it")
    for path in documents:
        if suffix_of(path) == _OBJECT:
            yield _of_object(Record(path, 1, parse_object(path, 1, _text(path))), _stem(path))
        else:
            title, _, content = _text(path).strip("\r\n").partition("\n")
            yield Document(path, 1, _stem(path), title.strip(), content.strip(), _subjects_of(path))
    texts = {_stem(path) for path in documents if suffix_of(path) == _TEXT}
    if alone := [path for path in files if suffix_of(path) in _SUBJECTS and _stem(path) not in texts]:
        notes.append(f"{counted(len(alone), 'file')} of subjects in {folder.name} left out: without a text")


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(suffix_of(path))


def _text(path: Path) -> str:
    """Read the text of a file. Raises DataError for one that is too large, or not in UTF-8."""
    with open_source(path) as stream:
        content = read_all(stream, DOCUMENT)
    try:
        return strip_marks(content).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path}: {error}", "full texts are in UTF-8") from None


def _subjects_of(path: Path) -> list[Named]:
    """The subjects of a text, one per line: a URI, a label, or a URI, a tab and its label."""
    subjects = find_source(path.parent, *(f"{_stem(path)}{suffix}" for suffix in _SUBJECTS))
    cells = (line.strip().partition("\t")[0].strip() for _, line in (read_lines(subjects) if subjects else ()))
    return [Named(cell, is_uri=False) for cell in cells if cell]


def _tsv(path: Path, notes: list[str]) -> Iterator[Document]:
    row, without = 0, []
    for number, line in read_lines(path):
        text, tab, subjects = line.partition("\t")
        if tab:
            yield Document(path, number, str(row), text, "", _uris(subjects))
            row += 1
        elif text.strip():
            without.append(number)
    if without and not row:
        raise at(path, without[0], "has no tab", "expected the text, a tab, and the <uri>s of its subjects")
    if without:
        notes.append(f"{counted(len(without), 'line')} of {path.name} left out: no tab")


def _uris(cell: str) -> list[Named]:
    return [Named(uri, True) for uri in cell.split()]


def _of_object(record: Record, uid: str) -> Document:
    text, metadata = record.text("text"), record.cells.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    subjects = record.cells.get("subjects", [])
    if not isinstance(subjects, list) or not all(isinstance(subject, dict) for subject in subjects):
        raise record.error("subjects is not a list of objects", 'expected [{"uri": "..."}]')
    named = [
        Named(
            record._replace(cells=subject).text("uri" if "uri" in subject else "label", required=True), "uri" in subject
        )
        for subject in subjects
    ]
    uid = uid if record.cells.get("document_id") is None else record.text("document_id")
    both = (title, text) if isinstance(title, str) else (text, "")
    return Document(record.path, record.line, uid, *both, named)
