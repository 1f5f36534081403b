"""Evaluations of records, computed from their stored ranks."""

from __future__ import annotations

from collections.abc import Sequence

from xmcbench.errors import DataError, StorageError
from xmcbench.metrics import Scores, evaluate_ranks, inverse_propensity_of
from xmcbench.metrics.propensity import MIN_INSTANCES
from xmcbench.records import Record, Store


def evaluations(
    records: Sequence[Record], store: Store, filter_name: str, propensity: tuple[float, float] | None = None
) -> list[Scores]:
    """Every metric of each record, instance by instance, under a filter.

    propensity: the constants A and B (default: those of the record). Neither predictions nor the dataset are needed.
    Raises StorageError where a record has no ranks, or none under the filter, and where files are missing or damaged.
    """
    found = []
    for record in records:
        truth = store.truth(record)
        ranks = store.ranks(record, truth)
        if filter_name not in ranks.by_filter:
            known = ", ".join(ranks.by_filter)
            raise StorageError(f"{record.name} was not scored under the filter {filter_name}", f"it has: {known}")
        constants = propensity or record.protocol.propensity
        if constants is None:
            raise DataError(f"the propensities of {record.cell.dataset} are not known", "name its folder: --dataset")
        enough = truth.instances >= MIN_INSTANCES
        weights = inverse_propensity_of(truth.frequency, truth.instances, *constants) if enough else None
        found.append(evaluate_ranks(ranks.by_filter[filter_name], truth.pairs, weights))
    return found
