"""Opening datasets: of a source, with a test set that is drawn where it has none, or derived from another dataset.

A test set is drawn by the digest of each text. Instances with the same text are on the same side, so that no test
instance was seen in training; and an instance is on the same side wherever it is in the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xmcbench.data.card import Card, Derivation, name_sample
from xmcbench.data.dataset import Dataset, filter_store, write_filter_pairs
from xmcbench.data.sources.source import TEST_FILTER, TRAIN_FILTER, Part, Source
from xmcbench.data.store import Corpus, get_cached, get_corpus, open_corpus, rows_of, write_corpus
from xmcbench.data.text_files import at
from xmcbench.errors import DataError, UsageError
from xmcbench.output.escaping import visible
from xmcbench.storage.arrays import read_pairs
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.locations import cache_root
from xmcbench.texts import Texts

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

#: More source files than these are named by their folders.
_MANY = 64


def open_dataset(source: Source, card: Card) -> Dataset:
    """Open the dataset of a source. Its files are read and checked the first time.

    A missing training or test set is drawn from the other. Raises DataError when a file is missing, damaged, breaks the
    format, or is not the one the card names by its SHA-256; UsageError for invalid options of the place.
    """
    options = source.place.options
    try:
        share, seed = float(options.get("test_share", 0.2)), int(options.get("split_seed", 0))
    except ValueError:
        share, seed = 0.0, 0
    if not 0 < share < 1 or not 0 <= seed < 2**32:
        raise UsageError("invalid test_share or split_seed", "test_share is in (0, 1), split_seed in 0..2^32-1")
    holding, test_filter = source.find_parts(), source.place.find(*TEST_FILTER)
    files = tuple(dict.fromkeys([*holding.files, *filter(None, (test_filter, source.place.find(*TRAIN_FILTER)))]))
    parts = [part for part in (holding.train, holding.test) if part is not None]
    labels, corpora = _read(source, card, holding.labels, parts, files)
    notes = [*holding.notes, *(note for corpus in (labels, *corpora) for note in corpus.notes)]
    pairs = None
    if len(corpora) == 1:
        corpora, note = split(corpora[0], labels.rows, share, seed)
        notes.append(note)
        if test_filter:
            notes.append(f"{test_filter.name} is not used: it numbers the rows of another test set")
    else:
        unused = [name for name in ("test_share", "split_seed") if name in options]
        notes += [f"{name} is not used: there are a training and a test set" for name in unused]
        if test_filter:
            pairs = filter_store(test_filter, corpora[1].rows, labels.rows)
    train, test = corpora
    return Dataset(card, train, test, labels, pairs, _name_files(files), tuple(map(visible, notes)))


def open_training(source: Source, card: Card) -> Dataset:
    """Open the training instances of a source, which stand in the place of the test instances too.

    Test instances are not read, unless the layout has both in one file, or gathers the labels from both.
    """
    holding = source.find_training()
    if holding is None or holding.train is None:
        whole = open_dataset(source, card)
        return replace(whole, test_corpus=whole.train_corpus, filter_pairs=None)
    files = tuple(dict.fromkeys([*holding.train.files, *holding.labels.files]))
    labels, (train,) = _read(source, card, holding.labels, [holding.train], files)
    notes = tuple(map(visible, (*holding.notes, *labels.notes, *train.notes)))
    return Dataset(card, train, train, labels, None, _name_files(files), notes)


def hold_out(parent: Dataset, card: Card, share: float) -> Dataset:
    """Return the dataset of which a share of the distinct training texts of ``parent`` are the test instances."""
    (train, test), _ = split(parent.train_corpus, parent.label_corpus.rows, share, 0)
    note = (
        f"{test.rows:,} of {parent.train_corpus.rows:,} training instances are held out for testing, by the digest of "
        f"their text (dev={share}); no test instance is used"
    )
    card = msgspec.structs.replace(card, derive=Derivation(source=parent.slug, seed=0, held_out=test.rows))
    return _fit_filter(Dataset(card, train, test, parent.label_corpus, None, parent.sources, (*parent.found, note)))


def _fit_filter(made: Dataset) -> Dataset:
    """Return the dataset without a default filter where it does not have that one: its test instances are others."""
    none = msgspec.structs.replace(made.card, filter="none")
    return made if made.card.filter in made.filters else replace(made, card=none)


def _read(
    source: Source, card: Card, labels_part: Part, parts: Sequence[Part], files: tuple[Path, ...]
) -> tuple[Corpus, list[Corpus]]:
    """Return labels and instances in their loaded form, once the files are those of the card."""
    root = source.place.path
    for path in files if root.is_dir() else ():
        twin = path.with_suffix("") if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
        if twin.is_file():
            what = f"{path.parent} has {path.name} and {twin.name}: only one of them can be read"
            raise DataError(what, "move the other to another folder")
    for path in files if card.files else ():
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        if name in card.files and fingerprint(path) != card.files[name]:
            hint = f"download it again, or remove it from {root / 'card.toml'} if the change is intended"
            raise DataError(f"{path} does not match the card of {card.name}: its SHA-256 differs", hint)
    labels = get_corpus(labels_part, source)
    if not parts:
        raise DataError(f"{root} has no instances", "a dataset needs documents to train on or to test on")
    corpora = [get_corpus(part, source) for part in parts]
    for part, corpus in zip(parts, corpora, strict=True):
        if corpus.highest >= labels.rows:
            count = f"{labels_part.path.name} has {labels.rows} labels: 0..{labels.rows - 1}"
            raise at(part.path, corpus.highest_line, f"target_ind {corpus.highest} is out of range", count)
    return labels, corpora


def _name_files(files: tuple[Path, ...]) -> tuple[Path, ...]:
    return files if len(files) <= _MANY else tuple(dict.fromkeys(path.parent for path in files))


def with_documents(dataset: Dataset, source: Source) -> Dataset:
    """Return the dataset with the documents of a source as its test instances, which have no labels."""
    part = source.documents()
    test = get_corpus(part, source)
    name, slug = f"{dataset.name}+documents", f"{dataset.slug}-documents"
    card = msgspec.structs.replace(dataset.card, name=name, slug=slug, filter="none")
    sources = (*dataset.sources, *part.files)
    notes = (*dataset.found, *map(visible, test.notes))
    return Dataset(card, dataset.train_corpus, test, dataset.label_corpus, None, sources, notes)


def with_limit(dataset: Dataset, limit: str) -> Dataset:
    """Return the dataset with at most ``limit`` training and as many test instances, drawn; all labels stay.

    A dataset that has no more of either is returned as it is. A smaller sample is a part of a larger one. Raises
    UsageError for anything but a positive number.
    """
    if not limit.isdecimal() or not int(limit):
        raise UsageError(f"limit={limit} is not a number of documents", "for example limit=1000")
    number = int(limit)
    if max(dataset.train_corpus.rows, dataset.test_corpus.rows) <= number:
        return dataset

    def fill(folder: Path) -> None:
        for side, texts, pairs, uids in _sides(dataset):
            rows = draw(len(texts), min(number, len(texts)), 0, dataset.name, f"{side} instances")
            write_corpus(folder / side, rows_of(texts, rows), pairs[rows], uids)
        if dataset.filter_pairs:  # rows: of the test instances
            removed = read_pairs(dataset.filter_pairs, dataset.label_corpus.rows)
            write_filter_pairs(folder / "filter.npz", removed[rows])

    folder = get_cached("limited", {"from": dataset.digest, "corpora": dataset.corpora, "limit": number}, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    note = (
        f"limited to {train.rows:,} of {dataset.train_corpus.rows:,} training and {test.rows:,} of "
        f"{dataset.test_corpus.rows:,} test instances, which were drawn: figures are not those of {dataset.name}"
    )
    slug = f"{dataset.slug}-limit{number}"
    card = msgspec.structs.replace(dataset.card, name=name_sample(dataset.name, number), slug=slug)
    filter_pairs = folder / "filter.npz" if dataset.filter_pairs else None
    found = (*dataset.found, note)
    return _fit_filter(Dataset(card, train, test, dataset.label_corpus, filter_pairs, dataset.sources, found))


def split(whole: Corpus, labels: int, share: float, seed: int) -> tuple[list[Corpus], str]:
    """Divide instances into training and test instances; returns them and a sentence about it. labels: L."""

    def fill(folder: Path) -> None:
        texts, pairs = Texts.open(whole.texts), read_pairs(whole.pair_file, labels)
        heads = (hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8] for text in texts)
        digests = np.fromiter((int.from_bytes(head, "big") for head in heads), np.uint64, len(texts))
        distinct = np.unique(digests)
        if len(distinct) < 2:
            raise DataError("a test set cannot be drawn: all instances have the same text", "a dataset needs two texts")
        wanted = min(max(1, round(share * len(distinct))), len(distinct) - 1)
        is_test = digests <= distinct[wanted - 1]
        for name, rows in (("train", np.flatnonzero(~is_test)), ("test", np.flatnonzero(is_test))):
            write_corpus(folder / name, rows_of(texts, rows), pairs[rows], whole.uids)

    # The path of a corpus in the cache identifies its source.
    identity = {"of": str(whole.folder.relative_to(cache_root())), "share": share, "seed": seed}
    folder = get_cached("split", identity, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    verb = "was" if test.rows == 1 else "were"
    note = (
        f"there is one set of instances: {test.rows:,} of {whole.rows:,} {verb} drawn for testing, by the digest of "
        f"their text (test_share={share:g}, split_seed={seed})"
    )
    return [train, test], note


def derive(parent: Dataset, card: Card) -> Dataset:
    """Make the dataset of ``card.derive``. Raises DataError if the parent is too small, or if no instance is left."""
    derivation = card.derive
    if derivation is None:
        raise DataError(f"the card of {card.name} has no [derive]")
    seed, labels, held_out = derivation.seed or 0, derivation.labels, derivation.held_out

    def fill(folder: Path) -> None:
        if labels is not None:
            _write_labels(parent, folder, draw(parent.label_corpus.rows, labels, seed, card.name, "labels"), card.name)
        elif held_out is not None:  # the test instances of the parent are not used
            total, pairs = parent.train_corpus.rows, parent.train_pairs()
            rows = draw(total, held_out, seed, card.name, "training instances")
            if held_out == total:
                raise DataError(
                    f"{card.name} holds out all {total} training instances", "some must be left for training"
                )
            for side, own in (("train", np.setdiff1d(np.arange(total), rows)), ("test", rows)):
                write_corpus(folder / side, rows_of(parent.train, own), pairs[own], parent.train_corpus.uids)
        else:
            for name, texts, pairs, uids in _sides(parent):
                write_corpus(folder / name, _titles(texts), pairs, uids)

    # The digest of the source does not cover its uids, which are in the corpora.
    made_from = {"from": parent.digest, "corpora": parent.corpora}
    folder = get_cached("derived", {**msgspec.to_builtins(derivation), **made_from}, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    label_corpus, filter_pairs = parent.label_corpus, parent.filter_pairs
    if labels is not None:
        label_corpus, filter_pairs = open_corpus(folder / "labels"), filter_pairs and folder / "filter.npz"
    elif held_out is not None:  # the filter file is about the test instances of the source
        filter_pairs = None
    return Dataset(card, train, test, label_corpus, filter_pairs, parent.sources, parent.found)


def draw(total: int, wanted: int, seed: int, name: str, what: str) -> np.ndarray:
    """Draw ``wanted`` of the numbers 0..total-1, ascending: int64 [wanted]. Raises DataError if there are fewer.

    They are the first elements of a permutation by numpy's RandomState, whose stream is frozen (NEP 19): equal on every
    machine and with every numpy. A smaller sample is a subset of a larger one of the same seed.
    """
    if not 0 < wanted <= total:
        raise DataError(
            f"{name} takes {wanted} {what} of {total}", "[derive] in its card must take from 1 to all of them"
        )
    return np.sort(np.random.RandomState(seed).permutation(total)[:wanted])


def _sides(parent: Dataset) -> Iterator[tuple[str, Texts, csr_matrix, bool]]:
    """Name, texts and pairs of training and test instances, and whether they have uids."""
    yield "train", parent.train, parent.train_pairs(), parent.train_corpus.uids
    yield "test", parent.test, parent.test_pairs(), parent.test_corpus.uids


def _write_labels(parent: Dataset, folder: Path, labels: np.ndarray, name: str) -> None:
    """Write these labels, renumbered in order, and the instances with one of them."""
    for side, texts, pairs, uids in _sides(parent):
        columns = pairs[:, labels].tocsr()
        rows = np.flatnonzero(np.diff(columns.indptr))
        if not len(rows):
            raise DataError(f"{name}: no {side} instance has one of the {len(labels)} labels", "use more labels")
        columns = columns[rows]
        columns.sort_indices()
        write_corpus(folder / side, rows_of(texts, rows), columns, uids)
    if parent.filter_pairs:  # rows: of the test instances
        removed = read_pairs(parent.filter_pairs, parent.label_corpus.rows)[rows][:, labels]
        write_filter_pairs(folder / "filter.npz", removed)
    write_corpus(folder / "labels", rows_of(parent.labels, labels), None, parent.label_corpus.uids)


def _titles(texts: Texts) -> Iterator[pa.RecordBatch]:
    """The rows of a corpus without their contents, a batch at a time."""
    import pyarrow as pa

    for batch in rows_of(texts, np.arange(len(texts))):
        empty = pa.array([""] * batch.num_rows, pa.large_string())
        yield batch.set_column(2, "content", empty)
