"""Verify the files of a dataset against its card: checksums, counts, and a full read."""

from __future__ import annotations

from pathlib import Path

from xmcbench.data.catalogue import Listing, load_dataset, locate, source_of
from xmcbench.data.compression import find_source
from xmcbench.data.dataset import TEST_FILTER, source_files
from xmcbench.data.store import Corpus, load_corpus
from xmcbench.data.xc_matrix import read_filter
from xmcbench.data.xc_text import at
from xmcbench.errors import DataError
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.temporary import scratch

#: The filter file of the training instances, under its common names.
TRAIN_FILTER = ("filter_labels_train.txt", "trn_filter_labels.txt")


def verify(name_or_folder: str | Path) -> list[str]:
    """The problems of a dataset, one per line; empty if everything matches its card.

    Every file is hashed and read again, without the cache. A derived dataset is derived again, after its
    source has been verified. Raises UnknownName, UsageError, and DataError if there are no data to verify.
    """
    listing = locate(name_or_folder)
    if listing.card is None or listing.problem:
        raise DataError(listing.problem, listing.hint)
    if listing.folder is not None:
        return _verify_folder(listing, listing.folder)
    findings = verify(source_of(listing).slug)
    return findings or _compare(listing, load_dataset(name_or_folder).counts())


def _verify_folder(listing: Listing, folder: Path) -> list[str]:
    findings = []
    for name, expected in (listing.card.files if listing.card else {}).items():
        path = folder / name
        if not path.is_file():
            findings.append(f"{path} is missing")
        elif sha256_file(path) != expected:
            findings.append(f"{path} does not match the SHA-256 of the card")
    try:
        findings += _compare(listing, count(folder))
    except DataError as error:
        findings.append(str(error))
    return findings


def _compare(listing: Listing, counts: dict[str, int]) -> list[str]:
    expected = listing.card.counts if listing.card else {}
    return [
        f"{listing.name}: {key} is {counts[key]}, but the card says {value}"
        for key, value in expected.items()
        if counts[key] != value
    ]


def count(folder: Path) -> dict[str, int]:
    """The counts of a folder in the XC raw layout, read from its files.

    Raises DataError for whatever breaks the format.
    """
    files = source_files(folder)
    with scratch() as temporary:
        train, test, labels = (_load(files[name], temporary / name) for name in ("trn", "tst", "lbl"))
    for part, path, names in ((train, files["trn"], TRAIN_FILTER), (test, files["tst"], TEST_FILTER)):
        if part.highest >= labels.rows:
            raise at(
                path, part.highest_line, f"target_ind {part.highest} is out of range: there are {labels.rows} labels"
            )
        filter_file = find_source(folder, *names)
        if filter_file:
            read_filter(filter_file, part.rows, labels.rows)
    return {
        "train": train.rows,
        "test": test.rows,
        "labels": labels.rows,
        "train_pairs": train.pairs,
        "test_pairs": test.pairs,
    }


def _load(path: Path, folder: Path) -> Corpus:
    folder.mkdir()
    return load_corpus(path, "labels" if folder.name == "lbl" else "instances", folder)
