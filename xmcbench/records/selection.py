"""The records that a word selects: a method, the first letters of a key, or a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from xmcbench.errors import DataError, NoResult, UnknownName, UsageError
from xmcbench.metrics.paired import common_subsets
from xmcbench.records.record import Record
from xmcbench.records.record_json import read_record
from xmcbench.records.staleness import Staleness
from xmcbench.records.store import Store
from xmcbench.setting import Setting

#: What selects a key: its first four digits at least.
_KEY = re.compile(r"[0-9a-f]{4,64}")

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
        """The few-shot subset of each record, by its SHA-256; None where it depends on none."""
        return [record.drawn_pairs for record in self.records]

    @property
    def deterministic(self) -> bool:
        """Return whether another seed would give the same result."""
        return self.records[0].seedless

    def of_subsets(self, subsets: Container[str | None]) -> Selected:
        """The records of these subsets."""
        kept = zip(self.records, self.subsets, strict=True)
        return replace(self, records=tuple(record for record, subset in kept if subset in subsets))

    def means(self, filter_name: str) -> dict[str, float]:
        """Metric -> mean of the records' values over the seeds."""
        values = [record.metrics[filter_name].values for record in self.records]
        return {name: fmean(value[name] for value in values) for name in values[0]}


@dataclass(frozen=True)
class Conditions:
    """Conditions: dataset, setting, seeds.

    A dataset by its name is every version of it; one at a place is the version that is there. staleness: today's
    presets, by which a bare preset selects the row with its values; without it, rows that no name shows to be changed
    are as good.
    """

    dataset: str | None = None
    setting: Setting | None = None
    seeds: Sequence[int] | None = None
    staleness: Staleness | None = None

    @cached_property
    def data(self) -> tuple[str | None, str | None]:
        """The name of the dataset in its records, in lower case, and the digest of the data where a place is given.

        Records of data that are not on this machine, or can no longer be read, are selected by the name alone.
        """
        from xmcbench.data.catalog import is_name, load_dataset, locate

        if self.dataset is None:
            return None, None
        try:
            name = locate(self.dataset).name
        except UsageError:
            return Path(self.dataset).name.casefold(), None
        if not is_name(self.dataset):
            with suppress(DataError):
                dataset = load_dataset(self.dataset)  # whose name says what part of it is meant, too
                return dataset.name.casefold(), dataset.digest
        return name.casefold(), None


def choose(store: Store, first: str, second: str, conditions: Conditions) -> tuple[Selected, Selected]:
    """The two rows that two words select, in the only dataset and setting where both have results.

    Raises UsageError if there are none or several such places or rows; UnknownName for an unknown word.
    """
    candidates = _candidates((first, second), store, conditions)
    common = [place for place in candidates[0] if place in candidates[1]]
    if len(common) == 1:
        chosen = [common[0], common[0]]
    elif all(len(found) == 1 for found in candidates):
        chosen = [next(iter(found)) for found in candidates]  # two settings, or two datasets: each word selects its own
    elif not common:
        raise UsageError(
            f"{first} and {second} have no dataset and setting in common",
            f"{first}: {_list_places(candidates[0])}; {second}: {_list_places(candidates[1])}",
        )
    else:
        hint, choices = _choices(*candidates)
        raise UsageError(f"{first} and {second} have several results in common", hint, choices)
    one, other = (
        _select_row(word, found[place], store, conditions)
        for word, place, found in zip((first, second), chosen, candidates, strict=True)
    )
    return pair_records(one, other)


def pair_records(one: Selected, other: Selected) -> tuple[Selected, Selected]:
    """Two rows, of those runs that are compared: those on common few-shot subsets, where there are any."""
    subsets = common_subsets(one.subsets, other.subsets, (one.deterministic, other.deterministic))
    return (one.of_subsets(subsets), other.of_subsets(subsets)) if subsets else (one, other)


