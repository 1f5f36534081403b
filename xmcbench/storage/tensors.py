"""Arrays by name as safetensors files: equal arrays give equal bytes, and nothing is unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xmcbench.errors import DataError, MethodError, StorageError
from xmcbench.storage.reading import open_regular


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of numbers. Raises MethodError for other arrays, StorageError if they cannot be written."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            hint = "arrays must hold numbers; store text as bytes"
            raise MethodError(f"the array {name!r} has the type {array.dtype}", hint)
    try:
        path.touch()  # with the mode of the umask; the file that replaces it is private
        mode = path.stat().st_mode
        save_file(plain, path)
        path.chmod(mode)
    except (SafetensorError, OSError) as error:
        hint = "free some space, then run again: training continues from the last checkpoint"
        raise StorageError(f"cannot write {path}: {error}", hint) from error


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read a file of ``save_arrays``. Raises DataError if it is missing or damaged."""
    from safetensors.numpy import load_file

    try:
        open_regular(path).close()
        arrays: dict[str, np.ndarray] = load_file(path)
        return arrays
    # SafetensorError, and KeyError or others for a type or a shape that numpy does not have.
    except Exception as error:
        raise DataError(f"cannot read {path}: {error}", "delete its folder: it will be regenerated") from error
