"""Score the predictions of a record again: does what it says follow from them?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench.canonical import sha256_file
from xmcbench.errors import DataError, StorageError
from xmcbench.metrics import Scores, evaluate, inverse_propensity, protocol
from xmcbench.records import Cell, Store
from xmcbench.runner.scoring import score
from xmcbench.setting import Setting, draw
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.data.vocabulary import Filter

#: Sums over rows may differ in the last digits between two builds of numpy.
_TOLERANCE = 1e-9

#: What a record with a result has besides the fields of every record; a board reads them all.
_FIELDS = ("subset", "counts", "reason", "protocol", "metrics", "predictions", "notes", "environment", "measured")


def predictions(record: Mapping[str, Any], store: Store, dataset: Dataset) -> TopK:
    """The predictions of a record, as they were when it was written.

    Raises DataError when the data are another version, StorageError when the predictions are not there or not the
    record's, MethodError when they are no valid answer.
    """
    if record["cell"]["dataset_sha256"] != dataset.digest:
        raise DataError(
            f"the record is about another version of {dataset.name}: the SHA-256 of its data differs",
            "name the folder of that version with --dataset",
        )
    path = store.root / record["predictions"]["file"]
    if not path.is_file():
        raise StorageError(f"its predictions {path} are not there", "they are needed to score it again")
    if sha256_file(path) != record["predictions"]["sha256"]:
        raise StorageError(f"its predictions {path} are not those it was made from: their SHA-256 differs")
    found = TopK.load(path)
    found.check(len(dataset.test), record["predictions"]["depth"], len(dataset.labels))
    return found


def mean_scores(records: Sequence[Mapping[str, Any]], store: Store, dataset: Dataset, filter_name: Filter) -> Scores:
    """Every metric of one row's predictions, averaged over its seeds instance by instance.

    Raises what ``predictions`` raises, and UsageError for a filter that the data set does not have.
    """
    weights = inverse_propensity(dataset.train_pairs(), *dataset.propensity)
    truth, removed = dataset.test_pairs(), dataset.filter(filter_name)
    each = [
        evaluate(predictions(record, store, dataset), truth, removed=removed, inverse_propensity=weights)
        for record in records
    ]
    return replace(
        each[0],
        values={name: fmean(scores.values[name] for scores in each) for name in each[0].values},
        per_instance={
            name: np.mean([scores.per_instance[name] for scores in each], axis=0) for name in each[0].per_instance
        },
    )


def verify(record: Mapping[str, Any], store: Store, dataset: Dataset) -> None:
    """Raise an error that says what is wrong unless a record follows from its predictions and the data set.

    StorageError for a field that is missing, a name that leads out of a runs folder, and for a figure, a count or a
    subset that does not follow; otherwise what ``predictions`` raises.
    """
    for field in _FIELDS:
        if field not in record:
            raise StorageError(f"it has no {field}", "run the cell again")
    path = Cell.of(record).path
    if path.is_absolute() or ".." in path.parts:
        raise StorageError(f"its data set, method or seed is no name: {path}", "run the cell again")
    if record["protocol"]["version"] != protocol.VERSION:
        raise StorageError(f"it is of metric protocol {record['protocol']['version']}, not {protocol.VERSION}")
    found = predictions(record, store, dataset)
    cell = record["cell"]
    subset = draw(dataset.train_pairs(), Setting(**cell["setting"]), cell["seed"])
    made = {
        "counts": dataset.counts(),
        "protocol": {"version": protocol.VERSION, "filter": dataset.card.filter},
        "subset": subset.identity() if subset else None,
        "metrics": score(found, dataset, subset.pairs if subset else None),
    }
    if cell["subset_sha256"] != (subset.digest if subset else None):
        raise StorageError("its subset is not the one that its setting and seed draw", "run the cell again")
    for field, value in made.items():
        for place, said, follows in _differing(record.get(field), value, field):
            raise StorageError(f"its {place} is {said}, but {follows} follows from its predictions")


def _differing(said: object, follows: object, place: str) -> Iterator[tuple[str, object, object]]:
    """Where two JSON values differ: (place, one, other)."""
    if isinstance(said, Mapping) and isinstance(follows, Mapping):
        for name in sorted({*said, *follows}):
            yield from _differing(said.get(name), follows.get(name), f"{place}.{name}")
    elif isinstance(said, list | tuple) and isinstance(follows, list | tuple) and len(said) == len(follows):
        for position, (one, other) in enumerate(zip(said, follows, strict=True)):
            yield from _differing(one, other, f"{place}[{position}]")
    elif isinstance(said, float | int) and isinstance(follows, float | int):
        if not math.isclose(said, follows, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield place, said, follows
    elif said != follows:
        yield place, said, follows
