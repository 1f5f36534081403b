"""Arrays from .npz files: no pickle, and one kind of error for invalid files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np


def read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """The arrays of these names in the .npz file at ``path``.

    Raises OSError when it cannot be read, ValueError when it is not such a file, is damaged, or lacks one of them.
    """
    found = _read(path, names)
    return [found[name] for name in names]


def read_all_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array in the .npz file at ``path``, by name. Raises what ``read_arrays`` raises."""
    return _read(path, None)


def _read(path: Path, names: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):  # of such a file numpy would say that it is pickled
                raise ValueError("it is not in the .npz format")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                missing = [name for name in names or () if name not in arrays.files]
                if missing:
                    raise ValueError(f"it has no array {missing[0]!r}")
                return {name: arrays[name] for name in (arrays.files if names is None else names)}
    # zipfile meets a way to compress that it does not know with NotImplementedError
    except (EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"it is damaged: {error}") from error
