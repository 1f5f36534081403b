"""Layouts with one text per line: instances, labels, uids beside them, and pairs in a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.compression import find_source, lines, open_source
from xmcbench.data.rows import ROWS, Row, Rows, at, batched, decoded, lone_return
from xmcbench.data.sources.source import Part
from xmcbench.data.sources.writing import joined, named, one_line, parted, write_lines
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file in UTF-8, without their ends (LF or CRLF) and without byte-order marks.

    Raises DataError with file and line for other bytes, and for a carriage return within a line.
    """
    with open_source(path) as stream:
        for number, line in enumerate(lines(stream), 1):
            text = decoded(path, number, line).rstrip("\r\n")
            if "\r" in text:
                raise lone_return(path, number)
            yield text


def read_texts(path: Path) -> Iterator[str]:
    """The lines of a file with one text per line, whose number another file confirms.

    Any other character is part of a text, as is a byte-order mark behind the first one. Raises DataError with file and
    line for other bytes than UTF-8.
    """
    with open_source(path) as stream:
        for number, line in enumerate(lines(stream), 1):
            yield decoded(path, number, line, is_text=True).removesuffix("\n").removesuffix("\r")


def beside(path: Path) -> str:
    """The name of the file that holds the uids of the texts in ``path``: ``X.trn.uids.txt``."""
    return f"{path.name.removesuffix('.gz').removesuffix('.txt')}.uids.txt"


def label_part(path: Path) -> Part:
    """Labels, one per line."""

    def rows() -> Iterator[Row]:
        for number, (uid, text) in enumerate(_with_uids(path), 1):
            if not text.strip():
                raise at(path, number, "the label has no text", "every label needs one")
            yield uid, text, "", ()

    return Part("labels", path, _files(path), lambda: batched(rows()))


def instance_part(path: Path, pairs: Path | None, matrix: Callable[[Path], csr_matrix], labels: Path) -> Part:
    """Instances, one per line, title and content divided by a tab, with their labels in a matrix.

    matrix: reads ``pairs``, whose columns are the lines of ``labels``.
    """

    def read() -> Iterator[Rows]:
        total = sum(1 for _ in read_texts(labels))
        found = matrix(pairs) if pairs else None
        if found is not None and found.shape[1] != total:
            raise DataError(
                f"{pairs} has {counted(found.shape[1], 'column')}, but {labels} has {counted(total, 'line')}",
                "expected one column per label; is it the matrix of another dataset?",
            )
        yield from batched(_instances(path, pairs, found), ROWS)

    return Part("instances", path, (*_files(path), *([pairs] if pairs else []), labels), read)


def _instances(path: Path, pairs: Path | None, found: csr_matrix | None) -> Iterator[Row]:
    total = 0
    for row, (uid, text) in enumerate(_with_uids(path)):
        title, content = parted(text)
        total += 1
        if found is None:
            yield uid, title, content, ()
        elif row < found.shape[0]:
            yield uid, title, content, found.indices[found.indptr[row] : found.indptr[row + 1]].tolist()
    if found is not None and total != found.shape[0]:
        raise DataError(
            f"{pairs} has {counted(found.shape[0], 'row')}, but {path} has {counted(total, 'line')}",
            "expected one row per line; is a file truncated?",
        )


def _with_uids(path: Path) -> Iterator[tuple[str, str]]:
    uids = find_source(path.parent, beside(path))
    if uids is None:
        yield from ((str(row), text) for row, text in enumerate(read_texts(path)))
        return
    try:
        yield from zip(read_texts(uids), read_texts(path), strict=True)
    except ValueError:
        raise DataError(f"{uids} does not have as many lines as {path}", "expected one uid per text") from None


def _files(path: Path) -> tuple[Path, ...]:
    uids = find_source(path.parent, beside(path))
    return (path, uids) if uids else (path,)


def write_instance_lines(path: Path, texts: Texts, flatten: bool) -> None:
    """Write instances, one per line, and their uids beside them if they have any."""
    both = zip(texts.titles, texts.contents, strict=True)
    write_lines(path, (joined(title, content, flatten) for title, content in both), flatten)
    _write_uids(path, texts, flatten)


def write_label_lines(path: Path, texts: Texts, flatten: bool) -> None:
    """Write labels, one per line, and their uids beside them if they have any."""
    write_lines(path, map(one_line, texts.titles) if flatten else texts.titles, flatten)
    _write_uids(path, texts, flatten)


def _write_uids(path: Path, texts: Texts, flatten: bool) -> None:
    if named(texts):
        write_lines(path.with_name(beside(path)), texts.uids, flatten, "uid")
