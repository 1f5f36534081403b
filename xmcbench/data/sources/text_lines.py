"""Files with one text per line, uids beside them, and pairs in a matrix: their layouts, and those of ZestXML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from xmcbench.data.sources.source import SHORT_NAMES, Content, Holding, Part, Place, Row, Source
from xmcbench.data.text_files import at, find_source, read_lines, read_texts, suffix_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts

#: The mark that many programs take off the front of a file.
MARK = "\ufeff"

_HINT = "--flatten makes every run of white space a space; the formats xc, csv, jsonl and parquet hold any text"


def split_text(text: str) -> tuple[str, str]:
    """Return title and content of a text, before and after its first tab."""
    title, _, content = text.partition("\t")
    return title, content


def label_part(path: Path) -> Part:
    """Labels, one per line."""

    def rows() -> Iterator[Row]:
        for number, (uid, text) in enumerate(_with_uids(path), 1):
            if not text.strip():
                raise at(path, number, "the label has no text", "every label needs one")
            yield Row(path, number, uid, text)

    return Part("labels", path, _files(path), rows)


def instance_part(path: Path, pairs: Path, matrix: Callable[[Path], csr_matrix], labels: Path) -> Part:
    """Instances, one per line: title, tab, content. matrix: reads ``pairs``, with a column per label.

    Without a file of pairs there are none, and a note says so. Raises DataError for a link that leads nowhere.
    """
    has_pairs = pairs.exists()
    if not has_pairs and pairs.is_symlink():
        raise DataError(f"{pairs} is a link to a file that is not there", "fetch the file, or remove the link")

    def rows() -> Iterator[Row]:
        total = sum(1 for _ in read_texts(labels))
        found = matrix(pairs) if has_pairs else None
        if found is not None and found.shape[1] != total:
            columns = format_count(found.shape[1], "column")
            what = f"{pairs} has {columns}, but {labels} has {format_count(total, 'line')}"
            raise DataError(what, "expected one column per label; is it the matrix of another dataset?")
        number = 0
        for number, (uid, text) in enumerate(_with_uids(path), 1):
            if found is None:
                yield Row(path, number, uid, *split_text(text))
            elif number <= found.shape[0]:
                ids = found.indices[found.indptr[number - 1] : found.indptr[number]].tolist()
                yield Row(path, number, uid, *split_text(text), ids)
        if found is not None and number != found.shape[0]:
            what = f"{pairs} has {format_count(found.shape[0], 'row')}, but {path} has {format_count(number, 'line')}"
            raise DataError(what, "expected one row per line; is a file truncated?")

    notes = [] if has_pairs else [f"no pairs: {pairs.name} is not there"]
    return Part("instances", path, (*_files(path), *([pairs] if has_pairs else []), labels), rows, notes)


def _uid_file(path: Path) -> str:
    """The name of the file that holds the uids of the texts in ``path``: ``X.trn.uids.txt``."""
    return f"{path.name.removesuffix('.gz').removesuffix('.txt')}.uids.txt"


def _with_uids(path: Path) -> Iterator[tuple[str, str]]:
    uids = find_source(path.parent, _uid_file(path))
    try:
        yield from zip(read_texts(uids) if uids else map(str, count()), read_texts(path), strict=bool(uids))
    except ValueError:
        raise DataError(f"{uids} does not have as many lines as {path}", "expected one uid per text") from None


def _files(path: Path) -> tuple[Path, ...]:
    uids = find_source(path.parent, _uid_file(path))
    return (path, uids) if uids else (path,)


def has_uids(texts: Texts) -> bool:
    """Tell whether the uids are more than row numbers."""
    return any(uid != str(row) for row, uid in enumerate(texts.uids))


def one_line(text: str) -> str:
    """Return a text as one line: every run of white space becomes a space."""
    return " ".join(text.split())


def _join(title: str, content: str, flatten: bool) -> str:
    """Join title and content, for ``split_text`` to divide. Raises DataError for a title with a tab."""
    if flatten:
        title, content = one_line(title), one_line(content)
    elif "\t" in title:
        raise DataError(f"the title {title[:60]!r} has a tab, which this format cannot hold", _HINT)
    return f"{title}\t{content}" if content else title


def write_lines(path: Path, lines: Iterable[str], what: str = "text", flatten: bool = False) -> None:
    """Write one text per line, UTF-8. Raises DataError for a text that is not one line, unless it may be flattened."""
    with atomic_file(path) as stream:
        for number, text in enumerate(lines):
            has_break = "\n" in text or "\r" in text
            if has_break and not flatten:
                raise DataError(f"the {what} {text[:60]!r} has a line break, which {path.name} cannot hold", _HINT)
            line = one_line(text) if has_break else text
            # A reader takes the first mark off.
            mark = MARK if not number and line.startswith(MARK) else ""
            stream.write(f"{mark}{line}\n".encode())


def write_instance_lines(path: Path, texts: Texts, flatten: bool) -> None:
    """Write instances, one per line, and their uids beside them if they have any."""
    both = zip(texts.titles, texts.contents, strict=True)
    write_lines(path, (_join(title, content, flatten) for title, content in both))
    _write_uids(path, texts, flatten)


def write_label_lines(path: Path, texts: Texts, flatten: bool) -> None:
    """Write labels, one per line, and their uids beside them if they have any."""
    write_lines(path, map(one_line, texts.titles) if flatten else texts.titles)
    _write_uids(path, texts, flatten)


def _write_uids(path: Path, texts: Texts, flatten: bool) -> None:
    if has_uids(texts):
        write_lines(path.with_name(_uid_file(path)), texts.uids, "uid", flatten)


class PlainText(Source):
    """A ``.txt`` file. The part of a line before the first tab is the title, the rest is the content."""

    name = "text"
    title = "documents without labels: a .txt file with one document per line (for `xmcbench suggest`)"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.path.is_file() and suffix_of(place.path) == ".txt"

    def find_parts(self) -> Holding:
        raise DataError(f"{self.place.path} has no labels", "a dataset needs label texts: see `xmcbench ls layouts`")

    def documents(self) -> Part:
        path = self.place.path

        def rows() -> Iterator[Row]:
            return (Row(path, number, str(number - 1), *split_text(text)) for number, text in read_lines(path))

        return Part("documents", path, (path,), rows)


#: Bags of words, and their vocabularies. ``Yf.txt`` is a matrix in one repository and text in the other.
_FEATURES = ("trn_X_Xf", "tst_X_Xf", "val_X_Xf", "lbl_X_Xf", "Y_Yf", "Xf", "Yf")


class XCLines(Source):
    """``trn_X_Y.txt``, ``tst_X_Y.txt``; ``trn_X.txt``, ``tst_X.txt`` and ``Y.txt`` beside them."""

    name = "xc-lines"
    title = "label matrices of the Extreme Classification repository with raw text: trn_X_Y.txt, trn_X.txt, Y.txt"

    #: The folder of the texts, below that of the matrices.
    raw: ClassVar[str] = "."

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(f"{cls.raw}/Y.txt") is not None

    def find_parts(self) -> Holding:
        labels = self.place.find(f"{self.raw}/Y.txt")
        if labels is None:
            raise DataError(f"{self.place.path} has no {Path(self.raw, 'Y.txt')}", "the labels, one per line")
        parts = {
            side: instance_part(texts, self._matrix(short), _read_pairs, labels)
            for side, short in SHORT_NAMES.items()
            if (texts := self.place.find(f"{self.raw}/{short}_X.txt"))
        }
        if not parts:
            missing = Path(self.raw, "trn_X.txt")
            raise DataError(f"{self.place.path} has no {missing}", "the training instances, one per line")
        notes = [
            f"{what}: {', '.join(path.name for path in found)}"
            for what, names in (
                ("bags of words are not read, methods get the raw text", _FEATURES),
                ("the validation set is not used", ("val_X_Y", f"{self.raw}/val_X")),
            )
            if (found := [path for name in names if (path := self.place.find(f"{name}.txt"))])
        ]
        return Holding(label_part(labels), parts.get("train"), parts.get("test"), tuple(notes))

    def _matrix(self, short: str) -> Path:
        """The label matrix of a side, which may not be there."""
        plain = self.place.path / f"{short}_X_Y.txt"
        packed = plain.with_name(f"{plain.name}.gz")
        return packed if packed.exists() or packed.is_symlink() else plain

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        from xmcbench.data.xc_matrix import write_matrix

        for side, texts, pairs in content.sides():
            write_instance_lines(folder / cls.raw / f"{SHORT_NAMES[side]}_X.txt", texts, flatten)
            write_matrix(folder / f"{SHORT_NAMES[side]}_X_Y.txt", pairs)
        write_label_lines(folder / cls.raw / "Y.txt", content.labels, flatten)


class GZXML(XCLines):
    """As ``XCLines``, with the texts in the folder ``raw``: the layout of ZestXML."""

    name = "zestxml"
    title = "the layout of ZestXML (GZXML): trn_X_Y.txt, raw/trn_X.txt, raw/Y.txt"
    raw = "raw"


def _read_pairs(path: Path) -> csr_matrix:
    """Read a label matrix without the entries that are 0. All others are pairs, whatever their value."""
    from xmcbench.data.xc_matrix import read_matrix

    found = read_matrix(path)
    found.eliminate_zeros()
    return found
