"""The layouts of PECOS: texts line by line with .npz matrices, and the lines of text2text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.rows import Row, at, batched
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.text_lines import (
    instance_part,
    label_part,
    read_lines,
    read_texts,
    write_instance_lines,
    write_label_lines,
)
from xmcbench.data.sources.writing import parted, sides
from xmcbench.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from xmcbench.data.dataset import Dataset

_LABELS = ("output-items.txt", "output-labels.txt")
_SIDES = ("trn", "tst")


class Pecos(Source):
    """``X.trn.txt``, ``Y.trn.npz``, ``X.tst.txt``, ``Y.tst.npz`` and ``output-items.txt``."""

    name = "pecos"
    title = "PECOS: X.trn.txt, Y.trn.npz, X.tst.txt, Y.tst.npz, output-items.txt"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(*(f"X.{side}.txt" for side in _SIDES)) is not None

    def holding(self) -> Holding:
        labels = _labels(self.place)
        train, test = (self._part(side, labels) for side in _SIDES)
        return Holding(label_part(labels), train, test, **self.filters())

    def _part(self, side: str, labels: Path) -> Part | None:
        texts, pairs = self.place.find(f"X.{side}.txt"), self.place.path / f"Y.{side}.npz"
        return instance_part(texts, pairs if pairs.exists() else None, read_npz, labels) if texts else None

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        from scipy.sparse import save_npz

        from xmcbench.storage.atomic import atomic_file

        for side, texts, pairs in sides(dataset):
            write_instance_lines(folder / f"X.{side}.txt", texts, flatten)
            with atomic_file(folder / f"Y.{side}.npz") as stream:
                save_npz(stream, pairs)
        write_label_lines(folder / _LABELS[0], dataset.labels, flatten)


class Text2Text(Source):
    """``training-data.txt`` and ``test-data.txt`` with lines ``0,1,2<TAB>text``, and the labels as in ``Pecos``.

    A relevance behind a label id (``2:0.5``) says whether it is a pair: one of 0 or less is none.
    """

    name = "text2text"
    title = "PECOS text2text: training-data.txt, test-data.txt (0,1,2<TAB>text), output-labels.txt"

    _FILES = ("training-data.txt", "test-data.txt")

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(*cls._FILES) is not None and place.find(*_LABELS) is not None

    def holding(self) -> Holding:
        labels = _labels(self.place)
        train, test = (self._part(name, labels) for name in self._FILES)
        return Holding(label_part(labels), train, test, **self.filters())

    def _part(self, name: str, labels: Path) -> Part | None:
        path = self.place.find(name)
        if path is None:
            return None
        return Part("instances", path, (path, labels), lambda: batched(_pairs_first(path, labels)))


def _labels(place: Place) -> Path:
    found = place.find(*_LABELS)
    if found is None:
        raise DataError(f"{place.path} has no {_LABELS[0]}", "the labels, one per line")
    return found


_TARGET = re.compile(r"([0-9]{1,10})(?::([0-9.eE+-]+))?")


def _pairs_first(path: Path, labels: Path) -> Iterator[Row]:
    total = sum(1 for _ in read_texts(labels))
    for number, line in enumerate(read_lines(path), 1):
        first, tab, text = line.partition("\t")
        if not tab:
            raise at(path, number, "has no tab", "expected label ids, separated by commas, a tab, and the text")
        ids = []
        for word in first.split(",") if first.strip() else []:
            match = _TARGET.fullmatch(word.strip())
            if match is None:
                raise at(path, number, f"{word[:40]!r} is not a label id", "0-based line numbers of the labels")
            if int(match[1]) >= total:
                raise at(path, number, f"label {int(match[1])} is out of range", f"there are {total}: 0..{total - 1}")
            try:
                relevance = float(match[2] or 1)
            except ValueError:
                relevance = math.nan
            if not math.isfinite(relevance):
                hint = "expected LABEL or LABEL:NUMBER"
                raise at(path, number, f"{word[:40]!r} has no number after the colon", hint)
            if relevance > 0:
                ids.append(int(match[1]))
        yield str(number - 1), *parted(text), ids


def read_npz(path: Path) -> csr_matrix:
    """A matrix that ``scipy.sparse.save_npz`` wrote, CSR or CSC, without the entries that are 0: CSR float32 [N, L].

    An entry of any other value is a pair. Raises DataError for any other file.
    """
    import numpy as np
    from scipy.sparse import csc_matrix, csr_matrix

    from xmcbench.storage.arrays import read_arrays
    from xmcbench.storage.lfs import refuse_lfs_pointer
    from xmcbench.storage.reading import ARRAYS, check_size

    refuse_lfs_pointer(path, DataError)
    kinds = {b"csr": csr_matrix, b"csc": csc_matrix}
    try:
        layout, shape, indptr, indices, data = read_arrays(path, "format", "shape", "indptr", "indices", "data")
        kind = kinds.get(_word(layout))
        if kind is None:
            raise ValueError("it is neither CSR nor CSC")
        if any(each.ndim != 1 or each.dtype.kind not in "iu" for each in (shape, indptr, indices)) or len(shape) != 2:
            raise ValueError("its arrays are not vectors of integers")
        if data.ndim != 1 or data.dtype.kind not in "biuf" or not np.isfinite(data).all():
            raise ValueError("its values are not finite numbers")
        if shape.min() < 0 or shape.max() > np.iinfo(np.int32).max:
            raise ValueError(f"its shape is {tuple(shape.tolist())}")
        check_size(8 * int(shape[0]), ARRAYS, "what its shape asks for")  # the rows of a CSC matrix cost no bytes
        found = kind((data, indices, indptr), shape=tuple(int(each) for each in shape))
        found.check_format(full_check=True)
        found = found.tocsr().astype(np.float32)
        found.sum_duplicates()
        found.eliminate_zeros()
        return found
    except (OSError, ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        raise DataError(f"cannot read the matrix {path}: {error}", "expected a file of scipy.sparse.save_npz") from None


def _word(array: np.ndarray) -> bytes:
    value = array.item() if array.ndim == 0 else b""
    return value.encode("ascii", "replace") if isinstance(value, str) else bytes(value)
