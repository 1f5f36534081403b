"""Archives of others: downloaded over HTTP, resumed where an earlier attempt broke off, and unpacked within limits.

The bytes are kept beside the target as ``NAME.part``, with the server's version of the file in ``NAME.part.json``: a
later call, in this process or another, resumes from there.
"""

from __future__ import annotations

import errno
import lzma
import os
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

import msgspec

from xmcbench.errors import DataError, StorageError
from xmcbench.output.escaping import visible
from xmcbench.storage.atomic import make_folder, write_json
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.locations import check_name
from xmcbench.storage.reading import PIECEWISE, STREAM, Unreadable, check_size, read_bytes

#: httpx's message for a connection that is lost before the head of an answer; other errors of protocol there are final.
_LOST = "Server disconnected"


#: Files and folders in an archive, and folders within each other.
FILES, DEPTH = 100_000, 16

#: Seconds to wait for bytes; attempts in a row that bring none; seconds before the second one, doubled each time.
_TIMEOUT_S, _ATTEMPTS, _PAUSE_S = 60.0, 4, 1.0
_CHUNK = 1 << 20
#: The types of headers that hold text: long names, and attributes.
_TEXTS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
#: The first bytes of the archives that are known, and those of a tar archive that is not compressed, at 257.
_GZIP, _ZIP, _XZ, _TAR = b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"ustar"
#: Exceptions of the libraries for damaged archives.
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, IndexError, UnicodeDecodeError, struct.error),
)
#: The name of each member of an archive and its content; None for a folder.
_Members = Iterator[tuple[str, IO[bytes] | None]]


class _Retry(Exception):
    """An attempt that may be made again. Answers that another attempt would not change are a DataError."""


def download(url: str, path: Path, sha256: str | None = None, limit: int | None = None) -> Path:
    """Download ``url`` to ``path``, unless it is there already, and return ``path``.

    sha256: of the file, if it is known. A file with other bytes is removed. limit: bytes, default those of a large
    dataset. Raises DataError, with the reason, for a server that does not answer, refuses, or sends other bytes.
    """
    make_folder(path.parent)
    if not path.exists():
        file = _Download(url, path, STREAM if limit is None else limit)
        file.complete()
        os.replace(file.part, path)
        file.note.unlink(missing_ok=True)
    if sha256 is not None and sha256_file(path) != sha256:
        path.unlink()
        hint = "the file was removed; is the mirror intact?"
        raise DataError(f"the file at {url} differs from that of the first fetch", hint)
    return path


