"""Evaluations of records from their stored ranks, and the ranks and figures of today's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.metrics import Scores, evaluate_ranks, inverse_propensity_of
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.records import Record, Standing, Store

if TYPE_CHECKING:
    from xmcbench.records.ranks import Truth
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


class StoredScores:
    """The evaluations of records from their stored ranks, under the filter of each; truths and results are kept.

    missing: problem of every record whose ranks cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._truths: dict[tuple[str, str], Truth] = {}
        self._found: dict[str, Scores | None] = {}
        self.missing: dict[str, StorageError] = {}

    def __call__(self, record: Record) -> Scores | None:
        """Return every metric, instance by instance; None where ranks or propensities are missing."""
        if record.key not in self._found:
            try:
                self._found[record.key] = self._evaluate(record)
            except StorageError as error:
                self.missing[record.key] = error
                self._found[record.key] = None
        return self._found[record.key]

    def _evaluate(self, record: Record) -> Scores | None:
        constants, filter_name = record.protocol.propensity, record.protocol.filter
        if record.ranks is None or constants is None:
            return None
        place = (record.cell.dataset, record.ranks.truth_sha256)
        if place not in self._truths:
            self._truths[place] = self._store.truth(record)
        truth = self._truths[place]
        ranks = self._store.ranks(record, truth).by_filter.get(filter_name)
        enough = truth.instances >= MIN_INSTANCES
        weights = inverse_propensity_of(truth.frequency, truth.instances, *constants) if enough else None
        return None if ranks is None else evaluate_ranks(ranks, truth.pairs, weights)


def is_outdated(record: Record, filter_name: str, propensity: tuple[float, float], standing: Standing) -> bool:
    """Whether the figures are from other metrics, propensity constants or another default filter.

    A record without ranks is not outdated, and a filter under which it was not scored makes none so: nothing can be
    computed.
    """
    other = filter_name != record.protocol.filter and filter_name in record.metrics
    return record.ok and record.ranks is not None and (other or not standing.figures_current(record, propensity))


def can_rank_again(record: Record, store: Store, standing: Standing) -> bool:
    """Whether other code has made the ranks of a record, and its predictions are here."""
    return record.ok and standing.stale_ranks(record) and store.has_predictions(record)


def up_to_date(
    record: Record,
    dataset: str,
    filter_name: str,
    propensity: tuple[float, float],
    store: Store,
    scorer: Scorer,
    standing: Standing,
) -> Record | None:
    """Return the record with the ranks and figures of today's code, which are made and written where outdated.

    dataset: its name or folder, for ranks. filter_name: the default filter of the dataset; one under which the record
    was not scored leaves the record's own. Where another run has written the cell meanwhile, its record counts; None
    where another run has the cell. Raises StorageError where the ranks are missing or damaged, and what scoring
    predictions raises.
    """

    def outdated(found: Record) -> bool:
        return is_outdated(found, filter_name, propensity, standing) or can_rank_again(found, store, standing)

    if not outdated(record):
        return record
    with store.claim(record.cell) as claim:
        found = store.sound(record.cell) if claim.held else None
        if found is None or not outdated(found):
            return found
        if can_rank_again(found, store, standing) and found.predictions is not None:
            # Killed before the record is written, its ranks are outdated still, and made once more.
            scored = scorer.score(found.cell, store.root, dataset, found.predictions.depth)
        else:
            default = filter_name if filter_name in found.metrics else found.protocol.filter
            scored = scorer.rescore(found.cell, store.root, default, propensity)
        today = {"metrics": scored.metrics, "protocol": scored.protocol, "ranks": scored.ranks}
        return store.write(msgspec.structs.replace(found, **today))
