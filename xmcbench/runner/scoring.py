"""Figures and evaluations of records from their stored ranks, also where the code has changed since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from xmcbench.errors import StorageError, UsageError
from xmcbench.metrics import Evaluation, Scores, additional, protocol
from xmcbench.records import Record, Staleness, Store, Truth
from xmcbench.records.record import Protocol
from xmcbench.records.staleness import metrics_digest
from xmcbench.runner.figures import weigh_labels

if TYPE_CHECKING:
    import numpy as np

    from xmcbench.runner.scorer import Scorer


def protocol_of(filter_name: Any, propensity: tuple[float, float]) -> Protocol:
    """Return the facts of a record about today's metrics, the filter of its dataset, and the constants A and B."""
    return Protocol(version=protocol.VERSION, filter=filter_name, propensity=propensity, source_sha256=metrics_digest())


def evaluations(
    records: Sequence[Record], store: Store, filter_name: str, propensity: tuple[float, float] | None = None
) -> list[Scores]:
    """Return every metric of each record, instance by instance, under a filter, from stored ranks.

    propensity: the constants A and B (default: from the record). Raises UsageError for a record that was not scored
    under the filter, and StorageError for missing or damaged files.
    """
    stored = StoredScores(store)
    return [stored.evaluate(record, filter_name, propensity or record.protocol.propensity) for record in records]


def ranks_under(filter_name: str, record: Record, store: Store, truth: Truth) -> np.ndarray:
    """Return the ranks of a record's true pairs under a filter, uint8 [P]. Raises what ``evaluations`` raises."""
    ranks = store.ranks(record, truth).by_filter
    if filter_name not in ranks:
        raise UsageError(f"{record.name} was not scored under the filter {filter_name}", f"it has: {', '.join(ranks)}")
    return ranks[filter_name]


class StoredScores:
    """Evaluations of records from their stored ranks, kept. missing: record -> problem of ranks that cannot be read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._truths: dict[str, Truth] = {}
        self._evaluations: dict[tuple[str, tuple[float, float]], Evaluation] = {}
        self._found: dict[str, Scores | None] = {}
        self.missing: dict[str, StorageError] = {}

    def __call__(self, record: Record) -> Scores | None:
        """Return every metric under the filter of the record; None if its ranks are missing."""
        if record.key not in self._found and record.ranks is not None:
            try:
                self._found[record.key] = self.evaluate(record, record.protocol.filter, record.protocol.propensity)
            except StorageError as error:
                self.missing[record.key] = error
            except UsageError:
                pass
        return self._found.setdefault(record.key, None)

    def evaluate(self, record: Record, filter_name: str, constants: tuple[float, float]) -> Scores:
        """Return every metric of a record under a filter. Raises what ``evaluations`` raises."""
        truth, digest = self._truth(record)
        ranks = ranks_under(filter_name, record, self._store, truth)
        if (digest, constants) not in self._evaluations:
            weights = weigh_labels(truth, constants)
            self._evaluations[digest, constants] = Evaluation(truth.pairs, weights)
        return self._evaluations[digest, constants](ranks)

    def compute(self, record: Record, names: Sequence[str]) -> dict[str, float | None]:
        """Return metrics by name, also beyond the protocol, under the filter of the record.

        None for propensity-scored metrics without propensities. Raises StorageError for missing ranks, and what
        ``metrics.additional.compute`` raises.
        """
        truth, _ = self._truth(record)
        ranks = ranks_under(record.protocol.filter, record, self._store, truth)
        return additional.compute(names, ranks, truth.pairs, weigh_labels(truth, record.protocol.propensity))

    def _truth(self, record: Record) -> tuple[Truth, str]:
        digest = record.ranks.truth_sha256 if record.ranks else ""  # without ranks, the store raises
        if digest not in self._truths:
            self._truths[digest] = self._store.truth(record)
        return self._truths[digest], digest


def is_outdated(record: Record, filter_name: str, propensity: tuple[float, float], staleness: Staleness) -> bool:
    """Return whether the figures are from other metrics, propensity constants or another default filter.

    A new filter that the record has no ranks under does not count: no figures can be computed.
    """
    other = filter_name != record.protocol.filter and filter_name in record.metrics
    return record.ok and (other or not staleness.has_current_figures(record, propensity))


def can_rank_again(record: Record, store: Store, staleness: Staleness) -> bool:
    """Return whether other code made the ranks of a record, and its predictions are here."""
    return record.ok and staleness.has_stale_ranks(record) and store.has_predictions(record)


def up_to_date(
    record: Record,
    dataset: str,
    filter_name: str,
    propensity: tuple[float, float],
    store: Store,
    scorer: Scorer,
    staleness: Staleness,
) -> Record | None:
    """Return the record with the ranks and figures of today's code, computing and writing outdated ones.

    dataset: its name or folder, for ranks. filter_name: the default filter of the dataset; the record keeps its own if
    it was not scored under this one. If another run has written the cell meanwhile, its record counts; None if another
    run holds the cell. Raises StorageError for missing or damaged ranks, and as scoring predictions does.
    """

    def is_stale(found: Record) -> bool:
        return is_outdated(found, filter_name, propensity, staleness) or can_rank_again(found, store, staleness)

    if not is_stale(record):
        return record
    with store.claim(record.cell) as claim:
        found = store.find_intact(record.cell) if claim.held else None
        if found is None or not is_stale(found):
            return found
        if can_rank_again(found, store, staleness) and found.predictions is not None:
            # If this is killed before the record is written, its ranks are still outdated and made once more.
            scored = scorer.score(found.cell, store.root, dataset, found.predictions.depth)
        else:
            default = filter_name if filter_name in found.metrics else found.protocol.filter
            scored = scorer.rescore(found.cell, store.root, default, propensity)
        today = {"metrics": scored.metrics, "protocol": scored.protocol, "ranks": scored.ranks}
        return store.write(msgspec.structs.replace(found, **today))
