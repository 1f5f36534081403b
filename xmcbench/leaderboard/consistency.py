"""Checks that records fit on one board: figures are possible, and from the same data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from xmcbench.errors import MethodError, StorageError
from xmcbench.metrics import invariants
from xmcbench.records import Record
from xmcbench.records.record import Figures

#: The mean over rows and the mean over resampled rows are summed in different orders.
_ROUNDING = 1e-9


def latest(records: Iterable[Record]) -> tuple[list[Record], dict[str, int]]:
    """The records on the latest version of each dataset, and how many of each dataset are on earlier ones.

    The latest version is that of the last run with a result, so the data need not be available.
    """
    found = list(records)
    newest: dict[str, Record] = {}
    for record in found:
        other = newest.setdefault(record.cell.dataset, record)
        newest[record.cell.dataset] = max(other, record, key=lambda record: (record.ok, record.measured.started))
    kept = [record for record in found if record.cell.dataset_sha256 == newest[record.cell.dataset].cell.dataset_sha256]
    counts = Counter(record.cell.dataset for record in found) - Counter(record.cell.dataset for record in kept)
    return kept, dict(counts)


def check(records: Iterable[Record]) -> None:
    """Raise StorageError, naming the record, unless all of them fit on one board.

    Every metric satisfies the invariants of the protocol and lies in its interval; records of one dataset are of one
    version of its data, one default filter and one definition of propensities, over the same instances; records of one
    subset have the same pairs.
    """
    known: dict[tuple[object, ...], tuple[object, str]] = {}
    for record in records:
        name = f"{record.cell.path.as_posix()}.json"
        cell = record.cell
        scored, constants = {}, record.protocol.propensity
        for filter_name, scores in sorted(record.metrics.items()):
            scored[filter_name] = scores.scored
            for part in (scores, *scores.views.values()):
                _check_scores(part, name)
        same = {
            "data": (("data", cell.dataset), cell.dataset_sha256),
            "counts": (("counts", cell.dataset), tuple(sorted(record.counts.items()))),
            "default filter": (("filter", cell.dataset), record.protocol.filter),
            **({"propensities": (("propensity", cell.dataset), constants)} if constants else {}),
            **({"instances": (("scored", cell.dataset), tuple(scored.items()))} if scored else {}),
            "subset": (("subset", cell.dataset, cell.setting, cell.seed), cell.subset_sha256),
        }
        for what, (place, value) in same.items():
            first, where = known.setdefault(place, (value, name))
            if value != first:
                raise StorageError(
                    f"the records {where} and {name} differ in their {what} ({_short(first)}, {_short(value)})",
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
