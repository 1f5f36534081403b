"""The interface of a layout: whether it recognizes a place, what files are there, and their rows.

A layout is a class derived from ``Source``. Those of other packages are found by the entry-point group
``xmcbench.sources``. Importing a layout must stay cheap: heavy packages are imported where rows are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from xmcbench.data.text_files import find_source
from xmcbench.errors import DataError, UsageError
from xmcbench.output.quantities import format_count
from xmcbench.storage.reading import MEMORY, check_size

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.label_texts import LabelTexts
    from xmcbench.texts import Texts

#: Instances (training or test), labels, or documents: instances whose labels are not read.
Kind = Literal["instances", "labels", "documents"]
#: The filter files of the test and of the training instances, under their common names. Any folder may have them.
TEST_FILTER = ("filter_labels_test.txt", "tst_filter_labels.txt")
TRAIN_FILTER = ("filter_labels_train.txt", "trn_filter_labels.txt")
#: An instance that is to be written: uid, title, content, label ids.
Instance = tuple[str, str, str, Sequence[int]]
#: Bytes of memory that reading a part takes per row and per pair, besides the texts; about.
_ROW_BYTES, _PAIR_BYTES = 400, 32
#: The sides of a dataset as the layouts of the Extreme Classification repository and of PECOS call them.
SHORT_NAMES = {"train": "trn", "test": "tst"}


@dataclass(frozen=True)
class Place:
    """The place of a dataset: a folder, a file, or an id that some layout knows; and options of reading it."""

    given: str
    path: Path
    options: Mapping[str, str] = field(default_factory=dict)

    def find(self, *names: str) -> Path | None:
        """The first of these files, each as ``name.gz`` or plain; None if there is none."""
        return find_source(self.path, *names)


def check_count(rows: int, pairs: int = 0) -> None:
    """Raise Unreadable for so many rows and pairs of a part that they do not fit into the memory for reading it."""
    check_size(_ROW_BYTES * rows + _PAIR_BYTES * pairs, MEMORY, f"reading {rows:,} rows and {pairs:,} pairs")


class Details(NamedTuple):
    """Other names, a content, such as a definition, and parents: uids of the labels that are broader."""

    alternatives: Sequence[str] = ()
    content: str = ""
    parents: Sequence[str] = ()


class Row(NamedTuple):
    """An instance or a label. line: from 1. content, labels: of an instance. details: what else a label carries."""

    path: Path
    line: int
    uid: str
    title: str
    content: str = ""
    labels: Sequence[int] = ()
    details: Details = Details()


@dataclass
class Part:
    """The training instances, the test instances, the labels or the documents of a source.

    path: the file that errors name. files: all files that the rows depend on. rows: yields the rows. notes: sentences
    on what the reader left out or assumed; complete once all rows have been read.
    """

    kind: Kind
    path: Path
    files: tuple[Path, ...]
    rows: Callable[[], Iterable[Row]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Holding:
    """The parts of a source. A missing training or test set is drawn from the other. notes: on files not used."""

    labels: Part
    train: Part | None = None
    test: Part | None = None
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        return [path for part in (self.train, self.test, self.labels) if part for path in part.files]


@dataclass(frozen=True)
class Content:
    """The content of a dataset that is to be written: texts and pairs."""

    train: Texts
    test: Texts
    labels: LabelTexts
    train_pairs: Callable[[], csr_matrix]
    test_pairs: Callable[[], csr_matrix]

    def sides(self) -> Iterator[tuple[str, Texts, csr_matrix]]:
        """``train`` and ``test``: the texts and the pairs."""
        yield "train", self.train, self.train_pairs()
        yield "test", self.test, self.test_pairs()


def note_left_out(notes: list[str], count: int, what: str, path: Path, why: str) -> None:
    """Add a note on so many rows of a file that are left out, if there are any."""
    if count:
        notes.append(f"{format_count(count, what)} of {path.name} left out: {why}")


def label_ids(pairs: csr_matrix) -> Iterator[list[int]]:
    """The label ids of every row."""
    for first, end in pairwise(pairs.indptr.tolist()):
        yield pairs.indices[first:end].tolist()


def instance_rows(texts: Texts, pairs: csr_matrix) -> Iterator[Instance]:
    """The instances of a dataset."""
    return zip(texts.uids, texts.titles, texts.contents, label_ids(pairs), strict=True)


def clean_details(title: str, alternatives: Iterable[str], content: str, parents: Iterable[str]) -> Details:
    """Return what a label carries besides its title: names each once, and none that is blank or the title."""
    names = dict.fromkeys(name for name in alternatives if name.strip() and name != title)
    return Details(tuple(names), content if content.strip() else "", tuple(dict.fromkeys(parents)))


def label_rows(labels: LabelTexts) -> Iterator[dict[str, str | list[str]]]:
    """The labels of a dataset with all that they carry."""
    contents = labels.contents if "description" in labels.details else None
    lists = {name: getattr(labels, name) for name in ("alternatives", "parents") if name in labels.details}
    columns = {"uid": labels.uids, "title": labels.titles, **lists, **({"content": contents} if contents else {})}
    for row in zip(*columns.values(), strict=True):
        yield {name: list(cell) if isinstance(cell, tuple) else cell for name, cell in zip(columns, row, strict=True)}


class Source(ABC):
    """A dataset in one layout. holds_details: whether it is written with what labels carry besides their titles.

    name: the layout in ``layout=NAME`` and ``--format NAME``. title: one line about it. options: the keys, besides
    those that every layout knows, that change how it is read.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()
    holds_details: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self.place = place

    @classmethod
    @abstractmethod
    def recognize(cls, place: Place) -> bool:
        """Tell whether a place has this layout, by the names of its files. Reads none of them."""

    @abstractmethod
    def find_parts(self) -> Holding:
        """Return the parts. Reads little. Raises DataError where a file that the layout requires is missing."""

    def find_training(self) -> Holding | None:
        """Return the parts without the test instances; None where training and test instances are not separate."""
        held = self.find_parts()
        return replace(held, test=None) if held.train and held.test else None

    def documents(self) -> Part:
        """Return the test instances, or the training instances if there are no others, without their labels."""
        held = self.find_parts()
        part = held.test or held.train
        if part is None:
            raise DataError(f"{self.place.path} has no instances", "expected documents")
        rows = part.rows
        return replace(part, kind="documents", rows=lambda: (row._replace(labels=()) for row in rows()))

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        """Write a dataset into an empty folder, so that reading it gives the same dataset.

        flatten: in a layout with one text per line, make every run of white space a space. Raises DataError, without
        it, for a text that the layout cannot hold, and UsageError for a read-only layout.
        """
        raise UsageError(f"the format {cls.name} is read-only", "see `xmcbench data export --help`")
