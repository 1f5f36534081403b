"""Label matrices of the Extreme Classification repository with raw text, one line per instance or label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.text_lines import instance_part, label_part, write_instance_lines, write_label_lines
from xmcbench.data.sources.writing import sides
from xmcbench.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data.dataset import Dataset

#: Bags of words, and their vocabularies. ``Yf.txt`` is a matrix in one repository and text in the other.
_FEATURES = ("trn_X_Xf", "tst_X_Xf", "val_X_Xf", "lbl_X_Xf", "Y_Yf", "Xf", "Yf")


class XCLines(Source):
    """``trn_X_Y.txt``, ``tst_X_Y.txt``; ``trn_X.txt``, ``tst_X.txt`` and ``Y.txt`` beside them."""

    name = "xc-lines"
    title = "label matrices of the Extreme Classification repository with raw text: trn_X_Y.txt, trn_X.txt, Y.txt"

    #: The folder of the texts, below that of the matrices.
    raw: ClassVar[str] = "."

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(f"{cls.raw}/Y.txt") is not None

    def holding(self) -> Holding:
        labels = self.place.find(f"{self.raw}/Y.txt")
        if labels is None:
            raise DataError(f"{self.place.path} has no {Path(self.raw, 'Y.txt')}", "the labels, one per line")
        train, test = (self._part(side, labels) for side in ("trn", "tst"))
        if train is None and test is None:
            raise DataError(
                f"{self.place.path} has no {Path(self.raw, 'trn_X.txt')}", "the training instances, one per line"
            )
        return Holding(label_part(labels), train, test, **self.filters(), notes=self._unused())

    def _part(self, side: str, labels: Path) -> Part | None:
        texts = self.place.find(f"{self.raw}/{side}_X.txt")
        return instance_part(texts, self.place.find(f"{side}_X_Y.txt"), _pairs, labels) if texts else None

    def _unused(self) -> tuple[str, ...]:
        bags = [path.name for name in _FEATURES if (path := self.place.find(f"{name}.txt"))]
        rest = [path.name for name in ("val_X_Y", f"{self.raw}/val_X") if (path := self.place.find(f"{name}.txt"))]
        found = [f"bags of words are not read, methods get the raw text: {', '.join(bags)}"] if bags else []
        return (*found, *([f"the validation set is not used: {', '.join(rest)}"] if rest else []))

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        from xmcbench.data.xc_matrix import write_matrix

        for side, texts, pairs in sides(dataset):
            write_instance_lines(folder / cls.raw / f"{side}_X.txt", texts, flatten)
            write_matrix(folder / f"{side}_X_Y.txt", pairs)
        write_label_lines(folder / cls.raw / "Y.txt", dataset.labels, flatten)


class GZXML(XCLines):
    """As ``XCLines``, with the texts in the folder ``raw``: the layout of ZestXML."""

    name = "zestxml"
    title = "the layout of ZestXML (GZXML): trn_X_Y.txt, raw/trn_X.txt, raw/Y.txt"
    raw = "raw"


def _pairs(path: Path) -> csr_matrix:
    """A label matrix without the entries that are 0. All others are pairs, whatever their value."""
    from xmcbench.data.xc_matrix import read_matrix

    found = read_matrix(path)
    found.eliminate_zeros()
    return found
