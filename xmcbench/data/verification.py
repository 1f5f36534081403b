"""Verify the files of a dataset against its card: checksums, counts, and a full read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xmcbench.data.catalog import Listing, load_dataset, locate, reference_to_whole, source_of
from xmcbench.data.exchange import has_checksum
from xmcbench.data.fetching import read_lock
from xmcbench.data.sources.finding import source_at
from xmcbench.data.sources.source import TEST_FILTER, TRAIN_FILTER, Part, Place, Source
from xmcbench.data.store import Corpus, load_corpus
from xmcbench.data.text_files import at
from xmcbench.data.xc_matrix import read_filter
from xmcbench.errors import DataError
from xmcbench.storage.atomic import writing
from xmcbench.storage.temporary import scratch


@dataclass(frozen=True)
class Verified:
    """Problems, one per line; and facts that a card does not have, such as the size of a filter."""

    findings: list[str]
    facts: list[str]


def examine(name_or_place: str | Path) -> Verified:
    """Hash and read every file of a dataset again, without the cache, whichever documents of it are chosen.

    Of a derived dataset, the source is verified, and the counts of what is derived from it are compared. Raises
    UnknownName, UsageError, and DataError if there are no data to verify.
    """
    name_or_place = reference_to_whole(name_or_place)
    listing = locate(name_or_place)
    if listing.card is None or listing.problem:
        raise DataError(listing.problem, listing.hint)
    if listing.place is None:
        verified = examine(source_of(listing).slug)
        return Verified(verified.findings or _compare(listing, load_dataset(name_or_place).counts()), verified.facts)
    place = listing.place
    findings: list[str] = []
    facts: list[str] = []
    for name, sha256 in listing.card.files.items():
        path = place.path / name
        if not has_checksum(path, sha256):
            findings.append(f"{path} {'does not match the SHA-256 of the card' if path.is_file() else 'is missing'}")
    if lock := read_lock(place.path) if place.path.is_dir() else None:
        findings += [f"{place.path / name} is not what was fetched first" for name in lock.changes(place.path)]
    try:
        counts, facts = _read(source_at(place))
        if listing.card.counts and not counts.keys() >= {"train", "test"}:  # the card counts what is drawn too
            counts = load_dataset(name_or_place).counts()
        findings += _compare(listing, counts)
    except DataError as error:
        findings.append(str(error))
    return Verified(findings, facts)


def _compare(listing: Listing, counts: dict[str, int]) -> list[str]:
    expected = listing.card.counts.items() if listing.card else ()
    differing = [(key, value) for key, value in expected if counts.get(key) != value]
    return [f"{listing.name}: {key} is {counts[key]}, but the card says {value}" for key, value in differing]


def count(folder: Path) -> dict[str, int]:
    """Count the rows of a dataset in a folder, as its files have them. Raises DataError for a broken file."""
    return _read(source_at(Place(str(folder), folder)))[0]


def _read(source: Source) -> tuple[dict[str, int], list[str]]:
    holding = source.find_parts()
    facts = [*holding.notes]
    with scratch() as temporary:
        labels = _load(holding.labels, temporary / "labels")
        counts = {"labels": labels.rows}
        for name, part, names in (("train", holding.train, TRAIN_FILTER), ("test", holding.test, TEST_FILTER)):
            if part is None:
                missing, other = ("training", "test") if name == "train" else ("test", "training")
                drawn = f"{missing} instances are drawn from the {other} instances"
                facts.append(f"there is no separate {missing} set; {drawn}")
                continue
            corpus = _load(part, temporary / name)
            counts |= {name: corpus.rows, f"{name}_pairs": corpus.pairs}
            if corpus.highest >= labels.rows:
                what = f"target_ind {corpus.highest} is out of range: there are {labels.rows} labels"
                raise at(part.path, corpus.highest_line, what)
            if filter_file := source.place.find(*names):
                pairs = read_filter(filter_file, corpus.rows, labels.rows)
                rows = int((pairs.getnnz(axis=1) > 0).sum())
                facts.append(f"{filter_file.name}: {pairs.nnz:,} pairs over {rows:,} rows")
    return counts, facts


def _load(part: Part, folder: Path) -> Corpus:
    with writing(folder):  # a file that cannot be read is a DataError
        folder.mkdir()
        return load_corpus(part, folder)
