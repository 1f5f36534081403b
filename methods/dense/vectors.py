"""Embeddings of many texts on disk: a memory map of their own, shared between cells or gone after one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from xmcbench import Artifacts, XmcbenchError

_FILE = "embeddings.bin"
#: Bytes that are written at a time where the system cannot take room for a file.
_WRITTEN = 1 << 24


def map_array(path: Path, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """A new array [rows, width] in a file. Raises OSError where there is no room for all of it. The room is taken at
    once: a map that finds the disk full while it is written to ends the process."""
    size = _size(shape, dtype)
    if size == 0:
        return np.empty(shape, dtype)
    with path.open("wb") as stream:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, size)
        else:  # macOS
            for start in range(0, size, _WRITTEN):
                stream.write(bytes(min(_WRITTEN, size - start)))
    return np.memmap(path, dtype, "r+", shape=shape)


@contextmanager
def temporary_vectors(
    artifacts: Artifacts, shape: tuple[int, int], dtype: np.dtype, write: Callable[[np.ndarray], None]
) -> Iterator[np.ndarray]:
    """Let ``write`` fill an array [rows, width] in a file beside the artifacts, removed when the block ends. Raises
    XmcbenchError where there is no room for it."""
    with artifacts.temporary() as folder:
        try:
            vectors = map_array(folder / _FILE, shape, dtype)
        except OSError as error:
            size = f"{_size(shape, dtype) / 1e9:.1f} GB"
            raise XmcbenchError(
                f"cannot write {shape[0]} embeddings ({size}) below {artifacts.root}: {error.strerror or error}",
                "free some space or choose another --runs folder, then run again",
            ) from error
        write(vectors)
        yield vectors


def shared_vectors(
    artifacts: Artifacts,
    identity: Mapping[str, object],
    shape: tuple[int, int],
    dtype: np.dtype,
    write: Callable[[np.ndarray], None],
) -> np.ndarray:
    """Return the array [rows, width] that ``write`` fills, taken from the artifacts, or made and put there. identity:
    of weights and texts (JSON values); the code of ``write`` is added to it."""

    def build(folder: Path) -> None:
        write(map_array(folder / _FILE, shape, dtype))

    path = artifacts.get("embeddings", {**identity, "dtype": dtype.name}, build, uses=(write,)) / _FILE
    return np.memmap(path, dtype, "r", shape=shape) if _size(shape, dtype) else np.empty(shape, dtype)


def _size(shape: tuple[int, int], dtype: np.dtype) -> int:
    return shape[0] * shape[1] * dtype.itemsize
