"""Checks that records fit on one board: figures are possible, and from the same data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xmcbench.errors import MethodError, StorageError
from xmcbench.leaderboard.groups import by_dataset
from xmcbench.metrics import invariants
from xmcbench.records import Record
from xmcbench.records.record import Figures

#: The mean over rows and the mean over resampled rows are summed in different orders.
_ROUNDING = 1e-9


def latest(records: Iterable[Record], current: Mapping[str, str] | None = None) -> tuple[list[Record], list[Record]]:
    """The records on one version of the data of each name, and those on others.

    It is that of the last run with a result, so the data need not be available. current: name of a dataset -> SHA-256
    of the version that is kept instead, if it has a result.
    """

    def rank(record: Record) -> tuple[bool, bool, str]:
        is_current = (current or {}).get(record.cell.dataset) == record.cell.dataset_sha256
        return record.ok, is_current, record.measured.started

    found = list(records)
    last = {name: max(group, key=rank).cell.dataset_sha256 for name, group in by_dataset(found).items()}
    kept = [record for record in found if record.cell.dataset_sha256 == last[record.cell.dataset]]
    return kept, [record for record in found if record.cell.dataset_sha256 != last[record.cell.dataset]]


def check(records: Iterable[Record]) -> None:
    """Raise StorageError, naming the record, unless all of them fit on one board.

    Every metric satisfies the invariants of the protocol and lies in its interval; records of one dataset are of one
    version of its data, one default filter and one definition of propensities, over the same instances; records of one
    subset have the same pairs.
    """
    known: dict[tuple[object, ...], tuple[object, str]] = {}
    for record in records:
        cell, name = record.cell, f"{record.cell.path.as_posix()}.json"
        for scores in record.metrics.values():
            for part in (scores, *scores.views.values()):
                _check_scores(part, name)
        scored = tuple(sorted((filter_name, scores.scored) for filter_name, scores in record.metrics.items()))
        same: dict[tuple[object, ...], object] = {
            ("data", cell.dataset): cell.dataset_sha256,
            ("counts", cell.dataset): tuple(sorted(record.counts.items())),
            ("default filter", cell.dataset): record.protocol.filter,
            ("propensities", cell.dataset): record.protocol.propensity,
            **({("instances", cell.dataset): scored} if scored else {}),
            ("subset", cell.dataset, cell.setting, cell.seed): cell.subset_sha256,
        }
        for place, value in same.items():
            first, where = known.setdefault(place, (value, name))
            if value != first:
                raise StorageError(
                    f"the records {where} and {name} differ in their {place[0]} ({_short(first)}, {_short(value)})",
                    "they cannot be in one table; delete the file of the older one, and run it again",
                )


def _check_scores(scores: Figures, name: str) -> None:
    try:
        invariants.check(scores.values)
    except MethodError as error:
        raise StorageError(f"the record {name}: {error.message}", "no predictions can give these figures") from error
    for metric in scores.values:
        low, high = scores.intervals[metric]
        value = scores.values[metric]
        if not low - _ROUNDING <= value <= high + _ROUNDING:
            raise StorageError(f"the record {name}: {metric} is {value}, its interval {low} to {high}")


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) > 20 else text
