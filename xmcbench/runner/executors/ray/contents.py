"""Files by content: what is in one place is read there, and copied in chunks to where it is not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from xmcbench.errors import StorageError
from xmcbench.storage.atomic import atomic_file, atomic_folder
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.reading import open_regular

#: Bytes of a file that travel at once: what a cluster holds of a file that is on its way, however large that is.
CHUNK = 1 << 24

#: Contents of files that this process has read, by path, size, time of change and inode.
_known: dict[tuple[Path, int, int, int], Content] = {}


class Lost(StorageError):
    """Something that did not arrive as it was sent, or from a machine that is gone. The task is sent again."""


class Content(Struct, frozen=True):
    """The size of a file in bytes, and the SHA-256 (hex) of them."""

    size: int
    sha256: str

    @property
    def chunks(self) -> int:
        """How many chunks it has; an empty file has one."""
        return max(1, -(-self.size // CHUNK))


#: A folder: the content of each file by its relative path.
Folder = Mapping[str, Content]


def content_of(path: Path) -> Content:
    """The content of a file. Raises OSError."""
    state = path.stat()
    key = (path, state.st_size, state.st_mtime_ns, state.st_ino)
    if key not in _known:
        _known[key] = Content(state.st_size, sha256_file(path))
    return _known[key]


def folder_of(path: Path) -> dict[str, Content]:
    """The content of every file below a folder. Raises OSError."""
    files = [each for each in sorted(path.rglob("*")) if not each.is_dir()]
    return {each.relative_to(path).as_posix(): content_of(each) for each in files}


def has(path: Path, content: Content) -> bool:
    """Whether there is a file with this content."""
    try:
        return path.stat().st_size == content.size and content_of(path) == content
    except OSError:
        return False


def chunk_of(path: Path, number: int) -> bytes:
    """A chunk of a file. Raises StorageError where it cannot be read."""
    try:
        with open_regular(path) as stream:
            stream.seek(number * CHUNK)
            return stream.read(CHUNK)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def receive(path: Path, content: Content, chunk: Callable[[int], bytes]) -> None:
    """Write a file of this content, chunk by chunk. Raises StorageError where it cannot be written, or is another."""
    digest = hashlib.sha256()
    with atomic_file(path) as stream:
        for number in range(content.chunks):
            data = chunk(number)
            digest.update(data)
            stream.write(data)
        if digest.hexdigest() != content.sha256:
            raise StorageError(f"{path}: checksum mismatch on the way between machines", "run the cell again")


def receive_folder(path: Path, folder: Folder, chunk: Callable[[str, int], bytes]) -> None:
    """Make a folder of these files, whole or not at all. Raises StorageError."""
    for name in folder:
        if not is_below(name):
            raise StorageError(f"{name!r} is not the name of a file in a folder")
    with atomic_folder(path) as temporary:
        for name, content in folder.items():
            receive(temporary / name, content, lambda number, name=name: chunk(name, number))  # type: ignore[misc]


def is_below(name: str) -> bool:
    """Whether a relative path stays below the folder that it is relative to."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts
