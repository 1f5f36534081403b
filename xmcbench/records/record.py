"""A cell's identity and its record.

A cell is data set x setting x subset x method x parameters x seed; its key is the SHA-256 of that as canonical JSON.
The record (``schema`` 1) holds

    key, cell       the identity and its hash
    method          title in tables, variant (preset and changed parameters), supervision, source hash
    status          ok | failed | timeout | skipped, with ``reason``
    subset          name, hash and counts of the pairs the method was handed, or null
    counts          instances, labels and pairs of the data set
    protocol        version of the metric protocol, default filter
    metrics         filter -> values, intervals, counts, and the views by label group
    predictions     path below the runs folder, SHA-256, depth
    notes           what the method wished to say
    environment     packages and hardware
    measured        start, wall seconds of each phase, seconds reused from artefacts, peak memory: all that two equal
                    runs do not share
    sha256          of the canonical JSON of all the other fields: a record edited by hand is refused
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmcbench.canonical import canonical_json, sha256_json
from xmcbench.errors import StorageError, UsageError
from xmcbench.setting import Setting

SCHEMA = 1

#: Fields that every record has, whatever became of its cell.
_REQUIRED = ("schema", "key", "cell", "method", "status", "sha256")


@dataclass(frozen=True)
class Cell:
    """The identity of one run."""

    dataset: str
    dataset_digest: str
    setting: Setting
    subset_digest: str | None
    method: str
    parameters: Mapping[str, object]
    seed: int

    def identity(self) -> dict[str, object]:
        """The cell as JSON values."""
        return {
            "dataset": self.dataset,
            "dataset_sha256": self.dataset_digest,
            "setting": self.setting.identity(),
            "subset_sha256": self.subset_digest,
            "method": self.method,
            "parameters": dict(self.parameters),
            "seed": self.seed,
        }

    @property
    def key(self) -> str:
        """SHA-256 (hex) of the identity."""
        return sha256_json(self.identity())

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Cell:
        """The cell of a record."""
        cell = record["cell"]
        return cls(
            cell["dataset"],
            cell["dataset_sha256"],
            Setting(**cell["setting"]),
            cell["subset_sha256"],
            cell["method"],
            cell["parameters"],
            cell["seed"],
        )

    @property
    def path(self) -> Path:
        """Where the cell's files stand below each room of a runs folder, without a suffix."""
        return Path(self.dataset.lower(), self.setting.slug, f"{self.method}-s{self.seed}-{self.key[:12]}")


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its ``sha256`` made anew."""
    return {**record, "sha256": _seal(record)}


def read_record(path: Path) -> dict[str, Any]:
    """A record from its file.

    Raises StorageError when it is none, its cell is none, its key is not that of its cell, or it is not what was
    written.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        canonical_json(record).encode()  # half a surrogate pair is JSON, and no text
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"cannot read the record {path}: {error}", "delete it and run the cell again") from error
    if not isinstance(record, dict) or any(field not in record for field in _REQUIRED):
        raise StorageError(
            f"{path} is no record of a run", "or one of an older xmcbench: delete it, run the cell again"
        )
    if record["schema"] != SCHEMA:
        raise StorageError(f"{path} has schema {record['schema']}, this xmcbench reads {SCHEMA}", "upgrade xmcbench")
    if not _is_cell(record["cell"]):
        raise StorageError(f"{path}: the cell is none that a run could have", "run the cell again")
    if sha256_json(record["cell"]) != record["key"]:
        raise StorageError(f"{path}: the key is not that of the cell", "the record was edited; run the cell again")
    if _seal(record) != record["sha256"]:
        raise StorageError(f"{path} is not as it was written: its sha256 differs", "get it back, or run the cell again")
    return record


def _is_cell(cell: object) -> bool:
    """Whether JSON values are a cell's identity: names that are names of files, a setting, a whole seed."""
    try:
        made = Cell.of({"cell": cell})
        names = (made.dataset, made.method)
        return (
            made.identity() == cell
            and type(made.seed) is int
            and made.setting == Setting.of(made.setting.kind, made.setting.ratio, made.setting.by)
            and all(name.isprintable() and not {*name} & {*"/\\"} and name.strip(". ") for name in names)
        )
    except (AttributeError, KeyError, TypeError, UsageError):
        return False


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _seal(record: Mapping[str, Any]) -> str:
    return sha256_json({name: value for name, value in record.items() if name != "sha256"})
