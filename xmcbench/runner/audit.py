"""The audit of a record that somebody sends: does it follow from its predictions, and is it what it is called?

Times, memory and hardware are the word of the sender; nothing here can know them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xmcbench.errors import StorageError
from xmcbench.metrics import protocol
from xmcbench.records import Cell, Store
from xmcbench.registry import Registry
from xmcbench.runner.plan import variants
from xmcbench.runner.rescoring import predictions
from xmcbench.runner.scoring import score
from xmcbench.setting import Setting, draw

if TYPE_CHECKING:
    from xmcbench.data import Dataset

#: Sums over rows may differ in the last digits between two builds of numpy.
_TOLERANCE = 1e-9

#: What a record with a result has besides the fields of every record; a board reads them all.
_FIELDS = ("subset", "counts", "reason", "protocol", "metrics", "predictions", "notes", "environment", "measured")


def audit(record: Mapping[str, Any], store: Store, dataset: Dataset, registry: Registry) -> None:
    """Raise an error that says what is wrong unless a record follows from its predictions, data set and method.

    StorageError for a field that is missing, for a figure, a count or a subset that does not follow, for a name that
    is not the method's and a measurement that cannot be; otherwise what ``predictions`` raises.
    """
    for field in _FIELDS:
        if field not in record:
            raise StorageError(f"it has no {field}", "run the cell again")
    cell = record["cell"]
    if cell["dataset"] != dataset.name:
        raise StorageError(f"its data set is called {cell['dataset']}, the one here {dataset.name}")
    if record["protocol"]["version"] != protocol.VERSION:
        raise StorageError(f"it is of metric protocol {record['protocol']['version']}, not {protocol.VERSION}")
    _check_method(record, registry)
    _check_measurements(record["measured"], "measured")
    place = store.predictions_path(Cell.of(record)).relative_to(store.root).as_posix()
    if record["predictions"]["file"] != place:
        raise StorageError(f"its predictions are {record['predictions']['file']}, and should be {place}")
    found = predictions(record, store, dataset)
    subset = draw(dataset.train_pairs(), Setting(**cell["setting"]), cell["seed"])
    made = {
        "counts": dataset.counts(),
        "protocol": {"version": protocol.VERSION, "filter": dataset.card.filter},
        "subset": subset.identity() if subset else None,
        "metrics": score(found, dataset, subset.pairs if subset else None),
    }
    if cell["subset_sha256"] != (subset.digest if subset else None):
        raise StorageError("its subset is not the one that its setting and seed draw", "run the cell again")
    for field, value in made.items():
        for where, said, follows in _differing(record.get(field), value, field):
            raise StorageError(f"its {where} is {said}, but {follows} follows from its predictions")


def _check_method(record: Mapping[str, Any], registry: Registry) -> None:
    """A method that is known here is called what its parameters make of it; no other takes the title of one."""
    name, said = record["cell"]["method"], record["method"]
    known = {entry.name: entry for entry in registry}
    if name not in known:
        titles = {entry.method.title or entry.name for entry in known.values() if entry.method}
        if said["title"] in titles:
            raise StorageError(
                f"its method {name} has the title of another, {said['title']}", "name its file: --plugin"
            )
        return
    method = known[name].usable()
    follows = {"title": method.title or name, "supervision": method.supervision}
    for field, value in follows.items():
        if said[field] != value:
            raise StorageError(f"its method's {field} is {said[field]!r}, and that of {name} is {value!r}")
    possible = variants(known[name], record["cell"]["parameters"])
    if said["variant"] not in possible:
        raise StorageError(f"its variant is {said['variant']!r}, but its parameters make it {possible[0]!r}")


def _check_measurements(value: object, place: str) -> None:
    if isinstance(value, Mapping):
        for name, each in value.items():
            _check_measurements(each, f"{place}.{name}")
    elif isinstance(value, float | int) and not (math.isfinite(value) and value >= 0):
        raise StorageError(f"its {place} is {value}", "times and memory are not negative")


def _differing(said: object, follows: object, place: str) -> Iterator[tuple[str, object, object]]:
    """Where two JSON values differ: (place, one, other)."""
    if isinstance(said, Mapping) and isinstance(follows, Mapping):
        for name in sorted({*said, *follows}):
            yield from _differing(said.get(name), follows.get(name), f"{place}.{name}")
    elif isinstance(said, list | tuple) and isinstance(follows, list | tuple) and len(said) == len(follows):
        for position, (one, other) in enumerate(zip(said, follows, strict=True)):
            yield from _differing(one, other, f"{place}[{position}]")
    elif isinstance(said, float | int) and isinstance(follows, float | int):
        if not math.isclose(said, follows, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield place, said, follows
    elif said != follows:
        yield place, said, follows
