"""A dataset in its loaded form: texts, pairs, and the predictions that a filter removes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from xmcbench import arrow
from xmcbench.data.card import Card
from xmcbench.data.filter_file import filter_digest, filter_store
from xmcbench.data.rows import at
from xmcbench.data.sealing import check_open
from xmcbench.data.sources.source import TEST_FILTER, Holding, Source
from xmcbench.data.splitting import Split, split
from xmcbench.data.store import Corpus, corpus, kept
from xmcbench.data.vocabulary import Filter
from xmcbench.errors import DataError, UsageError
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.metrics.ranks import longest_filter
from xmcbench.output.escaping import visible
from xmcbench.storage.cache import cache_root
from xmcbench.storage.canonical import sha256_json
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.pairs import Pattern, pairs_digest, read_pattern
from xmcbench.texts import Texts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: More source files than these are named by their folders.
_MANY = 64


@dataclass(frozen=True)
class _OwnLabels:
    """labels: int [M], for every test instance the label that is the instance itself, or -1."""

    labels: np.ndarray

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 (hex) of the content; None if no instance is a label."""
        rows = np.flatnonzero(self.labels >= 0)
        return pairs_digest(rows, self.labels[rows]) if len(rows) else None


@dataclass(frozen=True, repr=False)
class Dataset:
    """N training and M test instances, L labels, and the pairs between them.

    card: its description. sources: the files, or their folders, that it was read from. found: what was left out,
    assumed or drawn when it was read. Texts and pairs are in separate files, opened on first use.
    """

    card: Card
    train_corpus: Corpus
    test_corpus: Corpus
    label_corpus: Corpus
    filter_pairs: Path | None = None
    sources: tuple[Path, ...] = ()
    found: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sizes = f"{self.train_corpus.rows:,} training and {self.test_corpus.rows:,} test instances"
        return f"<Dataset {self.name}: {sizes}, {self.label_corpus.rows:,} labels>"

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.card.name

    @property
    def slug(self) -> str:
        """The name in file names and on the command line."""
        return self.card.slug

    @property
    def propensity(self) -> tuple[float, float]:
        """A and B of the propensity model."""
        return self.card.propensity.a, self.card.propensity.b

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the content: texts, pairs, and the pairs that filters remove. Files and layout do not
        matter."""
        parts = {
            "train": [self.train_corpus.texts_sha256, self.train_corpus.pairs_sha256],
            "test": [self.test_corpus.texts_sha256, self.test_corpus.pairs_sha256],
            "labels": self.label_corpus.texts_sha256,
            "self": self._own.digest,
            "file": filter_digest(self.filter_pairs) if self.filter_pairs else None,
        }
        return sha256_json(parts)

    @cached_property
    def train(self) -> Texts:
        """Texts of the N training instances."""
        return Texts.open(self.train_corpus.texts)

    @cached_property
    def test(self) -> Texts:
        """Texts of the M test instances."""
        return Texts.open(self.test_corpus.texts)

    @cached_property
    def labels(self) -> Texts:
        """Texts of the L labels; their contents are empty."""
        return Texts.open(self.label_corpus.texts)

    def train_pattern(self) -> Pattern:
        """Which training pairs there are, [N, L]. Raises DataError inside a cell."""
        check_open("training pairs")
        return _verified(self.train_corpus.pair_file, self.label_corpus.rows, self.train_corpus.pairs_sha256)

    def train_pairs(self) -> csr_matrix:
        """The training pairs: binary CSR, float32 [N, L], label ids ascending. Raises DataError inside a cell."""
        return self.train_pattern().matrix()

    def test_pairs(self) -> csr_matrix:
        """The test pairs: binary CSR, float32 [M, L], label ids ascending. Raises DataError inside a cell."""
        check_open("test pairs")
        pattern = _verified(self.test_corpus.pair_file, self.label_corpus.rows, self.test_corpus.pairs_sha256)
        return pattern.matrix()

    def counts(self) -> dict[str, int]:
        """Numbers of training and test instances, labels, and pairs of either side."""
        return {
            "train": self.train_corpus.rows,
            "test": self.test_corpus.rows,
            "labels": self.label_corpus.rows,
            "train_pairs": self.train_corpus.pairs,
            "test_pairs": self.test_corpus.pairs,
        }

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """The filters of this dataset: ``self`` if a test instance is a label too, ``file`` if there is a filter
        file."""
        found: list[Filter] = ["none"]
        if (self._own.labels >= 0).any():
            found.append("self")
        if self.filter_pairs:
            found.append("file")
        return tuple(found)

    def chosen_filter(self, name: str | None) -> Filter:
        """The named filter, or without a name that of the card. Raises UsageError if the dataset does not have it."""
        wanted = name or self.card.filter
        found = next((each for each in self.filters if each == wanted), None)
        if found is None:
            why = {
                "self": ": none of its test instances is a label",
                "file": f": it has no {TEST_FILTER[0]} for its test instances",
            }.get(wanted, "")
            hint = f"{'' if name else 'change filter in its card.toml; '}it has: {', '.join(self.filters)}"
            raise UsageError(f"{self.name} has no filter {wanted!r}{why}", hint)
        return found

    def filter(self, kind: Filter) -> csr_matrix | None:
        """The (test instance, label) predictions that a filter removes: binary CSR, float32 [M, L]; None for ``none``.

        Raises UsageError when the dataset has no such filter.
        """
        from scipy.sparse import csr_matrix

        check_open("a filter")
        kind = self.chosen_filter(kind)
        if kind == "none":
            return None
        if kind == "file" and self.filter_pairs:
            return _verified(self.filter_pairs, self.label_corpus.rows, filter_digest(self.filter_pairs)).matrix()
        rows = np.flatnonzero(self._own.labels >= 0)
        shape = (self.test_corpus.rows, self.label_corpus.rows)
        return csr_matrix((np.ones(len(rows), np.float32), (rows, self._own.labels[rows])), shape=shape)

    @property
    def corpora(self) -> list[str]:
        """The paths of training instances, test instances and labels in the cache, which identify their sources."""
        parts = (self.train_corpus, self.test_corpus, self.label_corpus)
        return [each.folder.relative_to(cache_root()).as_posix() for each in parts]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of results has to know about the data: what was found, and what cannot be computed."""
        notes = [*self.found]
        if self.filter_pairs and self.card.filter == "none":
            notes.append('the filter file removes nothing unless --filter file is given, or filter = "file" in a card')
        if self.train_corpus.rows < MIN_INSTANCES and self.test_corpus.pairs:
            notes.append(f"PSP is left out: propensities need {MIN_INSTANCES} training instances")
        return tuple(notes)

    @cached_property
    def longest_filter(self) -> int:
        """The maximum number of predictions that a filter removes from a row: k + this many have to be kept."""
        return max(longest_filter(self.filter(kind)) for kind in self.filters)

    @cached_property
    def _own(self) -> _OwnLabels:
        """For every test instance the label with the same uid."""
        if not (self.test_corpus.uids and self.label_corpus.uids):
            return _OwnLabels(np.full(self.test_corpus.rows, -1))

        def fill(folder: Path) -> None:
            import pyarrow.compute as pc

            test, labels = (each.uids.to_arrow().combine_chunks() for each in (self.test, self.labels))
            found = pc.index_in(test, value_set=labels)
            np.save(folder / "labels.npy", arrow.to_numpy(pc.fill_null(found, arrow.scalar(-1))))

        folder = kept("own-labels", {"corpora": self.corpora[1:]}, fill)
        return _OwnLabels(np.load(folder / "labels.npy", allow_pickle=False))


