"""Datasets that are made from another: some of its labels, some of its training instances for testing, its titles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.data.card import Card, Derivation
from xmcbench.data.dataset import Dataset
from xmcbench.data.filter_file import keep_filter
from xmcbench.data.store import kept, open_corpus, rows_of, titles_of, write_corpus
from xmcbench.errors import DataError
from xmcbench.storage.pairs import read_pairs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def derive(parent: Dataset, card: Card) -> Dataset:
    """The dataset of ``card.derive``: some labels of ``parent``, and the instances that have one of them; some of its
    training instances, held out for testing; or its titles, without their contents.

    Raises DataError if the parent has fewer, or if no instance is left.
    """
    if card.derive is None:
        raise DataError(f"the card of {card.name} has no [derive]")
    if card.derive.titles:
        return _titles(parent, card)
    made = _some_labels if card.derive.labels is not None else _held_out
    return made(parent, card, card.derive)


def draw(total: int, wanted: int, seed: int, name: str, what: str) -> np.ndarray:
    """``wanted`` of the numbers 0..total-1, ascending: int64 [wanted].

    They are the first elements of a permutation by numpy's RandomState, whose stream is frozen (NEP 19): equal on every
    machine and with every numpy. A smaller sample is a subset of a larger one of the same seed. ``name`` and ``what``
    (labels, training instances) are for the error: DataError unless 0 < wanted <= total.
    """
    if not 0 < wanted <= total:
        raise DataError(
            f"{name} takes {wanted} {what} of {total}", "[derive] in its card must take from 1 to all of them"
        )
    order = np.random.RandomState(seed).permutation(total)
    return np.sort(order[:wanted])


def _identity(parent: Dataset) -> dict[str, object]:
    """What a derived dataset depends on in its source: the content, and the uids, which the digest does not cover."""
    return {"from": parent.digest, "corpora": parent.corpora}


def _restrict(pairs: csr_matrix, labels: np.ndarray) -> tuple[np.ndarray, csr_matrix]:
    """The rows of ``pairs`` [N, L] with one of ``labels`` (ascending ids), and their pairs [rows, len(labels)].

    Labels are renumbered in order.
    """
    columns = pairs[:, labels].tocsr()
    rows = np.flatnonzero(np.diff(columns.indptr))
    found = columns[rows]
    found.sort_indices()
    return rows, found


def _some_labels(parent: Dataset, card: Card, derivation: Derivation) -> Dataset:
    wanted = derivation.labels or 0
    identity = {**_identity(parent), "labels": wanted, "seed": derivation.seed}

    def fill(folder: Path) -> None:
        labels = draw(parent.label_corpus.rows, wanted, derivation.seed or 0, card.name, "labels")
        parts = {"train": (parent.train, parent.train_pairs()), "test": (parent.test, parent.test_pairs())}
        for name, (texts, pairs) in parts.items():
            rows, kept_pairs = _restrict(pairs, labels)
            if not len(rows):
                raise DataError(
                    f"{card.name}: no {name} instance has one of the {len(labels)} labels", "use more labels"
                )
            (folder / name).mkdir()
            uids = parent.test_corpus.uids if name == "test" else parent.train_corpus.uids
            write_corpus(folder / name, rows_of(texts, rows), kept_pairs, uids)
            if name == "test" and parent.filter_pairs:
                removed = read_pairs(parent.filter_pairs, parent.label_corpus.rows)[rows][:, labels]
                keep_filter(folder / "filter.npz", removed)
        (folder / "labels").mkdir()
        write_corpus(folder / "labels", rows_of(parent.labels, labels), None, parent.label_corpus.uids)

    folder = kept("derived", identity, fill)
    train, test, labels = (open_corpus(folder / name) for name in ("train", "test", "labels"))
    filter_pairs = folder / "filter.npz" if parent.filter_pairs else None
    return Dataset(card, train, test, labels, filter_pairs, parent.sources, parent.found)


def _titles(parent: Dataset, card: Card) -> Dataset:
    identity = {**_identity(parent), "titles": True}

    def fill(folder: Path) -> None:
        for name, texts, pairs in (
            ("train", parent.train, parent.train_pairs()),
            ("test", parent.test, parent.test_pairs()),
        ):
            (folder / name).mkdir()
            uids = parent.test_corpus.uids if name == "test" else parent.train_corpus.uids
            write_corpus(folder / name, titles_of(texts), pairs, uids)

    folder = kept("derived", identity, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    return Dataset(card, train, test, parent.label_corpus, parent.filter_pairs, parent.sources, parent.found)


def _held_out(parent: Dataset, card: Card, derivation: Derivation) -> Dataset:
    """All labels of the parent stay; its test instances, and the filter file about them, are not used."""
    wanted, total = derivation.held_out or 0, parent.train_corpus.rows
    identity = {**_identity(parent), "held_out": wanted, "seed": derivation.seed}

    def fill(folder: Path) -> None:
        rows = draw(total, wanted, derivation.seed or 0, card.name, "training instances")
        if wanted == total:
            raise DataError(f"{card.name} holds out all {total} training instances", "some must be left for training")
        pairs = parent.train_pairs()
        for name, own in (("train", np.setdiff1d(np.arange(total), rows)), ("test", rows)):
            (folder / name).mkdir()
            write_corpus(folder / name, rows_of(parent.train, own), pairs[own], parent.train_corpus.uids)

    folder = kept("derived", identity, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    return Dataset(card, train, test, parent.label_corpus, sources=parent.sources, found=parent.found)
