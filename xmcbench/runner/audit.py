"""The audit of a submitted record: its figures, its facts and its name.

Times, memory and hardware cannot be checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from xmcbench.errors import StorageError
from xmcbench.metrics import protocol
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record, Store, as_json
from xmcbench.records.record_json import differences
from xmcbench.runner.recording import subset_facts
from xmcbench.runner.rows import variants
from xmcbench.runner.scorer import Scorer
from xmcbench.setting import draw

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.parameters import Parameter

#: Sums over rows may differ in the last digits between two builds of numpy.
_TOLERANCE = 1e-9
#: What a cell has for a file or a folder.
_CONTENT = re.compile("sha256:[0-9a-f]{64}")


def audit(record: Record, store: Store, dataset: Dataset, source: str, registry: Registry, scorer: Scorer) -> None:
    """Raise an error unless a record follows from its predictions, dataset and method.

    source: the name or folder of the dataset. Raises StorageError for a wrong figure, rank, count, subset or name, and
    for missing files; DataError for another version of the dataset; MethodError for invalid predictions.
    """
    cell = record.cell
    if cell.dataset != dataset.name:
        raise StorageError(f"its dataset is {cell.dataset}, but this one is {dataset.name}")
    if record.protocol.version != protocol.VERSION:
        raise StorageError(f"it is of metric protocol {record.protocol.version}, not {protocol.VERSION}")
    _check_method(record, registry)
    said = as_json(record)
    file = store.relative(store.predictions_path(cell))
    if said["predictions"]["file"] != file:
        raise StorageError(f"its predictions are {said['predictions']['file']}, and should be {file}")
    if not (store.root / file).is_file():
        raise StorageError(
            f"its predictions {store.root / file} are missing", "they are needed to score the record again"
        )
    subset = draw(dataset.train_pattern(), cell.setting, cell.seed) if cell.setting.kind != "ez" else None
    if cell.subset_sha256 != (subset.digest if subset else None):
        raise StorageError("its subset is not the one that its setting and seed select", "run the cell again")
    scored = scorer.score(cell, store.root, source, said["predictions"]["depth"], keep=False)
    follows: dict[str, Any] = {
        "counts": dataset.counts(),
        "subset": msgspec.to_builtins(subset_facts(subset)),
        **msgspec.to_builtins(scored, str_keys=True),
    }
    if said["predictions"]["empty"] is None:  # from before they were counted
        follows["predictions"]["empty"] = None
    # Different code is acceptable if it gives the same ranks and figures.
    for field in ("protocol", "ranks"):
        if said[field] and follows[field]:
            follows[field]["source_sha256"] = said[field]["source_sha256"]
    for field, value in follows.items():
        for where, one, other in differences(said[field], value, field, _TOLERANCE):
            raise StorageError(f"its {where} is {one}, but its predictions give {other}")


def _can_name(given: str, value: object, parameter: Parameter | None) -> bool:
    """Return whether a parameter may be given so where the cell has this value: see ``method.contents``."""
    if parameter is None or parameter.kind != "str" or parameter.choices or not isinstance(value, str):
        return False
    # The content of a file is no default: its row says that it was given.
    is_content = _CONTENT.fullmatch(value) is not None and given != parameter.default
    return is_content or value.startswith(f"{given}@")


def _check_method(record: Record, registry: Registry) -> None:
    name, said = record.cell.method, record.method
    known = {entry.name: entry for entry in registry}
    if name not in known:
        return
    method = known[name].usable()
    follows = {"title": known[name].title, "supervision": method.supervision, "deterministic": method.deterministic}
    for field, value in follows.items():
        if getattr(said, field) != value:
            raise StorageError(f"its method's {field} is {getattr(said, field)!r}, and that of {name} is {value!r}")
    for parameter, given in said.names.items():
        value = record.cell.parameters.get(parameter)
        if not _can_name(given, value, method.parameters.get(parameter)):
            raise StorageError(
                f"its cell has {value!r} for {parameter}, which {given!r} cannot name",
                "a name stands for the content of a file or folder, or for a revision of a model",
            )
    possible = variants(known[name], record.values)
    if said.variant not in possible:
        raise StorageError(f"its variant is {said.variant!r}, but its parameters give {possible[0]!r}")
