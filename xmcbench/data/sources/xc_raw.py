"""The raw-text layout of the Extreme Classification repository: trn, tst and lbl as JSON lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.rows import ROWS, Kind
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.xc_text import read_rows, write_instances, write_labels
from xmcbench.errors import DataError

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset


class XCRaw(Source):
    """``trn.json``, ``tst.json`` and ``lbl.json``, each plain or gzipped."""

    name = "xc"
    title = "raw text of the Extreme Classification repository: trn, tst and lbl as .json.gz"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find("lbl.json", "trn.json") is not None

    def holding(self) -> Holding:
        paths = {name: self.place.find(f"{name}.json") for name in ("trn", "tst", "lbl")}
        labels, train, test = paths["lbl"], paths["trn"], paths["tst"]
        missing = "lbl" if labels is None else "trn, tst" if train is None and test is None else ""
        if labels is None or missing:
            names = ", ".join(f"{name}.json.gz" for name in missing.split(", "))
            raise DataError(
                f"{self.place.path} has no {names}", "a dataset folder holds trn, tst and lbl as .json.gz or .json"
            )
        return Holding(
            json_part(labels, "labels"),
            json_part(train, "instances") if train else None,
            json_part(test, "instances") if test else None,
            **self.filters(),
        )

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        from xmcbench.data.sources.writing import rows_of, sides
        from xmcbench.data.xc_matrix import write_matrix

        for side, texts, pairs in sides(dataset):
            write_instances(folder / f"{side}.json.gz", rows_of(texts, pairs))
            write_matrix(folder / f"{side}_X_Y.txt", pairs)
        write_labels(folder / "lbl.json.gz", zip(dataset.labels.uids, dataset.labels.titles, strict=True))


def json_part(path: Path, kind: Kind) -> Part:
    """A JSON-lines file of this layout; its rows depend on no other file."""
    return Part(kind, path, (path,), partial(read_rows, path, kind, ROWS))
