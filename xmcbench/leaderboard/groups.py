"""Groups of records: by dataset, by setting, and by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import TypeVar

from xmcbench.data.card import is_limited
from xmcbench.records import Record
from xmcbench.setting import Setting

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

#: The ending of the names of datasets for tuning.
_FOR_TUNING = re.compile(r"-dev(-[\d.e-]+)?(\+limit\d+)?$")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their keys, which are in the order of their first items."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_dataset(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records by the name of their dataset."""
    return group_by(records, attrgetter("cell.dataset"))


def group_rows(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records by method and parameters, each group by seed."""
    groups = group_by(records, attrgetter("cell.row"))
    return {key: sorted(groups[key], key=lambda record: record.cell.seed) for key in sorted(groups)}


def borrow(zero_shot: Iterable[Record], inside: Sequence[Record]) -> list[Record]:
    """The zero-shot results that also belong in another setting of their dataset: those of methods that ignore pairs.

    inside: the records of that setting. A method that has a record there keeps it, and without any result there nothing
    is borrowed.
    """
    if not any(record.ok for record in inside):
        return []
    there = {record.cell.row for record in inside}
    unused = [record for record in zero_shot if record.ok and record.method.supervision == "unused"]
    return [record for record in unused if record.cell.row not in there]


def by_setting(records: Iterable[Record]) -> dict[Setting, list[Record]]:
    """Return the records by setting, in the order of a page."""
    groups: dict[Setting, list[Record]] = group_by(records, attrgetter("cell.setting"))
    return {setting: groups[setting] for setting in sorted(groups, key=order)}


def order(setting: Setting) -> tuple[int, str, float]:
    """The position of a setting on a page: from no pairs to all."""
    return ("ez", "fs", "full").index(setting.kind), setting.by or "", setting.ratio or 0.0


def is_listed(dataset: str) -> bool:
    """Return whether a dataset is compared where none is named: it is neither for tuning nor a sample of another."""
    return not for_tuning(dataset) and not is_limited(dataset)


def for_tuning(dataset: str) -> bool:
    """Return whether a dataset is for tuning, by its name: rows tuned there are not compared there.

    ``--dev 0.1`` makes names such as docs-dev-0.1.
    """
    return _FOR_TUNING.search(dataset.casefold()) is not None
