"""What the writers of all layouts share: the sides of a dataset, its rows, and texts that fit on a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data.dataset import Dataset
    from xmcbench.texts import Texts

#: What ends a line in some program, and the mark that many programs take off the front of a file.
_BREAKS = ("\n", "\r")
MARK = "\ufeff"


#: The sides as most layouts of tables call them.
LONG_NAMES = {"trn": "train", "tst": "test"}


def sides(dataset: Dataset) -> Iterator[tuple[str, Texts, csr_matrix]]:
    """trn and tst: the texts and the pairs."""
    train, test = texts_of(dataset)
    yield "trn", train, dataset.train_pairs()
    yield "tst", test, dataset.test_pairs()


def texts_of(dataset: Dataset) -> tuple[Texts, Texts]:
    """The training and the test instances.

    Uids that are no more than row numbers are those of the rows here. The rows of a test set that was drawn have the
    numbers of others, which a reader would take for names.
    """
    train, test = dataset.train, dataset.test
    return (
        train if dataset.train_corpus.uids else _numbered(train),
        test if dataset.test_corpus.uids else _numbered(test),
    )


def _numbered(texts: Texts) -> Texts:
    import pyarrow as pa

    from xmcbench.texts import Texts

    numbers = pa.array(map(str, range(len(texts))), pa.large_string(), size=len(texts))
    columns = {"uid": numbers, "title": texts.titles.to_arrow(), "content": texts.contents.to_arrow()}
    return Texts(pa.table(columns), texts.digest)


def rows_of(texts: Texts, pairs: csr_matrix) -> Iterator[tuple[str, str, str, list[int]]]:
    """Every instance as (uid, title, content, label ids)."""
    return zip(texts.uids, texts.titles, texts.contents, label_ids(pairs), strict=True)


def label_ids(pairs: csr_matrix) -> Iterator[list[int]]:
    """The label ids of every row."""
    for start, end in zip(pairs.indptr[:-1], pairs.indptr[1:], strict=True):
        yield pairs.indices[start:end].tolist()


def named(texts: Texts) -> bool:
    """Whether the uids are more than row numbers."""
    return any(uid != str(row) for row, uid in enumerate(texts.uids))


def one_line(text: str) -> str:
    """A text as one line: every run of white space becomes a space."""
    return " ".join(text.split())


def joined(title: str, content: str, flatten: bool) -> str:
    """Title and content as one text, which ``parted`` divides again. flatten: make each of them one line.

    Raises DataError for a title with a tab, which could not be told from the tab between the two.
    """
    if flatten:
        title, content = one_line(title), one_line(content)
    elif "\t" in title:
        raise DataError(f"the title {title[:60]!r} has a tab, which this format cannot hold", _hint())
    return f"{title}\t{content}" if content else title


def parted(text: str) -> tuple[str, str]:
    """Title and content of a text: what is before and after its first tab."""
    title, _, content = text.partition("\t")
    return title, content


def write_lines(path: Path, lines: Iterable[str], flatten: bool = False, what: str = "text") -> None:
    """Write one text per line, UTF-8. Raises DataError for a text that is not one line, unless it may be flattened."""
    with atomic_file(path) as stream:
        for number, line in enumerate(lines):
            text = one_line(line) if flatten and any(each in line for each in _BREAKS) else line
            if any(each in text for each in _BREAKS):
                raise DataError(f"the {what} {text[:60]!r} has a line break, which {path.name} cannot hold", _hint())
            if not number and text.startswith(MARK):
                text = MARK + text  # of which a reader takes off the first
            stream.write(f"{text}\n".encode())


def _hint() -> str:
    return "--flatten makes every run of white space a space; the formats xc, csv, jsonl and parquet hold any text"
