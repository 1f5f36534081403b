"""Downloading a file over HTTP: resumed where it broke off, and compared with what is known of it.

A download lives beside its target as ``NAME.part``, with ``NAME.part.json`` about the server's version of the file.
A later call, in this process or another, goes on from there.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmcbench.errors import DataError, StorageError
from xmcbench.output.escaping import visible
from xmcbench.storage.atomic import make_folder, write_json
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.reading import STREAM, Unreadable, check_size, read_text

#: What httpx says of a connection that is lost before the head of an answer; other errors of protocol there are final.
_LOST = "Server disconnected"


@dataclass(frozen=True)
class Patience:
    """How long a server may take. timeout_s: for a connection, and between two pieces. slowest: bytes in that time.

    attempts: in a row that bring nothing. pause_s: between two, doubled each time.
    """

    timeout_s: float = 60.0
    slowest: int = 1024
    attempts: int = 4
    pause_s: float = 1.0


class _Broken(Exception):
    """An attempt that may be made again."""


class _Refused(Exception):
    """An answer that another attempt would not change."""


def download(
    url: str, path: Path, sha256: str | None = None, patience: Patience | None = None, limit: int | None = None
) -> Path:
    """Download ``url`` to ``path``, unless it is there already, and return ``path``.

    sha256: of the file, if it is known. A file with other bytes is removed. limit: bytes, default those of a large
    dataset. Raises DataError, with the reason, for a server that does not answer, refuses, or sends other bytes;
    StorageError for a file that cannot be written.
    """
    patience, limit = patience or Patience(), STREAM if limit is None else limit
    part, about = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")
    make_folder(path.parent)
    if not path.exists():
        _until_complete(url, part, about, patience, limit)
        if sha256 is None or sha256_file(part) == sha256:
            os.replace(part, path)
        else:
            part.unlink()
        about.unlink(missing_ok=True)
    if sha256 is not None and (not path.exists() or sha256_file(path) != sha256):
        path.unlink(missing_ok=True)
        raise DataError(
            f"the file at {url} differs from that of the first fetch", "the file was removed; is the mirror intact?"
        )
    return path


def _until_complete(url: str, part: Path, about: Path, patience: Patience, limit: int) -> None:
    failed, reason = 0, ""
    while failed < patience.attempts:
        before = _size(part)
        try:
            _attempt(url, part, about, patience, limit)
            return
        except _Broken as error:
            reason = str(error)
        except _Refused as error:
            raise DataError(f"cannot download {url}: {error}") from None
        except Unreadable as error:
            part.unlink(missing_ok=True)
            raise DataError(f"cannot download {url}: {error}") from None
        except OSError as error:
            raise StorageError.from_os_error(error, part) from error
        failed = 0 if _size(part) > before else failed + 1
        if failed < patience.attempts:
            time.sleep(patience.pause_s * 2**failed)
    raise DataError(f"cannot download {url}: {reason}", "run it again to resume")


def _attempt(url: str, part: Path, about: Path, patience: Patience, limit: int) -> None:
    """One request. Raises _Broken, _Refused, Unreadable for too many bytes, OSError for the disk."""
    import httpx

    start, version = _size(part), _known(about, url)
    if not version:
        start = 0  # whatever lies there, nothing says that it is the beginning of this file
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    has_head = False
    try:
        with (
            httpx.Client(timeout=patience.timeout_s, follow_redirects=True, max_redirects=5) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            has_head = True
            complete = response.headers.get("Content-Range") == f"bytes */{start}"
            if start and response.status_code == 416 and complete:
                return  # all of it is here: the process ended before the file was renamed
            start, total = _begins(url, response, start)
            check_size(total or 0, limit)
            if not start:
                _note(about, url, response)
            _take(response, part, start, total, patience, limit)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
        raise _Refused(visible(str(error))) from None
    except httpx.HTTPError as error:
        if isinstance(error, httpx.RemoteProtocolError) and not has_head and not str(error).startswith(_LOST):
            raise _Refused(f"the head of the answer is not HTTP: {visible(str(error))}") from None
        raise _Broken(visible(str(error)) or type(error).__name__) from None


def _begins(url: str, response: Any, asked: int) -> tuple[int, int | None]:
    """Where the bytes of a response begin in the file, and the size of the file, if the server says it."""
    if url.startswith("https:") and response.url.scheme != "https":
        raise _Refused("it redirects to an unencrypted connection")
    if response.status_code == 416 and asked:
        raise _Refused("the partial file does not match the file on the server: delete the .part file and try again")
    if response.status_code in (408, 425, 429) or response.status_code >= 500:
        raise _Broken(f"the server answers {response.status_code}")
    if response.status_code not in (200, 206):
        raise _Refused(f"the server answers {response.status_code}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise _Refused("the server sent a content encoding that was not requested")
    length = response.headers.get("Content-Length", "")
    if response.status_code == 200:
        return 0, int(length) if length.isdecimal() else None
    unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
    place, _, total = rest.partition("/")
    first = place.partition("-")[0]
    if unit != "bytes" or first != str(asked) or not asked:
        raise _Refused("the server sent a different part of the file than requested")
    return asked, int(total) if total.isdecimal() else None


def _take(response: Any, part: Path, start: int, total: int | None, patience: Patience, limit: int) -> None:
    """Append the bytes of a response from ``start`` on. Raises _Broken where some are missing or come too slowly."""
    done, since, came = start, time.monotonic(), 0
    with part.open("r+b" if start else "wb") as stream:
        stream.seek(start)
        stream.truncate()
        for piece in response.iter_raw():
            done += len(piece)
            check_size(done, limit)
            if total is not None and done > total:
                raise _Refused(f"the server sends more than the {total:,} bytes that it announced")
            stream.write(piece)
            came += len(piece)
            if time.monotonic() - since > patience.timeout_s:
                if came < patience.slowest:
                    raise _Broken(f"the server sends less than {patience.slowest} bytes in {patience.timeout_s:g} s")
                since, came = time.monotonic(), 0
        stream.flush()
        os.fsync(stream.fileno())
    if total is not None and done != total:
        raise _Broken(f"the connection ended after {done:,} of {total:,} bytes")


def _known(about: Path, url: str) -> str:
    """The server's mark of the version that a part belongs to; empty if there is none."""
    with suppress(OSError, ValueError, RecursionError):
        noted = json.loads(read_text(about))
        if isinstance(noted, dict) and noted.get("url") == url and isinstance(noted.get("version"), str):
            return str(noted["version"])
    return ""


def _note(about: Path, url: str, response: Any) -> None:
    mark = response.headers.get("ETag", "")
    if mark.startswith("W/"):
        mark = ""  # a weak one does not promise equal bytes
    write_json(about, {"url": url, "version": mark or response.headers.get("Last-Modified", "")})


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
