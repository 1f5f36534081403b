"""Arrow arrays from numpy arrays and back, from texts, and scalars.

pyarrow's own conversions import pandas where it is installed, which takes longer than most of what a cheap method does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

#: Arrow's names of types that numpy calls differently. ``DataType.to_pandas_dtype`` would import pandas.
_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def from_numpy(values: np.ndarray) -> pa.Array:
    """Return a numpy array of integers or floats as an Arrow array (no copy where it is contiguous).

    Raises ValueError for other types.
    """
    import pyarrow as pa

    _check_numbers(values.dtype)
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def to_numpy(array: pa.Array) -> np.ndarray[Any, Any]:
    """Return an Arrow array of numbers as a read-only numpy array (no copy).

    Raises ValueError for nulls and other types.
    """
    if array.null_count:
        raise ValueError("arrays with nulls cannot be converted to NumPy")
    name = str(array.type)
    dtype = np.dtype(_NUMPY_NAMES.get(name, name))
    _check_numbers(dtype)
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _check_numbers(dtype: np.dtype[Any]) -> None:
    """Raise ValueError for types that the two keep differently, such as truth values: bits in one, bytes in another."""
    if dtype.kind not in "iuf":
        raise ValueError(f"arrays of {dtype} cannot be converted")


def from_strings(texts: Iterable[str]) -> pa.Array:
    """Return texts as an Arrow array of ``large_string``."""
    import pyarrow as pa

    contents = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, contents)], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(contents))]
    return pa.Array.from_buffers(pa.large_string(), len(contents), buffers)


def scalar(value: int | str) -> pa.Scalar:
    """Return an integer as an Arrow ``int32``, a string as a ``large_string``."""
    if isinstance(value, int):
        return from_numpy(np.array([value], np.int32))[0]
    return from_strings([value])[0]
