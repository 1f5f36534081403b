"""Label matrices of the Extreme Classification repository with raw text, one line per instance or label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from xmcbench.data.sources.source import SHORT_NAMES, Content, Holding, Place, Source
from xmcbench.data.sources.text_lines import instance_part, label_part, write_instance_lines, write_label_lines
from xmcbench.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

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

    def find_parts(self) -> Holding:
        labels = self.place.find(f"{self.raw}/Y.txt")
        if labels is None:
            raise DataError(f"{self.place.path} has no {Path(self.raw, 'Y.txt')}", "the labels, one per line")
        parts = {
            side: instance_part(texts, self.place.find(f"{short}_X_Y.txt"), _read_pairs, labels)
            for side, short in SHORT_NAMES.items()
            if (texts := self.place.find(f"{self.raw}/{short}_X.txt"))
        }
        if not parts:
            missing = Path(self.raw, "trn_X.txt")
            raise DataError(f"{self.place.path} has no {missing}", "the training instances, one per line")
        notes = [
            f"{what}: {', '.join(path.name for path in found)}"
            for what, names in (
                ("bags of words are not read, methods get the raw text", _FEATURES),
                ("the validation set is not used", ("val_X_Y", f"{self.raw}/val_X")),
            )
            if (found := [path for name in names if (path := self.place.find(f"{name}.txt"))])
        ]
        return Holding(label_part(labels), parts.get("train"), parts.get("test"), tuple(notes))

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        from xmcbench.data.xc_matrix import write_matrix

        for side, texts, pairs in content.sides():
            write_instance_lines(folder / cls.raw / f"{SHORT_NAMES[side]}_X.txt", texts, flatten)
            write_matrix(folder / f"{SHORT_NAMES[side]}_X_Y.txt", pairs)
        write_label_lines(folder / cls.raw / "Y.txt", content.labels, flatten)


class GZXML(XCLines):
    """As ``XCLines``, with the texts in the folder ``raw``: the layout of ZestXML."""

    name = "zestxml"
    title = "the layout of ZestXML (GZXML): trn_X_Y.txt, raw/trn_X.txt, raw/Y.txt"
    raw = "raw"


def _read_pairs(path: Path) -> csr_matrix:
    """Read a label matrix without the entries that are 0. All others are pairs, whatever their value."""
    from xmcbench.data.xc_matrix import read_matrix

    found = read_matrix(path)
    found.eliminate_zeros()
    return found
