"""Runs folders that somebody sends: a folder, an archive of one, or the address of an archive."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from xmcbench.errors import StorageError, UsageError
from xmcbench.storage.reading import ARRAYS, Unreadable, check_size, open_regular
from xmcbench.storage.temporary import scratch

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
_URLS = ("https://", "http://")
#: Seconds without an answer before a download is given up, bytes read at a time, files in an archive.
_TIMEOUT_S, _BLOCK, _MOST_FILES = 60.0, 1 << 20, 100_000


@contextmanager
def runs_folders(sources: Sequence[str]) -> Iterator[list[Path]]:
    """The runs folders of sources, for a block: folders in place, archives and downloads in a scratch folder.

    An archive is .tar, .tar.gz, .tgz or .zip; it holds a runs folder, or one folder that is one. Only regular files and
    folders below it are unpacked, at most 2 GiB, which ``--max-unpacked`` raises. Raises UsageError for a source that
    is none of these or holds no records, StorageError for a download or an archive that cannot be read.
    """
    with scratch() as temporary:
        yield [_folder(source, temporary / str(number)) for number, source in enumerate(sources)]


def _folder(source: str, place: Path) -> Path:
    if source.startswith(_URLS):
        place.mkdir()
        path = place / (PurePosixPath(source.partition("?")[0]).name or "archive")
        if not path.name.endswith(_ARCHIVES):
            raise UsageError(f"{source} is not the address of an archive", f"it ends in {', '.join(_ARCHIVES)}")
        _download(source, path)
        return _runs(_unpacked(path, place / "unpacked"), source)
    path = Path(source)
    if path.is_dir():
        return _runs(path, source)
    if path.name.endswith(_ARCHIVES) and path.is_file():
        place.mkdir()
        return _runs(_unpacked(path, place / "unpacked"), source)
    return _runs(path, source)


def _runs(folder: Path, source: str) -> Path:
    """The folder, or the only one in it, that holds records. Raises UsageError."""
    inside = [each for each in sorted(folder.iterdir()) if each.is_dir()] if folder.is_dir() else []
    for each in (folder, *(inside if len(inside) == 1 else [])):
        if (each / "records").is_dir() and any((each / "records").rglob("*.json")):
            return each
    raise UsageError(f"there are no records in {source}", "a runs folder is what `xmcbench run --runs` wrote")


def _download(url: str, path: Path) -> None:
    import httpx

    taken = 0
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_S) as answer, path.open("wb") as stream:
            answer.raise_for_status()
            for block in answer.iter_bytes(_BLOCK):
                taken += len(block)
                check_size(taken, ARRAYS, url)
                stream.write(block)
    except httpx.HTTPError as error:
        raise StorageError(f"cannot fetch {url}: {error or type(error).__name__}", "check the address") from error
    except Unreadable as error:
        raise StorageError(str(error)) from error


def _unpacked(path: Path, folder: Path) -> Path:
    folder.mkdir()
    try:
        with open_regular(path) as stream:
            if path.suffix == ".zip":
                with zipfile.ZipFile(stream) as archive:
                    _unzip(archive, folder, path)
            else:
                with tarfile.open(fileobj=stream) as archive:
                    _untar(archive, folder, path)
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise StorageError(f"cannot unpack {path}: {error}", "send it again") from error
    except Unreadable as error:
        raise StorageError(str(error)) from error
    return folder


def _untar(archive: tarfile.TarFile, folder: Path, path: Path) -> None:
    size = 0
    for number, member in enumerate(archive):
        if not (member.isreg() or member.isdir()):
            raise StorageError(f"{path} holds {member.name}, which is no regular file", "send files and folders only")
        size += member.size
        _check(number, size, path)
        archive.extract(member, folder, filter="data")  # refuses what would leave the folder


def _unzip(archive: zipfile.ZipFile, folder: Path, path: Path) -> None:
    size = 0
    for number, member in enumerate(archive.infolist()):
        target = (folder / member.filename).resolve()
        if not target.is_relative_to(folder.resolve()):
            raise StorageError(f"{path} holds {member.filename}, which leads out of it", "send files and folders only")
        if member.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("wb") as stream:
            while block := source.read(_BLOCK):  # what the archive says of its size may be wrong
                size += len(block)
                _check(number, size, path)
                stream.write(block)


def _check(number: int, size: int, path: Path) -> None:
    if number >= _MOST_FILES:
        raise StorageError(f"{path} holds more than {_MOST_FILES:,} files", "send a runs folder only")
    check_size(size, ARRAYS, f"{path} unpacked")
