"""Paths in a runs folder: one file per cell and kind, under the same path; on a board, records and ranks are packed.

records/<dataset>/<setting>/<method>-s<seed>-<key>.json    or a line of records/<dataset>/<setting>.jsonl
ranks/...npz    or a member of ranks/<dataset>/<setting>.zip
predictions/...npz    logs/...log    truth/<dataset>-<hash>.npz    subsets/<dataset>/<subset>-<hash>.npz
artifacts/<kind>/<hash>/    trained/<training>/<kind>/<hash>/
"""

from __future__ import annotations

import re
from pathlib import Path

from xmcbench.records.packed import ARCHIVE, LINES
from xmcbench.records.record import Cell
from xmcbench.storage.artifact_store import SHARED, TRAINED
from xmcbench.storage.locks import CLAIM, Claim

#: The files of cells and of subsets below their folder, without a suffix.
_FEW = "fs-(?:label|pair)-[^/]+"
OF_CELL = re.compile(rf"[^/]+/(?:ez|full|{_FEW})/[^/]+-s[0-9]+-[0-9a-f]{{12}}")
_OF_SUBSET = re.compile(rf"[^/]+/(?:full|{_FEW}-s[0-9]+)-[0-9a-f]{{12}}")


class Layout:
    """The paths in the runs folder at ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def record_path(self, cell: Cell) -> Path:
        """The cell's record."""
        return self._file("records", cell, ".json")

    def predictions_path(self, cell: Cell) -> Path:
        """The cell's predictions."""
        return self._file("predictions", cell, ".npz")

    def ranks_path(self, cell: Cell) -> Path:
        """The ranks of the true pairs among the cell's predictions."""
        return self._file("ranks", cell, ".npz")

    def log_path(self, cell: Cell) -> Path:
        """The output of the cell's process."""
        return self._file("logs", cell, ".log")

    def lines_path(self, cell: Cell) -> Path:
        """The file with the packed records of the cell's dataset and setting."""
        return self.root / "records" / f"{cell.path.parent}{LINES}"

    def archive_path(self, cell: Cell) -> Path:
        """The archive with the packed ranks of the cell's dataset and setting."""
        return self.root / "ranks" / f"{cell.path.parent}{ARCHIVE}"

    def place(self, cell: Cell) -> Path:
        """The place of the cell's record on a board, for messages: its own file, or the packed file and its name."""
        path = self.record_path(cell)
        return path if path.exists() else self.lines_path(cell) / cell.path.name

    def truth_path(self, dataset: str, truth_sha256: str) -> Path:
        """The true pairs of a dataset, to which ranks refer."""
        return self.root / "truth" / f"{dataset.lower()}-{truth_sha256[:12]}.npz"

    def _file(self, folder: str, cell: Cell, suffix: str) -> Path:
        path = self.root / folder / cell.path
        return path.with_name(path.name + suffix)

    def files(self, folder: str) -> list[Path]:
        """The files in ``predictions``, ``logs`` or ``subsets``, by name. Those of others, by theirs, are left out.

        What pre-trainings printed is left out too: a run writes there under another claim, and starts the file again.
        """
        root, suffix = self.root / folder, ".log" if folder == "logs" else ".npz"
        ours = _OF_SUBSET if folder == "subsets" else OF_CELL
        found = sorted(root.rglob(f"*{suffix}"))
        return [path for path in found if ours.fullmatch(path.relative_to(root).with_suffix("").as_posix())]

    def relative(self, path: Path) -> str:
        """A path relative to the root, as in records."""
        return path.relative_to(self.root).as_posix()

    @property
    def artifacts(self) -> Path:
        """The folder of the artifacts that cells share."""
        return self.root / SHARED

    def training(self, key: str) -> Path:
        """The folder of a training, for what is made with pairs: only cells that name the training can read it."""
        return self.root / TRAINED / key

    def claim(self, cell: Cell) -> Claim:
        """The claim on a cell, for runs that write one folder at once, maybe on several machines."""
        return Claim(self._file("logs", cell, CLAIM))

    def pretraining_claim(self, key: str) -> Claim:
        """The claim on a pre-training that cells share."""
        return Claim(self.artifacts / "pretraining" / f"{key[:32]}{CLAIM}")