class _Download:
    """A file on its way. part: the bytes that have come. note: about the version of the server that they belong to."""

    def __init__(self, url: str, path: Path, limit: int) -> None:
        self._url, self._limit = url, limit
        self.part, self.note = (path.with_name(f"{path.name}.part{suffix}") for suffix in ("", ".json"))

    def complete(self) -> None:
        """Download the rest. Raises DataError and StorageError."""
        failures, reason = 0, ""
        while failures < _ATTEMPTS:
            before = self._size()
            try:
                self._attempt()
                return
            except _Retry as error:
                reason = str(error)
            except Unreadable as error:  # too many bytes
                self.part.unlink(missing_ok=True)
                raise self._error(str(error)) from None
            except OSError as error:
                raise StorageError.from_os_error(error, self.part) from error
            failures = 0 if self._size() > before else failures + 1
            if failures < _ATTEMPTS:
                time.sleep(_PAUSE_S * 2**failures)
        raise self._error(reason, "run it again to resume")

    def _error(self, reason: str, hint: str = "") -> DataError:
        return DataError(f"cannot download {self._url}: {reason}", hint)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _attempt(self) -> None:
        """Make one request. Raises _Retry, DataError, Unreadable for too many bytes, OSError for the disk."""
        import httpx

        version = ""  # the server's mark of the version that the part belongs to
        with suppress(OSError, ValueError, KeyError, msgspec.MsgspecError, RecursionError):
            noted = msgspec.json.decode(read_bytes(self.note), type=dict[str, str])
            version = noted["version"] if noted["url"] == self._url else ""
        start = self._size() if version else 0  # nothing else says that a part is the beginning of this file
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Range": version}
        has_head = False
        try:
            with (
                httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True, max_redirects=5) as client,
                client.stream("GET", self._url, headers=headers) as response,
            ):
                has_head = True
                if start and response.status_code == 416:
                    if response.headers.get("Content-Range") == f"bytes */{start}":
                        return  # all of it is here: the process ended before the file was renamed
                    raise self._error("the partial file does not match the file on the server: delete the .part file")
                self._take(response, start)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise self._error(visible(str(error))) from None
        except httpx.HTTPError as error:
            if isinstance(error, httpx.RemoteProtocolError) and not has_head and not str(error).startswith(_LOST):
                raise self._error(f"the head of the answer is not HTTP: {visible(str(error))}") from None
            raise _Retry(visible(str(error)) or type(error).__name__) from None

    def _take(self, response: Any, start: int) -> None:
        """Append the bytes of a response, or begin anew. Raises _Retry where some are missing."""
        total = self._check(response, start)
        check_size(total or 0, self._limit)
        if response.status_code == 200:
            start = 0
            mark = response.headers.get("ETag", "")
            if mark.startswith("W/"):
                mark = ""  # a weak one does not promise equal bytes
            self.part.unlink(missing_ok=True)  # the note below is not about these bytes
            write_json(self.note, {"url": self._url, "version": mark or response.headers.get("Last-Modified", "")})
        size = start
        with self.part.open("r+b" if start else "wb") as stream:
            stream.seek(start)
            stream.truncate()
            for piece in response.iter_raw():
                size += len(piece)
                check_size(size, self._limit)
                if total is not None and size > total:
                    raise self._error(f"the server sends more than the {total:,} bytes that it announced")
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
        if total is not None and size != total:
            raise _Retry(f"the connection ended after {size:,} of {total:,} bytes")

    def _check(self, response: Any, start: int) -> int | None:
        """Check the head of a response; returns the size of the file, if the server says it."""
        status, headers = response.status_code, response.headers
        if self._url.startswith("https:") and response.url.scheme != "https":
            raise self._error("it redirects to an unencrypted connection")
        if status in (408, 425, 429) or status >= 500:
            raise _Retry(f"the server answers {status}")
        if status not in (200, 206):
            raise self._error(f"the server answers {status}")
        if headers.get("Content-Encoding", "identity") != "identity":
            raise self._error("the server sent a content encoding that was not requested")
        content_range = headers.get("Content-Range", "")
        if status == 206 and not (start and content_range.startswith(f"bytes {start}-")):
            raise self._error("the server sent a different part of the file than requested")
        total = headers.get("Content-Length", "") if status == 200 else content_range.rpartition("/")[2]
        return int(total) if total.isdecimal() else None


def unpack(archive: Path, folder: Path, limit: int | None = None) -> list[Path]:
    """Unpack a .zip, .tar, .tar.gz or .tar.xz, told by its first bytes, into an empty folder; returns the files.

    limit: bytes in all, default those of a large dataset. Raises DataError for a damaged archive, and for one that
    holds a path that leads out of the folder, a link, a device, a name twice, or more than is allowed. A second name of
    an earlier file (a hard link) becomes a copy of it.
    """
    with archive.open("rb") as stream:
        head = stream.read(512)
    if not (head.startswith((_GZIP, _ZIP, _XZ)) or head[257:].startswith(_TAR)):
        reason = "it looks like a web page" if head.lstrip()[:1] == b"<" else "expected zip, tar, tar.gz or tar.xz"
        raise DataError(f"{archive} is not an archive: {reason}")
    try:
        members = _zip(archive) if head.startswith(_ZIP) else _tar(archive, folder)
        files = _write(archive, folder, members, STREAM if limit is None else limit)
    except (Unreadable, NotImplementedError, RuntimeError) as error:  # the latter are zipfile's for encrypted members
        raise DataError(f"cannot unpack {archive}: {error}") from None
    except (*_DAMAGED, OSError) as error:
        # Damaged streams and places before the beginning are an OSError too. Others are about the disk.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise DataError(f"{archive} is damaged: {error}", "fetch it again") from None
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
