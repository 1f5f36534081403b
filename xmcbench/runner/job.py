"""What the process of a cell is told, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from xmcbench.atomic import write_json


@dataclass(frozen=True)
class Job:
    """One cell for one process. Paths are absolute; ``pairs`` is None in the zero-shot setting."""

    dataset: str
    dataset_digest: str
    method: str
    plugins: tuple[str, ...]
    parameters: Mapping[str, object]
    seed: int
    source: str
    pairs: str | None
    predictions: str
    outcome: str
    artefacts: str

    def write(self, path: Path) -> None:
        """Write the job as JSON."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Job:
        """A job from its file."""
        values = json.loads(path.read_text())
        return cls(**{**values, "plugins": tuple(values["plugins"])})


@dataclass(frozen=True)
class Outcome:
    """What became of a job: ``result`` holds the fields of the record that only the cell's process knows."""

    status: Literal["ok", "failed", "skipped"]
    reason: str
    result: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write the outcome as JSON, whole or not at all."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Outcome | None:
        """The outcome of a process that lived long enough to write one."""
        return cls(**json.loads(path.read_text())) if path.exists() else None
