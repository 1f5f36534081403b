"""Pairs: the elements of a binary sparse matrix that are 1, on disk as .npz files, and their digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.storage.arrays import read_arrays
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Pattern:
    """The elements of a binary matrix [rows, columns] that are 1, in CSR form, without scipy, which imports slowly.

    indptr: [rows + 1]. indices: [pairs], the column ids of each row, ascending.
    """

    indptr: np.ndarray
    indices: np.ndarray
    columns: int

    def __len__(self) -> int:
        """Return the number of elements that are 1."""
        return len(self.indices)

    @property
    def digest(self) -> str:
        """SHA-256 (hex)."""
        return pairs_digest(self.indptr, self.indices)

    def only(self, kept: np.ndarray) -> Pattern:
        """Return the pairs where ``kept``, bool [pairs], is true."""
        before = np.concatenate([[0], np.cumsum(kept)])
        return Pattern(before[self.indptr], self.indices[kept], self.columns)

    def matrix(self) -> csr_matrix:
        """Return the matrix: binary CSR, float32 [rows, columns]; shares the arrays."""
        from scipy.sparse import csr_matrix

        shape = (len(self.indptr) - 1, self.columns)
        return csr_matrix((np.ones(len(self), np.float32), self.indices, self.indptr), shape=shape)


def write_pairs(path: Path, indptr: np.ndarray, indices: np.ndarray) -> None:
    """Write the structure of a binary CSR matrix. Raises StorageError."""
    with atomic_file(path) as stream:
        np.savez(stream, indptr=indptr.astype(np.int64), indices=indices.astype(np.int32))


def read_pattern(path: Path, columns: int) -> Pattern:
    """Read a file of ``write_pairs``. That the arrays fit together is not checked: compare the digest."""
    try:
        indptr, indices = read_arrays(path, "indptr", "indices")
        if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in (indptr, indices)):
            raise ValueError("its arrays are not vectors of integers")
        return Pattern(indptr.astype(np.int32) if len(indices) < np.iinfo(np.int32).max else indptr, indices, columns)
    except (OSError, ValueError, TypeError, MemoryError) as error:
        raise _unreadable(path, error) from None


def read_pairs(path: Path, columns: int) -> csr_matrix:
    """Read a file of ``write_pairs``: a binary CSR matrix, float32 [N, columns], ids ascending. Raises DataError."""
    pattern = read_pattern(path, columns)
    try:
        pairs = pattern.matrix()
        pairs.check_format(full_check=True)
        return pairs
    # Wrong shapes and types meet scipy in many ways.
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read the pairs {path}: {error}", "delete its folder: it will be regenerated")


def freeze(pairs: csr_matrix) -> None:
    """Make the arrays of a matrix read-only."""
    for part in (pairs.data, pairs.indices, pairs.indptr):
        part.flags.writeable = False


def pairs_digest(indptr: np.ndarray, indices: np.ndarray) -> str:
    """Return the SHA-256 (hex) of the structure of a binary CSR matrix, whatever the number of its columns."""
    digest = hashlib.sha256()
    for array in (indptr, indices):
        digest.update(np.array([len(array)], "<i8").tobytes())
        digest.update(np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()
