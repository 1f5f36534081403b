"""A runs folder: records, predictions, logs, subsets and artefacts, one file a cell in each room.

records/<data set>/<setting>/<method>-s<seed>-<key>.json
predictions/...npz    logs/...log    subsets/<data set>/<subset>-<hash>.npz    artefacts/<kind>/<hash>/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmcbench.atomic import write_json
from xmcbench.errors import StorageError
from xmcbench.lock import exclusive
from xmcbench.records.record import Cell, read_record, sealed
from xmcbench.setting import Subset


class Store:
    """The runs folder at ``root``; it is made on the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def record_path(self, cell: Cell) -> Path:
        """The cell's record."""
        return self._file("records", cell, ".json")

    def predictions_path(self, cell: Cell) -> Path:
        """The cell's predictions."""
        return self._file("predictions", cell, ".npz")

    def log_path(self, cell: Cell) -> Path:
        """What the cell's process printed."""
        return self._file("logs", cell, ".log")

    def _file(self, room: str, cell: Cell, suffix: str) -> Path:
        path = self.root / room / cell.path
        return path.with_name(path.name + suffix)

    @property
    def artefacts(self) -> Path:
        """Where the artefacts that cells share are kept."""
        return self.root / "artefacts"

    def lock(self, cell: Cell, wait: bool) -> exclusive:
        """The claim on a cell, for two runs that write one folder at once."""
        return exclusive(self._file("logs", cell, ".lock"), wait=wait)

    def subset_path(self, dataset: str, subset: Subset) -> Path:
        """The file of a subset's pairs; written if it is not there."""
        path = self.root / "subsets" / dataset / f"{subset.name}-{subset.digest[:12]}.npz"
        if not path.exists():
            subset.save(path)
        return path

    def find(self, cell: Cell) -> dict[str, Any] | None:
        """The cell's record, or None."""
        path = self.record_path(cell)
        return read_record(path) if path.exists() else None

    def write(self, cell: Cell, record: Mapping[str, Any]) -> dict[str, Any]:
        """Write the cell's record, whole or not at all, and return it with its checksum. Raises StorageError."""
        written = sealed(record)
        write_json(self.record_path(cell), written)
        return written

    def records(self) -> list[dict[str, Any]]:
        """Every record, in the order of the file names. Raises StorageError on a damaged or misplaced one."""
        found = []
        for path in sorted((self.root / "records").rglob("*.json")):
            record = read_record(path)
            place = self.record_path(Cell.of(record))
            if path != place:
                raise StorageError(f"{path} is the record of a cell whose place is {place}", "is it a copy? move it")
            found.append(record)
        return found

    def latest(self, dataset: str) -> dict[str, dict[str, Any]]:
        """Method -> its youngest result on a data set under any setting: what to expect of its next one."""
        done = [
            record for record in self.records() if record["status"] == "ok" and record["cell"]["dataset"] == dataset
        ]
        return {
            record["cell"]["method"]: record
            for record in sorted(done, key=lambda record: str(record["measured"]["started"]))
        }
