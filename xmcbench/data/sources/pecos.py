"""The layouts of PECOS: texts line by line with .npz matrices, and the lines of text2text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from xmcbench.data.sources import text_lines
from xmcbench.data.sources.source import SHORT_NAMES, Content, Holding, Part, Place, Row, Source
from xmcbench.data.text_files import at, parse_finite, read_lines, read_texts
from xmcbench.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_LABELS = ("output-items.txt", "output-labels.txt")
#: A label id, and its relevance.
_TARGET = re.compile(r"([0-9]{1,10})(?::([0-9.eE+-]+))?")


class Pecos(Source):
    """``X.trn.txt``, ``Y.trn.npz``, ``X.tst.txt``, ``Y.tst.npz`` and ``output-items.txt``."""

    name = "pecos"
    title = "PECOS: X.trn.txt, Y.trn.npz, X.tst.txt, Y.tst.npz, output-items.txt"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(*(f"X.{side}.txt" for side in SHORT_NAMES.values())) is not None

    def find_parts(self) -> Holding:
        labels = self.place.find(*_LABELS)
        if labels is None:
            raise DataError(f"{self.place.path} has no {_LABELS[0]}", "the labels, one per line")
        return Holding(text_lines.label_part(labels), self.part("train", labels), self.part("test", labels))

    def part(self, name: str, labels: Path) -> Part | None:
        """The training or the test instances."""
        texts = self.place.find(f"X.{SHORT_NAMES[name]}.txt")
        pairs = self.place.path / f"Y.{SHORT_NAMES[name]}.npz"
        return text_lines.instance_part(texts, pairs, read_npz, labels) if texts else None

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        from scipy.sparse import save_npz

        from xmcbench.storage.atomic import atomic_file

        for side, texts, pairs in content.sides():
            text_lines.write_instance_lines(folder / f"X.{SHORT_NAMES[side]}.txt", texts, flatten)
            with atomic_file(folder / f"Y.{SHORT_NAMES[side]}.npz") as stream:
                save_npz(stream, pairs)
        text_lines.write_label_lines(folder / _LABELS[0], content.labels, flatten)


class Text2Text(Pecos):
    """``training-data.txt`` and ``test-data.txt`` with lines ``0,1,2<TAB>text``, and the labels as in ``Pecos``.

    A relevance behind a label id (``2:0.5``) says whether it is a pair: one of 0 or less is none.
    """

    name = "text2text"
    title = "PECOS text2text: training-data.txt, test-data.txt (0,1,2<TAB>text), output-labels.txt"

    _FILES: ClassVar[Mapping[str, str]] = {"train": "training-data.txt", "test": "test-data.txt"}

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(*cls._FILES.values()) is not None and place.find(*_LABELS) is not None

    def part(self, name: str, labels: Path) -> Part | None:
        path = self.place.find(self._FILES[name])
        if path is None:
            return None
        return Part("instances", path, (path, labels), partial(_read_lines, path, labels))

    write = Source.write


def _read_lines(path: Path, labels: Path) -> Iterator[Row]:
    total = sum(1 for _ in read_texts(labels))
    for number, line in read_lines(path):
        first, tab, text = line.partition("\t")
        if not tab:
            raise at(path, number, "has no tab", "expected label ids, separated by commas, a tab, and the text")
        ids = []
        for word in first.split(",") if first.strip() else ():
            match = _TARGET.fullmatch(word.strip())
            if match is None:
                raise at(path, number, f"{word[:40]!r} is not a label id", "0-based line numbers of the labels")
            label, relevance = int(match[1]), parse_finite(match[2] or "1")
            if label >= total:
                raise at(path, number, f"label {label} is out of range", f"there are {total}: 0..{total - 1}")
            if relevance is None:
                raise at(path, number, f"{word[:40]!r} has no number after the colon", "expected LABEL or LABEL:NUMBER")
            if relevance > 0:
                ids.append(label)
        yield Row(path, number, str(number - 1), *text_lines.split_text(text), ids)


def read_npz(path: Path) -> csr_matrix:
    """Read a matrix that ``scipy.sparse.save_npz`` wrote, CSR or CSC, without zeros: CSR float32 [N, L]."""
    import numpy as np
    from scipy.sparse import csc_matrix, csr_matrix

    from xmcbench.storage.arrays import read_arrays
    from xmcbench.storage.reading import ARRAYS, check_size, refuse_lfs_pointer

    refuse_lfs_pointer(path, DataError)
    kinds = {b"csr": csr_matrix, b"csc": csc_matrix}
    try:
        layout, shape, indptr, indices, data = read_arrays(path, "format", "shape", "indptr", "indices", "data")
        word = layout.item() if layout.ndim == 0 else b""
        kind = kinds.get(word.encode("ascii", "replace") if isinstance(word, str) else bytes(word))
        if kind is None:
            raise ValueError("it is neither CSR nor CSC")
        integers = (shape, indptr, indices)
        if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in integers) or len(shape) != 2:
            raise ValueError("its arrays are not vectors of integers")
        if data.ndim != 1 or data.dtype.kind not in "biuf" or not np.isfinite(data).all():
            raise ValueError("its values are not finite numbers")
        if shape.min() < 0 or shape.max() > np.iinfo(np.int32).max:
            raise ValueError(f"its shape is {tuple(shape.tolist())}")
        check_size(8 * int(shape[0]), ARRAYS, "what its shape asks for")  # the rows of a CSC matrix cost no bytes
        found = kind((data, indices, indptr), shape=tuple(shape.tolist()))
        found.check_format(full_check=True)
        found = found.tocsr().astype(np.float32)
        found.sum_duplicates()
        found.eliminate_zeros()
        return found
    except (OSError, ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        raise DataError(f"cannot read the matrix {path}: {error}", "expected a file of scipy.sparse.save_npz") from None
