"""The records that a word selects: a method, the first letters of a key, or a file."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from xmcbench.errors import NoResult, UnknownName, UsageError
from xmcbench.records.record import Record
from xmcbench.records.record_json import read_record
from xmcbench.records.store import Store
from xmcbench.setting import Setting

#: Minimum number of letters that select a key.
_KEY = re.compile(r"[0-9a-f]{6,64}")

#: Where a group of records belongs: dataset, its version, setting.
Place = tuple[str, str, Setting]


@dataclass(frozen=True)
class Selected:
    """The records of one row, one per seed, and the runs folder that holds their predictions."""

    records: tuple[Record, ...]
    store: Store

    @property
    def seeds(self) -> list[int]:
        """The seeds of the row."""
        return [record.cell.seed for record in self.records]

    @property
    def keys(self) -> list[str]:
        """The keys of the row's records."""
        return [record.key for record in self.records]

    @property
    def subsets(self) -> list[str | None]:
        """The few-shot subset of each record, by its SHA-256; None for a setting without one."""
        return [record.cell.subset_sha256 if record.cell.setting.kind == "fs" else None for record in self.records]

    @property
    def deterministic(self) -> bool:
        """Whether another seed would give the same result: neither the method nor its data depend on it."""
        method, setting = self.records[0].method, self.records[0].cell.setting
        return method.deterministic and (setting.kind != "fs" or method.supervision == "unused")

    def of_subsets(self, subsets: Container[str | None]) -> Selected:
        """The records of these subsets."""
        kept = zip(self.records, self.subsets, strict=True)
        return replace(self, records=tuple(record for record, subset in kept if subset in subsets))

    def means(self, filter_name: str) -> dict[str, float]:
        """Metric -> mean of the records' values over the seeds."""
        values = [record.metrics[filter_name].values for record in self.records]
        return {name: fmean(each[name] for each in values) for name in values[0]}


@dataclass(frozen=True)
class Choice:
    """Conditions: dataset, setting, seeds."""

    dataset: str | None = None
    setting: Setting | None = None
    seeds: Sequence[int] | None = None


def choose(store: Store, first: str, second: str, choice: Choice) -> tuple[Selected, Selected]:
    """The two rows that two words select, in the only dataset and setting where both have results.

    Raises UsageError if there are none or several such places or rows; UnknownName for an unknown word.
    """
    candidates = [_places(word, store, choice) for word in (first, second)]
    common = [place for place in candidates[0] if place in candidates[1]]
    if len(common) == 1:
        places = [common[0], common[0]]
    elif all(len(found) == 1 for found in candidates):
        places = [next(iter(found)) for found in candidates]  # two settings, or two datasets: each word selects its own
    elif not common:
        raise UsageError(
            f"{first} and {second} have no dataset and setting in common",
            f"{first}: {_listed(candidates[0])}; {second}: {_listed(candidates[1])}",
        )
    else:
        raise UsageError(f"{first} and {second} have several results in common", f"choose one: {_listed(common)}")
    found = [
        _one_row(word, places_of[place])
        for word, place, places_of in zip((first, second), places, candidates, strict=True)
    ]
    one, other = (
        Selected(tuple(sorted(row, key=lambda record: record.cell.seed)), _store_of(word, store))
        for word, row in zip((first, second), found, strict=True)
    )
    subsets = set(one.subsets) & set(other.subsets)
    if subsets - {None} and not (one.deterministic or other.deterministic):
        # Runs on the same few-shot subset are paired; a run without a partner would only add variance.
        one, other = (row.of_subsets(subsets) for row in (one, other))
    return one, other


def choose_row(store: Store, word: str, choice: Choice) -> Selected:
    """The row that a word selects, in the only dataset and setting where it has a result.

    Raises UsageError if there are several such places or rows; UnknownName for an unknown word.
    """
    places = _places(word, store, choice)
    if len(places) > 1:
        raise UsageError(f"{word} has several results", f"choose one: {_listed(places)}")
    row = _one_row(word, next(iter(places.values())))
    return Selected(tuple(sorted(row, key=lambda record: record.cell.seed)), _store_of(word, store))


