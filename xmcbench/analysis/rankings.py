"""Stored predictions as texts of labels."""

from __future__ import annotations

from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.data import Dataset
from xmcbench.errors import StorageError, UsageError
from xmcbench.metrics import DEPTH
from xmcbench.metrics.ranks import find_filtered
from xmcbench.records import Record, Store
from xmcbench.storage.canonical import sha256_file
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: How many labels the first ones of a ranking are.
FIRST = 5


def check_k(k: int) -> None:
    """Raise UsageError for a number of labels that no ranking has."""
    if not isinstance(k, Integral) or not 1 <= k <= DEPTH:
        raise UsageError(f"k {k} must be in 1..{DEPTH}")


def load_stored(record: Record, store: Store) -> TopK | None:
    """Load the predictions of a record; None where the runs folder does not hold them.

    Raises StorageError where they are not those of the record, DataError where they cannot be read.
    """
    path = store.predictions_path(record.cell)
    if record.predictions is None or not path.is_file():
        return None
    return _read(path, record.predictions.sha256)


def first_labels(record: Record, store: Store, dataset: Dataset, row: int, filter_name: str) -> tuple[str, ...] | None:
    """Return the texts of the first labels that a record predicts for a test row, under a filter.

    None without predictions. Raises what ``load_stored`` raises.
    """
    predictions = load_stored(record, store)
    if predictions is None:
        return None
    return tuple(dataset.labels.titles[label] for label in rank_labels(predictions, dataset, row, filter_name, FIRST))


def rank_labels(predictions: TopK, dataset: Dataset, row: int, filter_name: str, k: int) -> dict[int, float]:
    """Return the first labels of a test row under a filter, at most k, best first: label -> score."""
    removed = dataset.filter(filter_name)  # type: ignore[arg-type] # it says what there is
    one = TopK(predictions.indices[[row]], predictions.scores[[row]])
    kept = remove_pairs(one, None if removed is None else removed[row])
    ranked = zip(kept.indices[0, :k].tolist(), kept.scores[0, :k].tolist(), strict=True)
    return {label: score for label, score in ranked if label >= 0}


def load_filtered(record: Record, store: Store, dataset: Dataset, filter_name: str) -> TopK:
    """Load the predictions of a record after a filter, cut at the depth that is scored, with their scores.

    Raises UsageError for a dataset of another version, and where the runs folder lacks the predictions; and what
    ``load_stored`` raises.
    """
    predictions = load_stored(record, store)
    if predictions is None:
        path = store.predictions_path(record.cell)
        raise UsageError(f"the predictions {path} are not on this machine", "run the cell again with --force")
    if dataset.digest != record.cell.dataset_sha256:
        raise UsageError(f"{dataset.name} on this machine is another version than that of the record")
    return remove_pairs(predictions, dataset.filter(filter_name))  # type: ignore[arg-type] # it says what there is


def remove_pairs(predictions: TopK, removed: csr_matrix | None) -> TopK:
    """Remove the pairs of a filter [N, L], if any, from predictions [N, k], and cut or pad them to the depth scored.

    Gaps close and the order stays. Raises DataError for a filter of another number of rows.
    """
    kept = TopK.joined([predictions], max(predictions.k, DEPTH))  # a copy
    if removed is not None:
        rows, ranks = find_filtered(predictions.indices, removed)
        kept.indices[rows, ranks], kept.scores[rows, ranks] = -1, -np.inf
        touched = np.unique(rows)  # a filter leaves most rows alone
        order = np.argsort(kept.indices[touched] < 0, axis=1, kind="stable")
        for array in (kept.indices, kept.scores):
            array[touched] = np.take_along_axis(array[touched], order, axis=1)
    return TopK(kept.indices[:, :DEPTH], kept.scores[:, :DEPTH])


@lru_cache(maxsize=2)
def _read(path: Path, sha256: str) -> TopK:
    if sha256_file(path) != sha256:
        raise StorageError(f"{path}: checksum mismatch", "run the cell again")
    return TopK.load(path)
