"""Examination of a runs folder: damaged records, ranks, predictions and artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.records.ranks import Truth
from xmcbench.records.record import Record
from xmcbench.records.store import Store
from xmcbench.storage.artifact_store import examine, list_stores
from xmcbench.storage.canonical import sha256_file


def find_damage(store: Store) -> Iterator[str]:
    """Yield a line with the path for everything that is damaged. Raises StorageError for an unreadable folder."""
    truths: dict[Path, Truth | None] = {}
    records = store.records()
    yield from map(str, store.left_out.values())
    for record in records:
        yield from _of_record(record, store, truths)
    for folder, problem in chain.from_iterable(map(examine, list_stores(store.root))):
        if problem:
            yield f"{folder}: {problem}; it will be regenerated when needed"


def _of_record(record: Record, store: Store, truths: dict[Path, Truth | None]) -> Iterator[str]:
    """truths: by file, those that were read before; None for one that could not be read, which is said once."""
    try:
        if record.ranks is not None:
            file = store.truth_path(record.cell.dataset, record.ranks.truth_sha256)
            if file not in truths:
                truths[file] = None
                truths[file] = store.truth(record)
            truth = truths[file]
            if truth is not None:
                store.ranks(record, truth)
        path = store.predictions_path(record.cell)
        if record.predictions is not None and path.exists() and sha256_file(path) != record.predictions.sha256:
            yield f"{path}: checksum mismatch; figures follow from the ranks, the predictions are lost"
    except StorageError as error:
        yield str(error)
    except (OSError, ValueError) as error:
        yield f"{store.predictions_path(record.cell)}: {error}"
