"""What a layout of files has to say: whether it recognizes a place, what is there, and its rows.

A layout is a class derived from ``Source``. Those of other packages are found by the entry-point group
``xmcbench.sources``. Importing a layout must stay cheap: heavy packages are imported where rows are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypedDict

from xmcbench.data.compression import find_source
from xmcbench.data.rows import Kind, Located, Places, Rows, batched
from xmcbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset

#: The filter files of the test and of the training instances, under their common names. Any folder may have them.
TEST_FILTER = ("filter_labels_test.txt", "tst_filter_labels.txt")
TRAIN_FILTER = ("filter_labels_train.txt", "trn_filter_labels.txt")


@dataclass(frozen=True)
class Place:
    """Where a dataset is said to be: a folder, a file, or an id that some layout knows; and how to read it."""

    given: str
    path: Path
    options: Mapping[str, str] = field(default_factory=dict)

    def find(self, *names: str) -> Path | None:
        """The first of these files, each as ``name.gz`` or plain; None if there is none."""
        return find_source(self.path, *names)


@dataclass
class Part:
    """The training instances, the test instances, the labels or the documents of a source.

    path: what errors name. files: all files that the rows depend on. read: yields the rows. places: where these come
    from; without it, every line of ``path`` is a row. notes: what the reader left out or assumed; complete once all
    rows have been read.
    """

    kind: Kind
    path: Path
    files: tuple[Path, ...]
    read: Callable[[], Iterator[Rows]]
    places: Places | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def located(
        cls,
        kind: Kind,
        path: Path,
        files: tuple[Path, ...],
        rows: Callable[[], Iterable[Located]],
        notes: list[str] | None = None,
    ) -> Part:
        """A part whose rows come with their file and their line, which are remembered while it is read."""
        places = Places()
        return cls(kind, path, files, lambda: batched(places.noted(rows())), places, [] if notes is None else notes)

    def place(self, row: int) -> tuple[Path, int]:
        """The file and the line of a row that was read."""
        return self.places.of(row) if self.places else (self.path, row + 1)


class Filters(TypedDict):
    """The filter files of a folder, as arguments of ``Holding``."""

    test_filter: Path | None
    train_filter: Path | None


@dataclass(frozen=True)
class Holding:
    """What a source holds.

    train, test: None where there is none; a missing one is drawn from the other. test_filter, train_filter: filter
    files. notes: one sentence for each thing that is there and not used.
    """

    labels: Part
    train: Part | None = None
    test: Part | None = None
    test_filter: Path | None = None
    train_filter: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything that is read."""
        parts = [each for each in (self.train, self.test, self.labels) if each is not None]
        filters = [each for each in (self.test_filter, self.train_filter) if each is not None]
        return tuple(dict.fromkeys([*(path for part in parts for path in part.files), *filters]))


class Source(ABC):
    """A dataset in one layout.

    name: the layout in ``layout=NAME`` and ``--format NAME``. title: one line about it. options: the keys, besides
    those that every layout knows, that change how it is read.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, place: Place) -> None:
        self.place = place

    @classmethod
    @abstractmethod
    def recognize(cls, place: Place) -> bool:
        """Whether this is the layout of a place, by the names of its files. Reads none of them."""

    @abstractmethod
    def holding(self) -> Holding:
        """What is there. Reads little. Raises DataError where a file that the layout requires is missing."""

    def documents(self) -> Part:
        """The test instances, or the training instances if there are no others, without their labels.

        Raises what ``holding`` raises.
        """
        held = self.holding()
        part = held.test or held.train
        if part is None:
            raise DataError(f"{self.place.path} has no instances", "expected documents")
        read = part.read

        def rows() -> Iterator[Rows]:
            return (each._replace(targets=array("i"), lengths=[0] * len(each.uids)) for each in read())

        return replace(part, kind="documents", read=rows)

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        """Write a dataset into an empty folder, so that reading it gives the same dataset.

        flatten: in a layout with one text per line, make every run of white space a space. Raises DataError, without
        it, for a text that the layout cannot hold, and UsageError for a read-only layout.
        """
        raise UsageError(f"the format {cls.name} is read-only", "see `xmcbench data export --help`")

    def filters(self) -> Filters:
        """The filter files of a folder; a file has none."""
        return {"test_filter": self.place.find(*TEST_FILTER), "train_filter": self.place.find(*TRAIN_FILTER)}