def choose_row(store: Store, word: str, conditions: Conditions, unscored: bool = False) -> Selected:
    """The row that a word selects, in the only dataset and setting where it has a result.

    unscored: whether predictions without figures are a result. Raises UsageError if there are several such places or
    rows; UnknownName for an unknown word.
    """
    (places,) = _candidates((word,), store, conditions, unscored)
    if len(places) > 1:
        raise UsageError(f"{word} has several results", *_choices(places))
    return _select_row(word, next(iter(places.values())), store, conditions)


def places(store: Store, conditions: Conditions) -> dict[Place, list[Record]]:
    """The results of a runs folder that meet the conditions, by place. Raises UsageError if there are none."""
    store.check_exists()
    with store.noting_left_out():
        found = _by_place(store.records(conditions.data[0], conditions.setting), conditions)
        if (seeds := conditions.seeds) is not None:  # where no row was run with them, they are a mistake
            found = {place: own for place, own in found.items() if any(record.cell.seed in seeds for record in own)}
        if not found:
            where = f"{store.root} has no result with this dataset, setting and seed"
            raise UsageError(where, "see `xmcbench ls results`")
    return found


def _candidates(
    words: Sequence[str], store: Store, conditions: Conditions, unscored: bool = False
) -> list[dict[Place, list[Record]]]:
    """The results that each word selects, by place."""
    with store.noting_left_out():
        if all(word.endswith(".json") for word in words):
            return [_places(word, [], store, conditions, unscored) for word in words]
        store.check_exists()
        try:
            records = store.records(conditions.data[0], conditions.setting)
            return [_places(word, records, store, conditions, unscored) for word in words]
        except UsageError:
            if conditions.dataset is None and conditions.setting is None:
                raise
        # An error says what else there is.
        records = store.records()
        return [_places(word, records, store, conditions, unscored) for word in words]


def _places(
    word: str, known: Sequence[Record], store: Store, conditions: Conditions, unscored: bool
) -> dict[Place, list[Record]]:
    records = _find_named(word, known, store)
    by_method = all(record.cell.method == word.partition(":")[0] for record in records)
    # A key, or a file, names the version of the data too; whoever needs the data looks whether they are the same.
    found = _by_place(records, conditions, any_version=not by_method, unscored=unscored)
    if not found and _by_place(records, conditions, any_version=not by_method, unscored=True):
        raise NoResult(
            f"{word} has predictions without figures: no test instance has a label",
            "only `xmcbench show` and `xmcbench export run` take such a result",
        )
    if not found and _by_place(records, conditions, any_version=True, unscored=unscored):
        raise UsageError(
            f"{word} has no result on the data at {conditions.dataset}",
            "it has results on other data of the same name: run it again, or name a row by its key",
        )
    if not found:
        raise NoResult(f"{word} has no result with this dataset, setting and seed", "see `xmcbench ls results`")
    return found


def _by_place(
    records: Sequence[Record], conditions: Conditions, any_version: bool = False, unscored: bool = False
) -> dict[Place, list[Record]]:
    found: dict[Place, list[Record]] = {}
    dataset, version = conditions.data
    for record in records:
        cell = record.cell
        if (
            (record.finished if unscored else record.ok)
            and dataset in (None, cell.dataset.casefold())
            and (any_version or version in (None, cell.dataset_sha256))
            and conditions.setting in (None, cell.setting)
        ):
            found.setdefault((cell.dataset, cell.dataset_sha256, cell.setting), []).append(record)
    if conditions.seeds is None:
        return found
    chosen = {place: _of_seeds(group, conditions.seeds) for place, group in found.items()}
    return {place: group for place, group in chosen.items() if group}


def _of_seeds(records: Sequence[Record], seeds: Sequence[int]) -> list[Record]:
    """The records of these seeds; of a row that no seed would change, those that there are."""
    rows = {record.cell.row for record in records if record.cell.seed in seeds}
    return [
        record for record in records if record.cell.seed in seeds or (record.seedless and record.cell.row not in rows)
    ]


