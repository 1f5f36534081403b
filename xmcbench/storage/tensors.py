"""Arrays by name as safetensors files, and the attributes of an object as files: numbers in ``state.safetensors``,
everything else in ``state.json``.

Kept are JSON values, tuples, numpy arrays of numbers, sparse matrices of scipy in CSR and CSC form, Arrow arrays of
``large_string``, lists and dicts of these, and objects of classes of the owner's package, or of xmcbench, with
attributes of these types. An array that several attributes share is written once. Nothing is unpickled, and nothing
but an import of these packages runs when the files are read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xmcbench.errors import DataError, MethodError, StorageError
from xmcbench.storage.atomic import write_text
from xmcbench.storage.reading import open_regular, read_text

#: The files of a state.
_VALUES, _ARRAYS = "state.json", "state.safetensors"
#: Sparse matrices whose parts are read by name.
_SPARSE = ("csr_matrix", "csc_matrix", "csr_array", "csc_array")
#: The package whose classes every owner may have attributes of.
_HARNESS = "xmcbench"


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
        hint = "free some space, then run again: a training with checkpoints continues from the last checkpoint"
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


def save_state(folder: Path, attributes: Mapping[str, object], owner: type) -> None:
    """Write attributes of an object of a class. Raises MethodError for one that cannot be kept, and StorageError."""
    writer = _Writer(owner)
    values = {name: writer.encode(value, name) for name, value in attributes.items()}
    save_arrays(folder / _ARRAYS, writer.arrays)
    write_text(folder / _VALUES, json.dumps({"class": owner.__name__, "attributes": values}, ensure_ascii=False))


def load_state(folder: Path, owner: type) -> dict[str, Any]:
    """Read the attributes that ``save_state`` wrote for this class. Raises DataError."""
    path = folder / _VALUES
    try:
        content = json.loads(read_text(path))
        if content["class"] != owner.__name__:
            raise ValueError(f"it is that of {content['class']}")
        reader = _Reader(owner, load_arrays(folder / _ARRAYS))
        return {name: reader.decode(value) for name, value in content["attributes"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError) as error:
        raise DataError(f"{path} is not the state of {owner.__name__}: {error}", "fit the model again") from error


def _is_own(module: str, owner: type) -> bool:
    return module.partition(".")[0] in (_HARNESS, owner.__module__.partition(".")[0])


class _Writer:
    """Turns values into JSON values, and collects their arrays."""

    def __init__(self, owner: type) -> None:
        self._owner = owner
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}
        self._kept: list[np.ndarray] = []  # while an array lives, no other one has its id
        self._open: set[int] = set()

    def encode(self, value: Any, path: str) -> Any:
        """Return a value as a JSON value. path: of attributes, for errors."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) in self._open:
            raise self._refuse(path, "refers to itself")
        self._open.add(id(value))
        try:
            return self._encode(value, path)
        finally:
            self._open.remove(id(value))

    def _encode(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            items = [self.encode(item, f"{path}[{place}]") for place, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict:
            items = [(key, self.encode(item, f"{path}[{key!r}]")) for key, item in value.items()]
            if all(type(key) is str for key in value):
                return {"map": dict(items)}
            return {"dict": [[self.encode(key, path), item] for key, item in items]}
        return self._numbers(value, path) or self._object(value, path)

    def _numbers(self, value: Any, path: str) -> dict[str, object] | None:
        """Return the entry of arrays, sparse matrices and strings; None for anything else."""
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            return {"array" if isinstance(value, np.ndarray) else "scalar": self._keep(np.asarray(value), path)}
        if kind.__module__.startswith("scipy.sparse") and kind.__name__ in _SPARSE:
            names = [self._keep(part, path) for part in (value.data, value.indices, value.indptr)]
            return {"sparse": [kind.__name__, names, value.shape]}
        if kind.__module__.startswith("pyarrow") and str(getattr(value, "type", "")) == "large_string":
            texts = [text.encode() for text in value.to_pylist()]
            ends: np.ndarray = np.cumsum([0, *map(len, texts)], dtype=np.int64)
            return {"strings": [self._keep(part, path) for part in (ends, np.frombuffer(b"".join(texts), np.uint8))]}
        return None

    def _object(self, value: Any, path: str) -> dict[str, object]:
        kind = type(value)
        if not _is_own(kind.__module__, self._owner) or not hasattr(value, "__dict__") or isinstance(value, type):
            raise self._refuse(path, f"is of type {kind.__module__}.{kind.__qualname__}")
        state = {name: self.encode(item, f"{path}.{name}") for name, item in vars(value).items()}
        # The module of a plug-in file has another name where the file is in another place.
        module = "" if kind.__module__ == self._owner.__module__ else kind.__module__
        return {"object": [module, kind.__qualname__, state]}

    def _keep(self, array: np.ndarray, path: str) -> str:
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise self._refuse(path, f"is an array of type {array.dtype}")
        if id(array) not in self._names:
            self._names[id(array)] = name = str(len(self._kept))
            self._kept.append(array)
            self.arrays[name] = array
        return self._names[id(array)]

    def _refuse(self, path: str, reason: str) -> MethodError:
        what = f"the method {self._owner.__name__} does not keep its trained state: its attribute {path} {reason}"
        hint = "arrays, sparse matrices, JSON values and objects of these are kept; a method with other attributes"
        return MethodError(what, f"{hint} defines save and load")


class _Reader:
    """Turns JSON values back into values."""

    def __init__(self, owner: type, arrays: Mapping[str, np.ndarray]) -> None:
        self._owner, self._arrays = owner, arrays

    def decode(self, value: Any) -> Any:
        """Return the value of a JSON value."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        readers: dict[str, Callable[[Any], Any]] = {
            "map": lambda items: {key: self.decode(item) for key, item in items.items()},
            "dict": lambda items: {self.decode(key): self.decode(item) for key, item in items},
            "tuple": lambda items: tuple(map(self.decode, items)),
            "array": lambda name: self._arrays[name],
            "scalar": lambda name: self._arrays[name][()],
            "sparse": lambda parts: self._sparse(*parts),
            "strings": lambda parts: self._strings(*parts),
            "object": lambda parts: self._object(*parts),
        }
        return readers[kind](content)

    def _sparse(self, kind: str, parts: list[str], shape: list[int]) -> Any:
        from scipy import sparse

        if kind not in _SPARSE:
            raise ValueError(f"unknown sparse matrix {kind!r}")
        return getattr(sparse, kind)(tuple(self._arrays[name] for name in parts), shape=tuple(shape))

    def _strings(self, ends: str, data: str) -> Any:
        import pyarrow as pa

        buffers = [None, *(pa.py_buffer(self._arrays[name].tobytes()) for name in (ends, data))]
        return pa.Array.from_buffers(pa.large_string(), len(self._arrays[ends]) - 1, buffers)

    def _object(self, module: str, name: str, state: dict[str, Any]) -> Any:
        module = module or self._owner.__module__
        if not _is_own(module, self._owner):
            raise ValueError(f"{module}.{name} is a class of another package")
        kind = reduce(getattr, name.split("."), sys.modules.get(module) or import_module(module))
        if not isinstance(kind, type) or not _is_own(kind.__module__, self._owner):
            raise ValueError(f"{module}.{name} is not a class of the package")
        made: Any = object.__new__(kind)
        made.__dict__.update({key: self.decode(item) for key, item in state.items()})
        return made
