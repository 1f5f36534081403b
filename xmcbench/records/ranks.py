"""The ranks of the true pairs, and the pairs themselves: everything from which the figures of a record are computed.

A rank is 1 to 100, or 0 where the label is not among the first 100 predictions. At one byte each they take
kilobytes instead of the megabytes of predictions, so they always accompany the record. The true pairs are stored once
per dataset, so that figures can be computed again without the dataset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import StorageError
from xmcbench.metrics import TruePairs, label_frequency
from xmcbench.storage.arrays import read_all_arrays, read_arrays
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    from xmcbench.data import Dataset

_AGAIN = "run the cell again with --force"
#: Joins the names of filters with equal ranks, after a first word: numpy does not accept an array named "file".
_AND, _FIRST = "+", "ranks"
#: The array of labels with a known pair, one bit each.
_SEEN = "seen"


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of one cell.

    by_filter: filter -> uint8 [P], the rank of every true pair under it. seen: bool [L], the labels that have a pair
    among those given to the method.
    """

    by_filter: Mapping[str, np.ndarray]
    seen: np.ndarray

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the content."""
        parts = [(name, self.by_filter[name]) for name in sorted(self.by_filter)]
        return _digest([*parts, (_SEEN, np.packbits(self.seen))])

    def save(self, path: Path) -> None:
        """Write an .npz; filters with the same ranks share an array. Raises StorageError."""
        groups: dict[bytes, list[str]] = {}
        for name in sorted(self.by_filter):
            groups.setdefault(self.by_filter[name].tobytes(), []).append(name)
        arrays = {_AND.join((_FIRST, *names)): self.by_filter[names[0]] for names in groups.values()}
        with atomic_file(path) as stream:
            np.savez_compressed(stream, **arrays, **{_SEEN: np.packbits(self.seen)})

    @classmethod
    def load(cls, path: Path, pairs: int, labels: int, member: str = "") -> Ranks:
        """Read what ``save`` wrote, for this number of true pairs and labels. Raises StorageError for anything else.

        member: name of the file in the archive at ``path``, if it is packed.
        """
        place = path / member
        try:
            arrays = read_all_arrays(path, member)
            bits = arrays.pop(_SEEN)
            seen = np.unpackbits(bits, count=labels).astype(bool)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"cannot read the ranks {place}: {error}", _AGAIN) from error
        fits = (ranks.shape == (pairs,) and ranks.dtype == np.uint8 for ranks in arrays.values())
        if bits.shape != (-(-labels // 8),) or not all(fits):
            raise StorageError(f"{place} does not hold the ranks of {pairs} true pairs", _AGAIN)
        return cls({name: ranks for names, ranks in arrays.items() for name in names.split(_AND)[1:]}, seen)


@dataclass(frozen=True, eq=False)
class Truth:
    """The ground truth of a dataset.

    pairs: the true test pairs. frequency: int64 [L], training pairs of every label; instances: training instances.
    """

    pairs: TruePairs
    frequency: np.ndarray
    instances: int

    @classmethod
    def of(cls, dataset: Dataset) -> Truth:
        """The truth of a dataset."""
        training = dataset.train_pairs()
        return cls(TruePairs.of(dataset.test_pairs()), label_frequency(training), training.shape[0])

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the content."""
        pairs = self.pairs
        sizes = np.array([pairs.instances, self.instances])
        return _digest([("rows", pairs.rows), ("labels", pairs.labels), ("freq", self.frequency), ("sizes", sizes)])

    def save(self, path: Path) -> None:
        """Write an .npz. Raises StorageError."""
        with atomic_file(path) as stream:
            np.savez_compressed(
                stream,
                lengths=self.pairs.lengths.astype(np.int32),
                labels=self.pairs.labels.astype(np.int32),
                frequency=self.frequency.astype(np.int32),
                instances=np.array(self.instances),
            )

    @classmethod
    def load(cls, path: Path) -> Truth:
        """Read what ``save`` wrote. Raises StorageError for anything else."""
        try:
            lengths, labels, frequency, instances = read_arrays(path, "lengths", "labels", "frequency", "instances")
            vectors = (lengths, labels, frequency)
            if any(vector.ndim != 1 or vector.dtype.kind not in "iu" for vector in vectors) or (lengths < 0).any():
                raise ValueError("its arrays are not vectors of counts and ids")
            if instances.shape or instances.dtype.kind not in "iu":
                raise ValueError("its number of training instances is not one number")
            if lengths.sum() != len(labels) or (labels < 0).any() or (labels >= len(frequency)).any():
                raise ValueError("its arrays do not match")
            rows = np.repeat(np.arange(len(lengths)), lengths)
            pairs = TruePairs(rows, labels.astype(np.int64), len(lengths))
            return cls(pairs, frequency.astype(np.int64), int(instances))
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(f"cannot read the true pairs {path}: {error}", "restore the file") from error


def _digest(arrays: list[tuple[str, np.ndarray]]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays:
        digest.update(f"{name} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array, "u1" if array.dtype == np.uint8 else "<i8").tobytes())
    return digest.hexdigest()