def _find_named(word: str, records: Sequence[Record], store: Store) -> list[Record]:
    if word.endswith(".json"):
        if not Path(word).is_file():
            raise UsageError(f"no record at {word}", "to select by method, give its name: see `xmcbench ls results`")
        return [read_record(Path(word))]
    method, colon, variant = word.partition(":")
    found = [record for record in records if record.cell.method == method]
    if colon:
        # A row is the records of one method and parameters, whatever they were called when they were run.
        rows = [record.cell.parameters for record in found if variant in _variants(record)]
        found = [record for record in found if record.cell.parameters in rows]
    elif not found and _KEY.fullmatch(word):
        found = [record for record in records if record.key.startswith(word)]
    if not found:
        known = {record.cell.method for record in records}
        if colon and method in known:
            own = [record for record in records if record.cell.method == method]
            known = {f"{method}:{variant}" for record in own for variant in _variants(record)}
        raise UnknownName("row", word, known, where=f"in {store.root}")
    return found


def _variants(record: Record) -> set[str]:
    """The texts allowed after the colon: the whole variant, or a part of it."""
    variant = record.method.variant
    return {variant, *(part.strip() for part in variant.split(","))}


def _select_row(word: str, records: Sequence[Record], store: Store, conditions: Conditions) -> Selected:
    names: dict[str, list[Record]] = {}
    for record in records:
        names.setdefault(str(sorted(record.cell.parameters.items())), []).append(record)
    # A bare name or preset means the row that the preset gives, not those with changed parameters.
    unchanged = [row for row in names.values() if not row[0].method.changes]
    if len(unchanged) > 1 and (today := conditions.staleness):
        # A method may describe its parameters in words, such as its steps, which then are no changes in the variant.
        unchanged = [row for row in unchanged if not today.has_changed(row[0], row[0].method.variant.split(", ")[0])]
    found = unchanged if len(unchanged) == 1 else [*names.values()]
    _, colon, variant = word.partition(":")
    if colon and len(found) > 1:
        whole = [row for row in found if variant in {record.method.variant for record in row}]
        found = whole if len(whole) == 1 else found
    if len(found) > 1:
        words = [_whole_variant(row, found) for row in found]
        keys = [f"{row[0].key[:12]}  {row[0].name}" for row, named in zip(found, words, strict=True) if not named]
        hint = "choose one; a key selects a single seed" if keys else "choose one"
        raise UsageError(f"{word} matches {len(found)} rows", hint, [*sorted(filter(None, words)), *sorted(keys)])
    if word.endswith(".json"):  # the runs folder of a record's file is the parent of its folder ``records``
        store = Store(next((parent.parent for parent in Path(word).parents if parent.name == "records"), store.root))
    return Selected(tuple(sorted(found[0], key=lambda record: record.cell.seed)), store)


def _whole_variant(row: Sequence[Record], rows: Sequence[Sequence[Record]]) -> str:
    """The method with the whole variant of a row, which selects it; empty if another of the rows has that one too."""
    variant = row[0].method.variant
    having = [other for other in rows if variant in {record.method.variant for record in other}]
    return shlex.quote(f"{row[0].cell.method}:{variant}") if len(having) == 1 else ""


def _list_places(places: Iterable[Place]) -> str:
    return ", ".join(dict.fromkeys(f"{dataset} {setting.slug}" for dataset, _, setting in places))


def _choices(*found: Mapping[Place, Sequence[Record]]) -> tuple[str, list[str]]:
    """The hint how to choose one of the common places, and the choices: flags, or keys if flags do not suffice."""
    common = [place for place in found[0] if all(place in places for places in found)]
    names = [(dataset, setting) for dataset, _, setting in common]
    if len({*names}) < len(names):
        keys = [
            f"{dataset} {setting.slug}: {' '.join(places[dataset, version, setting][0].key[:12] for places in found)}"
            for dataset, version, setting in common
        ]
        hint = "name rows by their keys, or give the place of the data: --dataset PLACE"
        return f"there are results on several versions of the data; {hint}", keys
    datasets, settings = (len({*column}) > 1 for column in zip(*names, strict=True))
    flags = [" ".join([f"--dataset {dataset}"] * datasets + [setting.flags] * settings) for dataset, setting in names]
    return "choose one", flags
