"""Arrays in .npz files, and pairs: the elements of a binary sparse matrix that are 1, in such files too.

Reading unpickles nothing, is bounded, and raises one kind of error for invalid files. numpy's own reader makes room for
whatever the header of an array asks for. This one first compares the headers with the sizes in the archive, and these
with a limit.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np

from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file, writing
from xmcbench.storage.reading import ARRAYS, PIECEWISE, check_size, is_lfs_pointer, open_regular, read_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: The parser of a header, and the bytes that its length is written in, by the version of the format.
_HEADERS = {(1, 0): (np.lib.format.read_array_header_1_0, 2), (2, 0): (np.lib.format.read_array_header_2_0, 4)}
#: Bytes of a header that numpy parses. It reads longer ones, of up to 4 GiB, before it refuses them.
_LONGEST_HEADER = 10_000


def read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """Return the arrays of these names in the .npz file at ``path``.

    Raises OSError when it cannot be read, ValueError when it is not such a file, is damaged, lacks one of them, or
    unpacks to more than the limit.
    """
    found = read_all_arrays(path, names=names)
    return [found[name] for name in names]


def read_all_arrays(path: Path, member: str = "", names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    """Return every array in the .npz file at ``path``, or these, by name. Raises the errors of ``read_arrays``.

    member: name of the .npz file in the zip archive at ``path``, if it is in one.
    """
    found = {}
    with _archive(path, member) as archive:
        members = _members(archive, names)
        check_size(sum(part.file_size for part in members.values()), ARRAYS, "what it unpacks to")
        for name, part in members.items():
            with archive.open(part) as stream:
                shape, in_columns, dtype = _read_header(name, stream, part.file_size)
                found[name] = _read_array(name, stream, shape, dtype, "F" if in_columns else "C")
                _check_end(name, stream)
    return found


def read_rows(path: Path, rows: int, *names: str) -> Iterator[list[np.ndarray]]:
    """Yield the arrays of these names, so many rows at a time, without holding more of them.

    At least one part comes, even of arrays without rows. The limit is that of a part: the whole may be larger. Raises
    the errors of ``read_arrays``, and ValueError when the arrays have different numbers of rows.
    """
    with _archive(path) as archive, ExitStack() as opened:
        members = _members(archive, names)
        streams = {name: opened.enter_context(archive.open(member)) for name, member in members.items()}
        headers = {name: _read_header(name, stream, members[name].file_size) for name, stream in streams.items()}
        lengths = {shape[0] if shape and not in_columns else -1 for shape, in_columns, _ in headers.values()}
        if len(lengths) > 1 or -1 in lengths:
            raise ValueError(f"its arrays {' and '.join(map(repr, names))} are not row by row of one length")
        (length,) = lengths
        widths = (math.prod(shape[1:]) * dtype.itemsize for shape, _, dtype in headers.values())
        check_size(min(rows, length) * sum(widths), ARRAYS, f"what {rows} of its rows unpack to")
        for start in range(0, max(1, length), rows):
            count = min(rows, length - start)
            yield [_read_array(name, streams[name], (count, *headers[name][0][1:]), headers[name][2]) for name in names]
        for name, stream in streams.items():
            _check_end(name, stream)


def write_rows(path: Path, parts: Iterable[Sequence[np.ndarray]], shape: tuple[int, ...], **dtypes: type) -> None:
    """Write arrays of one shape as an .npz, some rows of each at a time, without holding more of them.

    parts: rows of each array. dtypes: their types, by name. Equal arrays give equal bytes. Raises ValueError, and
    writes nothing, where the parts are not of this shape; StorageError.
    """
    (first, *others), rows = dtypes, 0
    with (
        atomic_file(path) as stream,
        # Deflate would save a third of the bytes, and take most of the time of scoring a million rows.
        zipfile.ZipFile(stream, "w") as archive,
        ExitStack() as opened,
    ):
        # An archive is written one array after the other, so the others wait here.
        waiting = [opened.enter_context(tempfile.TemporaryFile(dir=path.parent)) for _ in others]
        with _open_member(archive, first, dtypes[first], shape) as member:
            for arrays in parts:
                if any(array.shape != (len(arrays[0]), *shape[1:]) for array in arrays):
                    raise ValueError(f"a part has the shapes {' and '.join(str(array.shape) for array in arrays)}")
                rows += len(arrays[0])
                content = [np.ascontiguousarray(*item).data for item in zip(arrays, dtypes.values(), strict=True)]
                member.write(content[0])
                with writing(path):  # not around the parts, whose errors are those of their source
                    for file, own in zip(waiting, content[1:], strict=True):
                        file.write(own)
        if rows != shape[0]:
            raise ValueError(f"the parts have {rows} rows, not {shape[0]}")
        for name, file in zip(others, waiting, strict=True):
            file.seek(0)
            with _open_member(archive, name, dtypes[name], shape) as member:
                shutil.copyfileobj(file, member, 1 << 20)


@contextmanager
def _open_member(archive: zipfile.ZipFile, name: str, dtype: type, shape: tuple[int, ...]) -> Iterator[IO[bytes]]:
    """Open an array of an archive for its content; the header is written."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)  # type: ignore[no-untyped-call]
        yield member


