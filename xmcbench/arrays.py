"""Arrays from .npz files: no pickle, and one kind of error for whatever is not such a file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np


def read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """The arrays of these names in the .npz file at ``path``.

    Raises OSError when it cannot be read, ValueError when it is none, is damaged, or lacks one of them.
    """
    try:
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):  # of such a file numpy would say that it is pickled
                raise ValueError("it is not in the .npz format")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                missing = [name for name in names if name not in arrays.files]
                if missing:
                    raise ValueError(f"it holds no array {missing[0]!r}")
                return [arrays[name] for name in names]
    # zipfile meets a way to compress that it does not know with NotImplementedError
    except (EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"it is damaged: {error}") from error
