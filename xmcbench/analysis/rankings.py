"""Stored predictions as texts of labels."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from xmcbench.data import Dataset
from xmcbench.errors import StorageError, UsageError
from xmcbench.metrics.ranks import remove_filtered
from xmcbench.records import Record, Store
from xmcbench.storage.canonical import sha256_file
from xmcbench.topk import TopK

#: How many labels the first ones of a ranking are.
FIRST = 5


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
    labels, _ = rank_labels(predictions, dataset, row, filter_name, FIRST)
    return tuple(dataset.labels.titles[label] for label in labels.tolist())


def rank_labels(
    predictions: TopK, dataset: Dataset, row: int, filter_name: str, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first k labels of a test row under a filter, and their scores: int32 and float32, at most k each."""
    removed = dataset.filter(filter_name)  # type: ignore[arg-type] # it says what there is
    labels = predictions.indices[row]
    kept = remove_filtered(labels[None], None if removed is None else removed[row])[0]
    kept = kept[kept >= 0][:k]
    score = dict(zip(labels.tolist(), predictions.scores[row].tolist(), strict=True))
    return kept, np.array([score[label] for label in kept.tolist()], np.float32)


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
    removed = dataset.filter(filter_name)  # type: ignore[arg-type] # it says what there is
    kept = remove_filtered(predictions.indices, removed)
    scores = np.full(kept.shape, -np.inf, np.float32)
    for row, (labels, before, values) in enumerate(zip(kept, predictions.indices, predictions.scores, strict=True)):
        # A filter takes predictions out and leaves the order alone.
        scores[row, : int((labels >= 0).sum())] = values[np.isin(before, labels[labels >= 0])]
    return TopK(kept, scores)


@lru_cache(maxsize=2)
def _read(path: Path, sha256: str) -> TopK:
    if sha256_file(path) != sha256:
        raise StorageError(f"{path}: checksum mismatch", "run the cell again")
    return TopK.load(path)
