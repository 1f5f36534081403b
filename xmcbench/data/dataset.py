"""A dataset in its loaded form: texts, pairs, and the predictions that a filter removes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import arrow
from xmcbench.data.card import Card, Filter
from xmcbench.data.sealing import check_open
from xmcbench.data.sources.source import TEST_FILTER
from xmcbench.data.store import Corpus, get_cached
from xmcbench.errors import DataError, UsageError
from xmcbench.label_texts import LabelTexts
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.metrics.ranks import longest_filter
from xmcbench.storage.arrays import Pattern, pairs_digest, read_pattern, write_pairs
from xmcbench.storage.canonical import sha256_json
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.locations import cache_root
from xmcbench.storage.reading import read_text
from xmcbench.texts import Texts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, repr=False)
class Dataset:
    """N training and M test instances, L labels, and the pairs between them, which are opened on first use.

    card: its description. sources: the files, or their folders, that it was read from. found: notes on its reading.
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
        """SHA-256 (hex) of texts, pairs, what else labels carry, and what filters remove; files do not matter."""
        rows = np.flatnonzero(self._own >= 0)
        parts = {
            "train": [self.train_corpus.texts_sha256, self.train_corpus.pairs_sha256],
            "test": [self.test_corpus.texts_sha256, self.test_corpus.pairs_sha256],
            "labels": self.label_corpus.texts_sha256,
            "self": pairs_digest(rows, self._own[rows]) if len(rows) else None,
            "file": _filter_digest(self.filter_pairs) if self.filter_pairs else None,
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
    def labels(self) -> LabelTexts:
        """Texts of the L labels, which are their titles; what else they carry is beside them."""
        return LabelTexts.open(self.label_corpus.texts)

    def train_pattern(self) -> Pattern:
        """The structure of the training pairs, [N, L]. Raises DataError inside a cell."""
        check_open("training pairs")
        return _read_verified(self.train_corpus.pair_file, self.label_corpus.rows, self.train_corpus.pairs_sha256)

    def train_pairs(self) -> csr_matrix:
        """The training pairs: binary CSR, float32 [N, L], label ids ascending. Raises DataError inside a cell."""
        return self.train_pattern().matrix()

    def test_pairs(self) -> csr_matrix:
        """The test pairs: binary CSR, float32 [M, L], label ids ascending. Raises DataError inside a cell."""
        check_open("test pairs")
        corpus = self.test_corpus
        return _read_verified(corpus.pair_file, self.label_corpus.rows, corpus.pairs_sha256).matrix()

    def counts(self) -> dict[str, int]:
        """Numbers of training and test instances, labels, and pairs of either side."""
        train, test = self.train_corpus, self.test_corpus
        rows = {"train": train.rows, "test": test.rows, "labels": self.label_corpus.rows}
        return {**rows, "train_pairs": train.pairs, "test_pairs": test.pairs}

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """``none``; ``self`` if a test instance is a label too; ``file`` if there is a filter file."""
        found: list[Filter] = ["none"]
        found += ["self"] if (self._own >= 0).any() else []
        found += ["file"] if self.filter_pairs else []
        return tuple(found)

    def choose_filter(self, name: str | None) -> Filter:
        """The named filter, or without a name that of the card. Raises UsageError if the dataset does not have it."""
        wanted = name or self.card.filter
        for kind in self.filters:
            if kind == wanted:
                return kind
        lack = {
            "self": ": none of its test instances is a label",
            "file": f": it has no {TEST_FILTER[0]} for its test instances",
        }
        hint = f"{'' if name else 'change filter in its card.toml; '}it has: {', '.join(self.filters)}"
        raise UsageError(f"{self.name} has no filter {wanted!r}{lack.get(wanted, '')}", hint)

    def filter(self, kind: Filter) -> csr_matrix | None:
        """The predictions that a filter removes: binary CSR, float32 [M, L]; None for ``none``. Raises UsageError."""
        from scipy.sparse import csr_matrix

        check_open("a filter")
        kind = self.choose_filter(kind)
        if kind == "none":
            return None
        if kind == "file" and self.filter_pairs:
            return _read_verified(self.filter_pairs, self.label_corpus.rows, _filter_digest(self.filter_pairs)).matrix()
        rows = np.flatnonzero(self._own >= 0)
        shape = (self.test_corpus.rows, self.label_corpus.rows)
        return csr_matrix((np.ones(len(rows), np.float32), (rows, self._own[rows])), shape=shape)

    @property
    def corpora(self) -> list[str]:
        """The paths of training instances, test instances and labels in the cache, which identify their sources."""
        parts = (self.train_corpus, self.test_corpus, self.label_corpus)
        return [part.folder.relative_to(cache_root()).as_posix() for part in parts]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for readers of results: on what was left out, assumed or drawn, and figures that are missing."""
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
    def _own(self) -> np.ndarray:
        """For every test instance the label with the same uid, or -1: int [M]."""
        if not (self.test_corpus.uids and self.label_corpus.uids):
            return np.full(self.test_corpus.rows, -1)

        def fill(folder: Path) -> None:
            import pyarrow.compute as pc

            test, labels = (texts.uids.to_arrow().combine_chunks() for texts in (self.test, self.labels))
            found = pc.index_in(test, value_set=labels)
            np.save(folder / "labels.npy", arrow.to_numpy(pc.fill_null(found, arrow.scalar(-1))))

        folder = get_cached("own-labels", {"corpora": self.corpora[1:]}, fill)
        own: np.ndarray = np.load(folder / "labels.npy", allow_pickle=False)
        return own


def _read_verified(path: Path, labels: int, sha256: str) -> Pattern:
    """Read pairs from the cache. Raises DataError if they have changed."""
    pattern = read_pattern(path, labels)
    if pattern.digest != sha256:
        raise DataError(f"{path}: checksum mismatch", "delete its folder: it will be regenerated")
    return pattern


def filter_store(path: Path, rows: int, columns: int) -> Path:
    """Return the pairs of a filter file in the cache."""
    from xmcbench.data.xc_matrix import read_filter

    def fill(folder: Path) -> None:
        write_filter_pairs(folder / "pairs.npz", read_filter(path, rows, columns))

    identity = {"sha256": fingerprint(path), "rows": rows, "columns": columns}
    return get_cached("filter", identity, fill) / "pairs.npz"


def write_filter_pairs(path: Path, pairs: csr_matrix) -> None:
    """Write the pairs of a filter, and their digest beside them."""
    write_pairs(path, pairs.indptr, pairs.indices)
    path.with_suffix(".sha256").write_text(pairs_digest(pairs.indptr, pairs.indices))


def _filter_digest(path: Path) -> str:
    try:
        return read_text(path.with_suffix(".sha256"))
    except (OSError, ValueError) as error:
        hint = "delete its folder: it will be regenerated"
        raise DataError(f"cannot read the filter {path}: {error}", hint) from None
