"""Stored predictions as texts of labels."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import StorageError
from xmcbench.metrics import filters
from xmcbench.storage.canonical import sha256_file
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.records import Record, Store


def stored(record: Record, store: Store) -> TopK | None:
    """The predictions of a record; None where the runs folder does not hold them.

    Raises StorageError where they are not those of the record, DataError where they cannot be read.
    """
    path = store.predictions_path(record.cell)
    if record.predictions is None or not path.is_file():
        return None
    return _read(path, record.predictions.sha256)


def first_labels(
    record: Record, store: Store, dataset: Dataset, row: int, filter_name: str, k: int = 5
) -> tuple[str, ...] | None:
    """The texts of the first k labels that a record predicts for a test row, under a filter; None without predictions.

    Raises what ``stored`` raises.
    """
    predictions = stored(record, store)
    if predictions is None:
        return None
    labels, _ = ranking(predictions, dataset, row, filter_name, k)
    return tuple(dataset.labels.titles[int(each)] for each in labels)


def ranking(predictions: TopK, dataset: Dataset, row: int, filter_name: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first k labels of a test row under a filter, and their scores: int32 and float32, at most k each."""
    removed = dataset.filter(filter_name)  # type: ignore[arg-type] # it says what there is
    labels = predictions.indices[row]
    kept = filters.remove(labels[None], None if removed is None else removed[row])[0]
    kept = kept[kept >= 0][:k]
    score = dict(zip(labels.tolist(), predictions.scores[row].tolist(), strict=True))
    return kept, np.array([score[int(each)] for each in kept], np.float32)


@lru_cache(maxsize=2)
def _read(path: Path, sha256: str) -> TopK:
    if sha256_file(path) != sha256:
        raise StorageError(f"{path}: checksum mismatch", "run the cell again")
    return TopK.load(path)
