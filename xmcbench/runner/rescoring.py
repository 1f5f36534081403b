"""Score the predictions of records again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xmcbench.canonical import sha256_file
from xmcbench.errors import DataError, StorageError
from xmcbench.metrics import Scores, TruePairs, evaluate_ranks, inverse_propensity, true_ranks
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


def run_scores(
    records: Sequence[Mapping[str, Any]], store: Store, dataset: Dataset, filter_name: Filter
) -> list[Scores]:
    """Every metric of one row's predictions, for each of its records.

    Raises what ``predictions`` raises, and UsageError for a filter that the data set does not have.
    """
    weights = inverse_propensity(dataset.train_pairs(), *dataset.propensity)
    truth, removed = TruePairs.of(dataset.test_pairs()), dataset.filter(filter_name)
    return [
        evaluate_ranks(true_ranks(predictions(record, store, dataset).indices, truth, removed), truth, weights)
        for record in records
    ]