def places(store: Store, choice: Choice) -> dict[Place, list[Record]]:
    """The results of a runs folder that meet the conditions, by place. Raises UsageError if there are none."""
    store.check_exists()
    with store.noting_left_out():
        found = _placed(store.records(), choice)
        if not found:
            where = f"{store.root} has no result with this dataset, setting and seed"
            raise UsageError(where, "see `xmcbench ls results`")
    return found


def _places(word: str, store: Store, choice: Choice) -> dict[Place, list[Record]]:
    with store.noting_left_out():
        found = _placed(_named(word, store), choice)
        if not found:
            raise NoResult(f"{word} has no result with this dataset, setting and seed", "see `xmcbench ls results`")
    return found


def _placed(records: Sequence[Record], choice: Choice) -> dict[Place, list[Record]]:
    found: dict[Place, list[Record]] = {}
    dataset = _dataset_name(choice.dataset).casefold() if choice.dataset else None
    for record in records:
        cell = record.cell
        setting = cell.setting
        fits = (
            record.ok
            and dataset in (None, cell.dataset.casefold())
            and choice.setting in (None, setting)
            and (choice.seeds is None or cell.seed in choice.seeds)
        )
        if fits:
            found.setdefault((cell.dataset, cell.dataset_sha256, setting), []).append(record)
    return found


def _dataset_name(given: str) -> str:
    """The name of a dataset in its records; records of a dataset that is not on this machine can be compared too."""
    from xmcbench.data.catalog import locate

    try:
        return locate(given).name
    except UsageError:
        return Path(given).name


def _named(word: str, store: Store) -> list[Record]:
    if word.endswith(".json"):
        if not Path(word).is_file():
            raise UsageError(f"no record at {word}", "to select by method, give its name: see `xmcbench ls results`")
        return [read_record(Path(word))]
    store.check_exists()
    records = store.records()
    method, colon, variant = word.partition(":")
    found = [record for record in records if record.cell.method == method]
    if colon:
        found = [record for record in found if variant in _variants(record)]
    elif not found and _KEY.fullmatch(word):
        found = [record for record in records if record.key.startswith(word)]
    if not found:
        known = {record.cell.method for record in records}
        if colon and method in known:
            own = [record for record in records if record.cell.method == method]
            known = {f"{method}:{each}" for record in own for each in _variants(record)}
        raise UnknownName("row", word, known, where=f"in {store.root}")
    return found


def _variants(record: Record) -> set[str]:
    """The texts allowed after the colon: the whole variant, or a part of it."""
    variant = record.method.variant
    return {variant, *(part.strip() for part in variant.split(","))}


def _one_row(word: str, records: Sequence[Record]) -> list[Record]:
    names: dict[str, list[Record]] = {}
    for record in records:
        names.setdefault(str(sorted(record.cell.parameters.items())), []).append(record)
    if len(names) > 1:
        rows = sorted({f"{row[0].name} {row[0].key[:12]}" for row in names.values()})
        raise UsageError(
            f"{word} matches {len(rows)} rows",
            f"select one by its key, or by its whole variant, {word.partition(':')[0]}:VARIANT: {'; '.join(rows)}",
        )
    return [*next(iter(names.values()))]


def _store_of(word: str, store: Store) -> Store:
    """The runs folder of a record's file is the parent of its folder ``records``."""
    if not word.endswith(".json"):
        return store
    return Store(next((parent.parent for parent in Path(word).parents if parent.name == "records"), store.root))


def _listed(places: Iterable[Place]) -> str:
    names = [f"{dataset} {setting.slug}" for dataset, _, setting in places]
    if len({*names}) < len(names):
        return f"{', '.join(dict.fromkeys(names))}, where a dataset has several versions: name rows by their keys"
    return ", ".join(names)
