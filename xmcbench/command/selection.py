"""Which records a word on the command line names: a method, the beginning of a key, or a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.rows import row_name
from xmcbench.records import Store, read_record
from xmcbench.setting import Setting

#: Letters of a key that name it, at least.
_KEY = re.compile(r"[0-9a-f]{6,64}")

#: Place of a group of records: data set, its version, setting.
Place = tuple[str, str, Setting]


@dataclass(frozen=True)
class Selected:
    """The records of one row, a seed each, and the runs folder that holds their predictions."""

    records: tuple[dict[str, Any], ...]
    store: Store

    @property
    def seeds(self) -> list[int]:
        """The seeds of the row."""
        return [record["cell"]["seed"] for record in self.records]

    @property
    def keys(self) -> list[str]:
        """The keys of the row's records."""
        return [record["key"] for record in self.records]

    def means(self, filter_name: str) -> dict[str, float]:
        """Metric -> mean over the seeds of what the records say."""
        values = [record["metrics"][filter_name]["values"] for record in self.records]
        return {name: fmean(each[name] for each in values) for name in values[0]}


@dataclass(frozen=True)
class Choice:
    """What narrows a choice: data set, setting, seeds; ``anywhere`` allows two places."""

    dataset: str | None = None
    setting: Setting | None = None
    seeds: Sequence[int] | None = None
    anywhere: bool = False


def choose(runs: Path, first: str, second: str, choice: Choice) -> tuple[Selected, Selected]:
    """The two rows that two words name, in the one place (data set and setting) where both have results.

    Raises UsageError when that is none or several, or a word names several rows; UnknownName when it names none.
    """
    store = Store(runs)
    candidates = [_places(word, store, choice) for word in (first, second)]
    common = [place for place in candidates[0] if place in candidates[1]]
    if len(common) == 1:
        places = [common[0], common[0]]
    elif all(len(found) == 1 for found in candidates):
        places = [next(iter(found)) for found in candidates]  # two settings, or two data sets: each word names one
    elif not common:
        raise UsageError(
            f"{first} and {second} have no data set and setting in common",
            f"{first}: {_listed(candidates[0])}; {second}: {_listed(candidates[1])}",
        )
    else:
        raise UsageError(f"{first} and {second} have results in several places", f"choose one: {_listed(common)}")
    found = [
        _one_row(word, places_of[place])
        for word, place, places_of in zip((first, second), places, candidates, strict=True)
    ]
    shared = {record["cell"]["seed"] for record in found[0]} & {record["cell"]["seed"] for record in found[1]}
    if shared:
        found = [[record for record in row if record["cell"]["seed"] in shared] for row in found]
    one, other = (
        Selected(tuple(sorted(row, key=lambda record: record["cell"]["seed"])), _store_of(word, store))
        for word, row in zip((first, second), found, strict=True)
    )
    return one, other


def _places(word: str, store: Store, choice: Choice) -> dict[Place, list[dict[str, Any]]]:
    found: dict[Place, list[dict[str, Any]]] = {}
    named = _named(word, store)
    dataset = _dataset_name(choice.dataset).casefold() if choice.dataset else None
    for record in named:
        cell = record["cell"]
        setting = Setting(**cell["setting"])
        fits = (
            record["status"] == "ok"
            and dataset in (None, cell["dataset"].casefold())
            and choice.setting in (None, setting)
            and (choice.seeds is None or cell["seed"] in choice.seeds)
        )
        if fits:
            found.setdefault((cell["dataset"], cell["dataset_sha256"], setting), []).append(record)
    if not found:
        raise UsageError(f"{word} has no result there", "see `xmcbench ls results`")
    return found


def _dataset_name(given: str) -> str:
    """The name that records of a data set bear; records of one that is not on this machine can be compared too."""
    from xmcbench.data.catalogue import locate

    try:
        return locate(given).name
    except UsageError:
        return Path(given).name


def _named(word: str, store: Store) -> list[dict[str, Any]]:
    if word.endswith(".json"):
        if not Path(word).is_file():
            raise UsageError(f"there is no record {word}", "a method's name needs no file: see `xmcbench ls results`")
        return [read_record(Path(word))]
    if not store.root.is_dir():
        raise UsageError(f"there is no runs folder {store.root}", "--runs names the folder `xmcbench run` wrote")
    records = store.records()
    method, colon, variant = word.partition(":")
    found = [record for record in records if record["cell"]["method"] == method]
    if colon:
        found = [record for record in found if variant in _variants(record)]
    elif not found and _KEY.fullmatch(word):
        found = [record for record in records if record["key"].startswith(word)]
    if not found:
        known = {record["cell"]["method"] for record in records}
        if colon and method in known:
            own = [record for record in records if record["cell"]["method"] == method]
            known = {f"{method}:{each}" for record in own for each in _variants(record)}
        raise UnknownName(f"row in {store.root}:", word, known)
    return found


def _variants(record: Mapping[str, Any]) -> set[str]:
    """What may stand after the colon: the whole variant, or a part of it."""
    variant = record["method"]["variant"]
    return {variant, *(part.strip() for part in variant.split(","))}


def _one_row(word: str, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    names: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        names.setdefault(str(sorted(record["cell"]["parameters"].items())), []).append(record)
    if len(names) > 1:
        rows = sorted({f"{row_name(row[0])} {row[0]['key'][:12]}" for row in names.values()})
        raise UsageError(f"{word} names {len(rows)} rows", f"name one by its key: {'; '.join(rows)}")
    return [*next(iter(names.values()))]


def _store_of(word: str, store: Store) -> Store:
    """The runs folder of a record's file is what the folder ``records`` lies in."""
    if not word.endswith(".json"):
        return store
    return Store(next((parent.parent for parent in Path(word).parents if parent.name == "records"), store.root))


def _listed(places: Iterable[Place]) -> str:
    return ", ".join(f"{dataset} {setting.slug}" for dataset, _, setting in places)