def _verified(path: Path, labels: int, sha256: str) -> Pattern:
    """Pairs from the cache; DataError if they have changed."""
    pattern = read_pattern(path, labels)
    if pattern.digest != sha256:
        raise DataError(f"{path}: checksum mismatch", "delete its folder: it will be regenerated")
    return pattern


def open_dataset(source: Source, card: Card) -> Dataset:
    """The dataset of a source. Its files are read and checked the first time.

    A missing training or test set is drawn from the other. Raises DataError when a file is missing, damaged, breaks the
    format, or is not the one the card names by its SHA-256; UsageError for invalid options of the place.
    """
    drawn = Split.of(source.place.options)
    holding = source.holding()
    _check_sums(holding, card, source.place.path)
    labels = corpus(holding.labels, source)
    parts = [each for each in (holding.train, holding.test) if each is not None]
    if not parts:
        raise DataError(f"{source.place.path} has no instances", "a dataset needs documents to train on or to test on")
    corpora = [corpus(part, source) for part in parts]
    for part, each in zip(parts, corpora, strict=True):
        if each.highest >= labels.rows:
            count = f"{holding.labels.path.name} has {labels.rows} labels: 0..{labels.rows - 1}"
            raise at(part.path, each.highest_line, f"target_ind {each.highest} is out of range", count)
    notes = [*holding.notes, *(note for each in (labels, *corpora) for note in each.notes)]
    pairs = None
    if len(corpora) == 1:
        corpora, note = split(corpora[0], labels.rows, drawn)
        notes.append(note)
        if holding.test_filter:
            notes.append(f"{holding.test_filter.name} is not used: it numbers the rows of another test set")
    else:
        unused = [name for name in ("test_share", "split_seed") if name in source.place.options]
        notes += [f"{name} is not used: there are a training and a test set" for name in unused]
    if len(parts) > 1 and holding.test_filter:
        pairs = filter_store(holding.test_filter, corpora[1].rows, labels.rows)
    files = holding.files
    named = files if len(files) <= _MANY else tuple(dict.fromkeys(path.parent for path in files))
    train, test = corpora
    return Dataset(card, train, test, labels, pairs, named, tuple(map(visible, notes)))


def with_documents(dataset: Dataset, source: Source) -> Dataset:
    """The dataset with the documents of a source as its test instances, which have no labels.

    Raises what ``open_dataset`` raises.
    """
    part = source.documents()
    test = corpus(part, source)
    card = replace(dataset.card, name=f"{dataset.name}+documents", filter="none")
    sources = (*dataset.sources, *part.files)
    notes = (*dataset.found, *map(visible, test.notes))
    return Dataset(card, dataset.train_corpus, test, dataset.label_corpus, None, sources, notes)


def _check_sums(holding: Holding, card: Card, root: Path) -> None:
    for path in holding.files if card.files else ():
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        if name in card.files and fingerprint(path) != card.files[name]:
            raise DataError(
                f"{path} does not match the card of {card.name}: its SHA-256 differs",
                f"download it again, or remove it from {root / 'card.toml'} if the change is intended",
            )