@contextmanager
def _archive(path: Path, member: str = "") -> Iterator[zipfile.ZipFile]:
    """Open the archive at a path, or one of its members; damage that is met while it is read becomes a ValueError."""
    try:
        if member:
            state = path.stat()
            outer = _hold_archive(path, (state.st_mtime_ns, state.st_size, state.st_ino))
            part = outer.getinfo(member)
            check_size(part.file_size, ARRAYS, f"its member {member}")
            _check_compression(part)
            opened: IO[bytes] = BytesIO(outer.read(part))
        else:
            opened = open_regular(path)
        with opened as stream, _open_zip(stream, path) as archive:
            yield archive
    except MemoryError:
        raise ValueError("it needs more memory than there is") from None
    except (OSError, ValueError):
        raise
    # zipfile, the unpackers and numpy's parser raise more than ten exceptions for damaged bytes, undocumented.
    except Exception as error:
        raise ValueError(f"it is damaged: {error}") from error


def _open_zip(stream: IO[bytes], path: Path) -> zipfile.ZipFile:
    if not zipfile.is_zipfile(stream):
        pointer = is_lfs_pointer(path)
        raise ValueError(
            "it is a Git LFS pointer: git lfs pull fetches the file" if pointer else "it is not in the .npz format"
        )
    stream.seek(0)
    return zipfile.ZipFile(stream)


@lru_cache(maxsize=8)  # a board reads hundreds of members, one after the other, in archives of a megabyte
def _hold_archive(path: Path, version: tuple[int, ...]) -> zipfile.ZipFile:
    """Return an archive, read as a whole. version: of the file, which may be replaced."""
    return _open_zip(BytesIO(read_bytes(path, ARRAYS)), path)


def _members(archive: zipfile.ZipFile, names: tuple[str, ...] | None) -> dict[str, zipfile.ZipInfo]:
    """Return the files of the arrays of these names, or of all."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        _check_compression(member)
        name = member.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"it has the array {name!r} twice")
        members[name] = member
    missing = [name for name in names or () if name not in members]
    if missing:
        raise ValueError(f"it has no array {missing[0]!r}")
    return {name: members[name] for name in (members if names is None else names)}


def _check_compression(member: zipfile.ZipInfo) -> None:
    if member.compress_type not in PIECEWISE:
        raise ValueError(f"{member.filename!r} is compressed in a way that numpy does not write")


def _check_end(name: str, stream: IO[bytes]) -> None:
    if stream.read(1):  # reads to the end, where the checksum is compared
        raise ValueError(f"the array {name!r} is longer than its header says")


def _read_header(name: str, stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return the shape, the order (true: by columns) and the type of an array of ``size`` bytes, header included."""
    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    if version not in _HEADERS:
        raise ValueError(f"the array {name!r} is of version {version} of its format")
    _, width = _HEADERS[version]
    length = stream.read(width)
    if int.from_bytes(length, "little") > _LONGEST_HEADER:
        raise ValueError(f"the header of the array {name!r} is longer than {_LONGEST_HEADER:,} bytes")
    shape, in_columns, dtype = _parse_header(version, length + stream.read(int.from_bytes(length, "little")))
    if dtype.hasobject:
        raise ValueError(f"the array {name!r} holds Python objects, which are not read: they could run code")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise ValueError(f"the array {name!r} is not as long as its header says")
    return shape, in_columns, dtype


@lru_cache(maxsize=64)  # parsing takes longer than reading a small array, and most are alike
def _parse_header(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    parse, _ = _HEADERS[version]
    shape, in_columns, dtype = parse(BytesIO(header))  # type: ignore[no-untyped-call]
    return shape, in_columns, dtype


def _read_array(
    name: str, stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype, order: Literal["C", "F"] = "C"
) -> np.ndarray:
    """Return an array of the next bytes of a stream."""
    content = bytearray(math.prod(shape) * dtype.itemsize)
    view, done = memoryview(content), 0
    while done < len(content) and (part := stream.readinto(view[done : done + (1 << 24)])):  # type: ignore[attr-defined]
        done += part
    if done < len(content):
        raise ValueError(f"the array {name!r} is truncated")
    if not dtype.itemsize:
        return np.zeros(shape, dtype)
    return np.frombuffer(content, dtype).reshape(shape, order=order)


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
