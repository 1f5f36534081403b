"""Datasets that are made from another: some of its labels, some of its training instances for testing, its titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xmcbench.data.card import Card
from xmcbench.data.dataset import Dataset, write_filter_pairs
from xmcbench.data.store import get_cached, open_corpus, rows_of, write_corpus
from xmcbench.errors import DataError
from xmcbench.storage.pairs import read_pairs
from xmcbench.texts import Texts

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix


def derive(parent: Dataset, card: Card) -> Dataset:
    """Make the dataset of ``card.derive``: some labels of ``parent``, and the instances that have one of them; some of
    its training instances, held out for testing; or its titles, without their contents.

    Raises DataError if the parent has fewer, or if no instance is left.
    """
    derivation = card.derive
    if derivation is None:
        raise DataError(f"the card of {card.name} has no [derive]")
    seed, labels, held_out = derivation.seed or 0, derivation.labels, derivation.held_out

    def fill(folder: Path) -> None:
        if labels is not None:
            _write_labels(parent, folder, draw(parent.label_corpus.rows, labels, seed, card.name, "labels"), card.name)
        elif held_out is not None:
            rows = draw(parent.train_corpus.rows, held_out, seed, card.name, "training instances")
            _write_held_out(parent, folder, rows, card.name)
        else:
            for name, texts, pairs, uids in _sides(parent):
                write_corpus(folder / name, _titles(texts), pairs, uids)

    # The digest of the source does not cover its uids, which are in the corpora.
    made_from = {"from": parent.digest, "corpora": parent.corpora}
    folder = get_cached("derived", {**msgspec.to_builtins(derivation), **made_from}, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    if labels is not None:
        filter_pairs = folder / "filter.npz" if parent.filter_pairs else None
        return Dataset(card, train, test, open_corpus(folder / "labels"), filter_pairs, parent.sources, parent.found)
    # All labels stay. The filter file is about the test instances of the source.
    filter_pairs = None if held_out is not None else parent.filter_pairs
    return Dataset(card, train, test, parent.label_corpus, filter_pairs, parent.sources, parent.found)


def draw(total: int, wanted: int, seed: int, name: str, what: str) -> np.ndarray:
    """Draw ``wanted`` of the numbers 0..total-1, ascending: int64 [wanted].

    They are the first elements of a permutation by numpy's RandomState, whose stream is frozen (NEP 19): equal on every
    machine and with every numpy. A smaller sample is a subset of a larger one of the same seed. ``name`` and ``what``
    (labels, training instances) are for the error: DataError unless 0 < wanted <= total.
    """
    if not 0 < wanted <= total:
        hint = "[derive] in its card must take from 1 to all of them"
        raise DataError(f"{name} takes {wanted} {what} of {total}", hint)
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


def _write_held_out(parent: Dataset, folder: Path, rows: np.ndarray, name: str) -> None:
    """Write these training instances as the test instances; the test instances of the parent are not used."""
    total, pairs = parent.train_corpus.rows, parent.train_pairs()
    if len(rows) == total:
        raise DataError(f"{name} holds out all {total} training instances", "some must be left for training")
    for side, own in (("train", np.setdiff1d(np.arange(total), rows)), ("test", rows)):
        write_corpus(folder / side, rows_of(parent.train, own), pairs[own], parent.train_corpus.uids)


def _titles(texts: Texts) -> Iterator[pa.RecordBatch]:
    """The rows of a corpus without their contents, a batch at a time."""
    import pyarrow as pa

    for batch in rows_of(texts, np.arange(len(texts))):
        empty = pa.array([""] * batch.num_rows, pa.large_string())
        yield batch.set_column(2, "content", empty)
