"""Unpack archives of others: regular files below one folder, and no more than a limit of them."""

from __future__ import annotations

import errno
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Self

from xmcbench.errors import DataError
from xmcbench.storage.naming import check_name
from xmcbench.storage.reading import PIECEWISE, STREAM, Unreadable, check_size

#: Files and folders in an archive, and folders within each other.
FILES, DEPTH = 100_000, 16

_CHUNK = 1 << 20

#: The types of headers that hold text: long names, and attributes.
_TEXTS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)

#: The first bytes of the archives that are known, and those of a tar archive that is not compressed, at 257.
_GZIP, _ZIP, _XZ, _TAR = b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"ustar"

#: Exceptions of the libraries for damaged archives.
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, IndexError, UnicodeDecodeError, struct.error),
)

#: The name of each member of an archive and its content; None for a folder.
_Members = Iterator[tuple[str, IO[bytes] | None]]


def unpack(archive: Path, folder: Path, limit: int | None = None) -> list[Path]:
    """Unpack a .zip, .tar, .tar.gz or .tar.xz, told by its first bytes, into an empty folder; returns the files.

    limit: bytes in all, default those of a large dataset. Raises DataError for anything else, for a damaged archive,
    and for one that holds a path that leads out of the folder, a link, a device, a name twice, or more than is allowed.
    A second name of an earlier file (a hard link) becomes a copy of it.
    """
    with archive.open("rb") as stream:
        head = stream.read(512)
    if not (head.startswith((_GZIP, _ZIP, _XZ)) or head[257:].startswith(_TAR)):
        reason = "it looks like a web page" if head.lstrip()[:1] == b"<" else "expected zip, tar, tar.gz or tar.xz"
        raise DataError(f"{archive} is not an archive: {reason}")
    try:
        members = _zip(archive) if head.startswith(_ZIP) else _tar(archive, folder)
        files = _write(archive, folder, members, STREAM if limit is None else limit)
    except Unreadable as error:
        raise DataError(f"cannot unpack {archive}: {error}") from None
    except (*_DAMAGED, OSError) as error:
        # Damaged streams and places before the beginning are an OSError too. Others are about the disk.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise DataError(f"{archive} is damaged: {error}", "fetch it again") from None
    except (NotImplementedError, RuntimeError) as error:  # zipfile's errors for encrypted members
        raise DataError(f"cannot unpack {archive}: {error}") from None
    if not files:
        raise DataError(f"{archive} is empty")
    return files


def _write(archive: Path, folder: Path, members: _Members, limit: int) -> list[Path]:
    written: list[Path] = []
    names: set[str] = set()
    folders: set[str] = set()
    total = 0
    for number, (name, stream) in enumerate(members, 1):
        if number > FILES:
            raise DataError(f"{archive} has more than {FILES:,} files")
        if stream is None:
            continue
        path = _inside(archive, name)
        key = str(path).casefold()  # two names that are one on other systems
        parents = {str(parent).casefold() for parent in path.parents}
        if key in names or key in folders or parents & names:
            raise DataError(f"{archive} has {name!r} twice")
        names.add(key)
        folders |= parents
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            while piece := stream.read(_CHUNK):
                total += len(piece)
                check_size(total, limit, "what it unpacks to")
                out.write(piece)
        written.append(target)
    return written


def _zip(archive: Path) -> _Members:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            kind = member.external_attr >> 28  # the type of the file, where the archive is from a Unix system
            if member.is_dir():
                yield member.filename, None
                continue
            if member.compress_type not in PIECEWISE:
                raise DataError(f"{archive} holds {member.filename!r} in a rare compression", "use deflate")
            if kind not in (0, 0o10):
                raise DataError(f"{archive} holds {member.filename!r}, which is a link or a device")
            with opened.open(member) as stream:
                yield member.filename, stream


class _Header(tarfile.TarInfo):
    """A header whose texts are not longer than names are: `tarfile` reads them into memory at once."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _TEXTS and header.size > _CHUNK:
            raise tarfile.ReadError("a name in it is too long")
        return header


def _tar(archive: Path, folder: Path) -> _Members:
    """The members of a tar archive. folder: holds the earlier ones when the next is asked for."""
    with tarfile.open(archive, "r|*", tarinfo=_Header) as opened:
        for member in opened:
            if member.islnk():
                # `tar` stores a file with two names once: a runs folder has them, predictions and their artifact.
                earlier = folder / _inside(archive, member.linkname)
                if not earlier.is_file():
                    raise DataError(f"{archive} holds {member.name!r}, which is a link to a file that it lacks")
                with earlier.open("rb") as stream:
                    yield member.name, stream
            elif member.isdir() or member.isreg():
                yield member.name, opened.extractfile(member)
            else:
                raise DataError(f"{archive} holds {member.name!r}, which is a link or a device")
            opened.members.clear()  # type: ignore[attr-defined] # or a stream of a million entries fills the memory


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or ".." in parts or not parts or len(parts) > DEPTH:
        raise DataError(f"{archive} holds {name[:100]!r}, which leads out of its folder")
    try:
        for part in parts:
            check_name("a file", part)
    except ValueError as error:
        raise DataError(f"cannot unpack {archive}: {error}") from None
    return PurePosixPath(*parts)
