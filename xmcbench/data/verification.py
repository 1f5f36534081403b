"""Verify the files of a dataset against its card: checksums, counts, and a full read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.catalog import Listing, load_dataset, locate, source_of
from xmcbench.data.compression import find_source
from xmcbench.data.fetching import Lock, differing, read_lock
from xmcbench.data.rows import at
from xmcbench.data.sources.finding import recognized, source_at
from xmcbench.data.sources.source import TEST_FILTER, Part, Place, Source
from xmcbench.data.store import Corpus, load_corpus
from xmcbench.data.xc_matrix import read_filter, read_matrix
from xmcbench.errors import DataError, StorageError
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.temporary import scratch

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_NONE = Lock({}, {})

#: The label matrix of the test instances.
_MATRIX = "tst_X_Y.txt"


@dataclass(frozen=True)
class Verified:
    """What was found: problems, one per line; and facts that a card does not have, such as the size of a filter."""

    findings: list[str]
    facts: list[str]


def verify(name_or_place: str | Path) -> list[str]:
    """The problems of a dataset, one per line; empty if everything matches its card. Raises what ``examine`` raises."""
    return examine(name_or_place).findings


def examine(name_or_place: str | Path) -> Verified:
    """Hash and read every file of a dataset again, without the cache.

    Of a derived dataset, the source is verified, and the counts of what is derived from it are compared. A folder that
    holds a label matrix and filters, but no texts, is verified too. Raises UnknownName, UsageError, DataError if there
    are no data to verify, and StorageError if there is no space for temporary files.
    """
    listing = locate(name_or_place)
    if listing.card is None or listing.problem:
        raise DataError(listing.problem, listing.hint)
    if listing.place is None:
        verified = examine(source_of(listing).slug)
        return Verified(verified.findings or _compare(listing, load_dataset(name_or_place).counts()), verified.facts)
    if recognized(listing.place) is None and find_source(listing.place.path, _MATRIX):
        return _matrices(listing.place.path)
    return _at_place(listing, listing.place)


def _at_place(listing: Listing, place: Place) -> Verified:
    findings: list[str] = []
    facts: list[str] = []
    for name, expected in (listing.card.files if listing.card else {}).items():
        path = place.path / name
        if not path.is_file():
            findings.append(f"{path} is missing")
        elif sha256_file(path) != expected:
            findings.append(f"{path} does not match the SHA-256 of the card")
    lock = read_lock(place.path) if place.path.is_dir() else None
    findings += [f"{place.path / name} is not what was fetched first" for name in differing(place.path, lock or _NONE)]
    try:
        counts, facts = _read(source_at(place))
        findings += _compare(listing, counts)
    except DataError as error:
        findings.append(str(error))
    return Verified(findings, facts)


def _compare(listing: Listing, counts: dict[str, int]) -> list[str]:
    expected = listing.card.counts if listing.card else {}
    return [
        f"{listing.name}: {key} is {counts[key]}, but the card says {value}"
        for key, value in expected.items()
        if counts.get(key) != value
    ]


def count(folder: Path) -> dict[str, int]:
    """The counts of a dataset in a folder, read from its files. Raises DataError for whatever breaks the format."""
    return _read(source_at(Place(str(folder), folder)))[0]


def _read(source: Source) -> tuple[dict[str, int], list[str]]:
    holding = source.holding()
    counts, facts = {}, []
    with scratch() as temporary:
        labels = _load(holding.labels, temporary / "labels")
        counts["labels"] = labels.rows
        for name, part, filter_file in (
            ("train", holding.train, holding.train_filter),
            ("test", holding.test, holding.test_filter),
        ):
            if part is None:
                missing, other = ("training", "test") if name == "train" else ("test", "training")
                facts.append(
                    f"there is no separate {missing} set; {missing} instances are drawn from the {other} instances"
                )
                continue
            loaded = _load(part, temporary / name)
            counts |= {name: loaded.rows, f"{name}_pairs": loaded.pairs}
            if loaded.highest >= labels.rows:
                what = f"target_ind {loaded.highest} is out of range: there are {labels.rows} labels"
                raise at(part.path, loaded.highest_line, what)
            if filter_file:
                facts.append(_size(filter_file, read_filter(filter_file, loaded.rows, labels.rows)))
    return counts, [*holding.notes, *facts]


def _load(part: Part, folder: Path) -> Corpus:
    try:
        folder.mkdir()
        return load_corpus(part, folder)
    except OSError as error:  # of what is written: a file that cannot be read is a DataError
        raise StorageError.from_os_error(error, folder) from error


def _matrices(folder: Path) -> Verified:
    """The label matrix of the test instances and the filter about them: sizes, and pairs that are in both."""
    path, filter_file = find_source(folder, _MATRIX), find_source(folder, *TEST_FILTER)
    assert path is not None
    try:
        truth = read_matrix(path)
        labels, rows = len({*truth.indices.tolist()}), int((truth.getnnz(axis=1) == 0).sum())
        facts = [
            f"{path.name}: {truth.shape[0]:,} rows, {truth.shape[1]:,} columns, {truth.nnz:,} pairs; "
            f"{truth.shape[1] - labels:,} empty columns, {rows:,} empty rows"
        ]
        if filter_file:
            removed = read_filter(filter_file, *truth.shape)
            both = removed.multiply(truth).nnz
            facts.append(f"{_size(filter_file, removed)}; {both:,} of them are true pairs")
    except DataError as error:
        return Verified([str(error)], [])
    return Verified([], [*facts, "there are no texts, so nothing can be run on it"])


def _size(path: Path, pairs: csr_matrix) -> str:
    return f"{path.name}: {pairs.nnz:,} pairs over {int((pairs.getnnz(axis=1) > 0).sum()):,} rows"
