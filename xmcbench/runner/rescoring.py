"""What is computed of records from their stored ranks: evaluations, and the figures of today's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from xmcbench.errors import DataError, UsageError
from xmcbench.metrics import Scores, evaluate_ranks, inverse_propensity_of
from xmcbench.metrics.propensity import MIN_INSTANCES
from xmcbench.records import Record, Store
from xmcbench.records.standing import figures_current

if TYPE_CHECKING:
    from xmcbench.runner.scorer import Scorer


def evaluations(
    records: Sequence[Record], store: Store, filter_name: str, propensity: tuple[float, float] | None = None
) -> list[Scores]:
    """Every metric of each record, instance by instance, under a filter.

    propensity: the constants A and B (default: those of the record). Neither predictions nor the dataset are needed.
    Raises UsageError where a record was not scored under the filter, and StorageError where it has no ranks and where
    files are missing or damaged.
    """
    found = []
    for record in records:
        truth = store.truth(record)
        ranks = store.ranks(record, truth)
        if filter_name not in ranks.by_filter:
            known = ", ".join(ranks.by_filter)
            raise UsageError(f"{record.name} was not scored under the filter {filter_name}", f"it has: {known}")
        constants = propensity or record.protocol.propensity
        if constants is None:
            raise DataError(f"the propensities of {record.cell.dataset} are not known", "name its folder: --dataset")
        enough = truth.instances >= MIN_INSTANCES
        weights = inverse_propensity_of(truth.frequency, truth.instances, *constants) if enough else None
        found.append(evaluate_ranks(ranks.by_filter[filter_name], truth.pairs, weights))
    return found


def is_outdated(record: Record, filter_name: str, propensity: tuple[float, float]) -> bool:
    """Whether the figures are from other metrics, propensity constants or another default filter.

    A record without ranks is not outdated, and a filter under which it was not scored makes none so: nothing can be
    computed.
    """
    other = filter_name != record.protocol.filter and filter_name in record.metrics
    return record.ok and record.ranks is not None and (other or not figures_current(record, propensity))


def up_to_date(
    record: Record, filter_name: str, propensity: tuple[float, float], store: Store, scorer: Scorer
) -> Record | None:
    """The record with the figures of today's metrics, which are computed and written where they are outdated.

    filter_name: the default filter of its dataset; one under which it was not scored leaves the record's own. Where
    another run has written the cell meanwhile, its record counts; None where another run has the cell. Raises
    StorageError where the ranks are missing or damaged.
    """
    if not is_outdated(record, filter_name, propensity):
        return record
    with store.claim(record.cell) as claim:
        found = store.sound(record.cell) if claim.held else None
        if found is None or not is_outdated(found, filter_name, propensity):
            return found
        default = filter_name if filter_name in found.metrics else found.protocol.filter
        scored = scorer.rescore(found.cell, store.root, default, propensity)
        return store.write(msgspec.structs.replace(found, metrics=scored.metrics, protocol=scored.protocol))
