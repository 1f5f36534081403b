"""Pairs on disk: binary sparse matrices as .npz files, and their digest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.storage.arrays import read_arrays
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def write_pairs(path: Path, indptr: np.ndarray, indices: np.ndarray) -> None:
    """Write the structure of a binary CSR matrix. Raises StorageError."""
    with atomic_file(path) as stream:
        np.savez(stream, indptr=indptr.astype(np.int64), indices=indices.astype(np.int32))


def read_pairs(path: Path, columns: int) -> csr_matrix:
    """Read what ``write_pairs`` wrote: a binary CSR matrix, float32 [N, columns], column ids ascending.

    Raises DataError if the file is missing, damaged or not such a matrix.
    """
    from scipy.sparse import csr_matrix

    try:
        indptr, indices = read_arrays(path, "indptr", "indices")
        if any(each.ndim != 1 or each.dtype.kind not in "iu" for each in (indptr, indices)):
            raise ValueError("its arrays are not vectors of integers")
        if len(indices) < np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        pairs = csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(indptr) - 1, columns))
        pairs.check_format(full_check=True)
        return pairs
    # Wrong shapes and types meet scipy in many ways.
    except (OSError, ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        hint = "delete its folder: it will be regenerated"
        raise DataError(f"cannot read the pairs {path}: {error}", hint) from None


def freeze(pairs: csr_matrix) -> None:
    """Make the arrays of a matrix read-only."""
    for part in (pairs.data, pairs.indices, pairs.indptr):
        part.flags.writeable = False


def pairs_digest(indptr: np.ndarray, indices: np.ndarray) -> str:
    """SHA-256 (hex) of the structure of a binary CSR matrix, whatever the number of its columns."""
    digest = hashlib.sha256()
    for array in (indptr, indices):
        digest.update(np.array([len(array)], "<i8").tobytes())
        digest.update(np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()
