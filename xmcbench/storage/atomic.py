"""Atomic writes of files and folders."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xmcbench.errors import StorageError, is_full_disk
from xmcbench.storage.temporary import folder_in, remove_folder, temporary_path

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Stream(io.FileIO):
    """A new file. Raises StorageError, naming the file that it will become, where it cannot be written."""

    def __init__(self, path: Path, final_path: Path) -> None:
        super().__init__(path, "xb")
        self._final_path = final_path

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes, as FileIO does."""
        with writing(self._final_path):
            return super().write(data) or 0


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StorageError that names the file it writes."""
    try:
        yield
    except OSError as error:
        raise StorageError.from_os_error(error, path) from error


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary stream whose content appears at ``path`` if the block succeeds, and is discarded if it fails.

    A symbolic link stays, and its target is replaced. Raises StorageError; other errors in the block pass through.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise StorageError(f"cannot write {path}: it is not a regular file", "choose another name")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(path)
        file = _Stream(temporary, path)
    try:
        with io.BufferedWriter(file) as stream:
            try:
                yield stream
            except OSError as error:
                if error.errno is None and is_full_disk(error):  # of numpy, which writes past the stream
                    raise StorageError.from_os_error(error, path) from error
                raise
            stream.flush()
            with writing(path):
                os.fsync(stream.fileno())
                os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, moved to ``path`` if the block succeeds and removed if it fails. Raises StorageError.

    It replaces a folder that is there, which stays as it is if it cannot be moved.
    """
    with folder_in(path.parent, path) as temporary:
        try:
            yield temporary
        except OSError as error:
            if is_full_disk(error) or str(error.filename).startswith(str(temporary)):
                raise StorageError.from_os_error(error, path) from error
            raise
        with writing(path):
            if not path.is_dir():
                os.replace(temporary, path)
                return
            old = temporary_path(path)
            try:
                os.replace(path, old)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):  # it was not moved, or the new one is in its place
                    os.replace(old, path)
                raise
            remove_folder(old)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, if missing. Raises StorageError."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file (UTF-8) atomically."""
    with atomic_file(path) as stream:
        stream.write(text.encode())


def copy(source: Path, path: Path) -> None:
    """Copy a file, replacing ``path``. Raises StorageError."""
    try:
        if os.path.exists(path) and path.samefile(source):
            return
        read = source.open("rb")
    except OSError as error:
        raise StorageError(f"cannot read {source}: {error.strerror}") from error
    with read, atomic_file(path) as stream:
        try:
            shutil.copyfileobj(read, stream)
        except OSError as error:
            raise StorageError(f"cannot read {source}: {error.strerror}") from error


@contextmanager
def on_disk_of(path: Path, source: Path) -> Iterator[Path]:
    """The source beside ``path``, as a link or, from another disk, a copy; removed after the block. Raises OSError."""
    temporary = temporary_path(path)
    try:
        try:
            os.link(source, temporary)
        except OSError:  # from another disk, another mount of the same one, or on one without links
            with source.open("rb") as read, temporary.open("xb") as stream:
                shutil.copyfileobj(read, stream)
                stream.flush()
                os.fsync(stream.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON with sorted keys, atomically."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")
