"""Score the predictions of records again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench.canonical import sha256_file
from xmcbench.errors import DataError, StorageError
from xmcbench.metrics import Scores, evaluate, inverse_propensity
from xmcbench.records import Cell, Store
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.data.vocabulary import Filter


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
    path = store.predictions_path(Cell.of(record))
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
