"""Arrays from .npz files: no pickle, bounded, and one kind of error for invalid files.

numpy's own reader makes room for whatever the header of an array asks for. This one holds the headers against the sizes
in the archive, and these against a limit, before it makes room for anything.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from xmcbench.storage.reading import ARRAYS, check_size, open_regular

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_SUFFIX = ".npy"


def read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """The arrays of these names in the .npz file at ``path``.

    Raises OSError when it cannot be read, ValueError when it is not such a file, is damaged, lacks one of them, or
    unpacks to more than the limit.
    """
    found = _read(path, names)
    return [found[name] for name in names]


def read_all_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array in the .npz file at ``path``, by name. Raises what ``read_arrays`` raises."""
    return _read(path, None)


def _read(path: Path, names: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    with open_regular(path) as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError("it is not in the .npz format")
        stream.seek(0)
        try:
            with zipfile.ZipFile(stream) as archive:
                return _arrays(archive, names)
        except MemoryError:
            raise ValueError("it needs more memory than there is") from None
        except (OSError, ValueError):
            raise
        # Which exceptions zipfile, the unpackers and numpy's parser of headers raise on damaged bytes is not
        # documented; there are more than ten.
        except Exception as error:
            raise ValueError(f"it is damaged: {error}") from error


def _arrays(archive: zipfile.ZipFile, names: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    members: dict[str, zipfile.ZipInfo] = {}
    for each in archive.infolist():
        name = each.filename.removesuffix(_SUFFIX)
        if name in members:
            raise ValueError(f"it has the array {name!r} twice")
        members[name] = each
    missing = [name for name in names or () if name not in members]
    if missing:
        raise ValueError(f"it has no array {missing[0]!r}")
    wanted = {name: members[name] for name in (members if names is None else names)}
    check_size(sum(each.file_size for each in wanted.values()), ARRAYS, "what it unpacks to")
    found = {}
    for name, member in wanted.items():
        with archive.open(member) as stream:
            found[name] = _array(name, stream, member.file_size)
            if stream.read(1):  # reads to the end, where the checksum is compared
                raise ValueError(f"the array {name!r} is longer than its header says")
    return found


def _array(name: str, stream: IO[bytes], size: int) -> np.ndarray:
    """An array of exactly ``size`` bytes, header included."""
    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    if version not in _HEADERS:
        raise ValueError(f"the array {name!r} is of version {version} of its format")
    shape, in_columns, dtype = _HEADERS[version](stream)  # type: ignore[no-untyped-call]
    if dtype.hasobject:
        raise ValueError(f"the array {name!r} holds Python objects, which are not read: they could run code")
    expected = math.prod(shape) * dtype.itemsize
    if any(each < 0 for each in shape) or expected != size - stream.tell():
        raise ValueError(f"the array {name!r} is not as long as its header says")
    content = bytearray(expected)
    view = memoryview(content)
    done = 0
    while done < expected and (part := stream.readinto(view[done : done + (1 << 24)])):  # type: ignore[attr-defined]
        done += part
    if done < expected:
        raise ValueError(f"the array {name!r} is truncated")
    if not dtype.itemsize:
        return np.zeros(shape, dtype)
    return np.frombuffer(content, dtype).reshape(shape, order="F" if in_columns else "C")
