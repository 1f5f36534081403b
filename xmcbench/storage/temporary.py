"""Temporary files and folders: held by a lock while their process lives, removed by the next one where it was killed.

The next one is whoever makes a file or folder at the same place.

The lock is the system's, on the file or folder itself, so it goes with the process however that ends. Some file systems
have no locks, or do not show those of other machines. A process therefore touches its folders every few minutes, and
the name says on which machine one was made. What another machine made, or what cannot be locked, is only removed when
nobody has touched it for a day, by the clock of the file system. A file is touched by whoever writes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xmcbench.environment import machine_tag
from xmcbench.errors import StorageError
from xmcbench.processes.heartbeat import Heart, now
from xmcbench.processes.temporary_name import BESIDE, tagged, unused_name
from xmcbench.storage.lock import NO_LOCKS

#: The names of folders in the system's folder.
_PRIVATE = "xmcbench-"
_SCRATCH = re.compile(_PRIVATE + r"(?P<machine>[0-9a-f]{6})-[a-z0-9_]{8}\.tmp")

#: Seconds between two touches of a folder, and after how many untouched seconds one is removed that may be in use.
_BEAT_S, _OLD_S = 300.0, 86400.0

_heart = Heart(_BEAT_S)


class _Folder:
    """A folder that this process has made."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def beat(self) -> None:
        """Touch it."""
        with suppress(OSError):
            os.utime(self.path)


_folders: dict[Path, _Folder] = {}

#: The folders that this process has swept when it made something in them, and for which names.
_swept: set[tuple[Path, re.Pattern[str]]] = set()


def hold_file(target: Path) -> tuple[int, Path]:
    """A new file beside ``target``, open for writing and held until it is closed: its descriptor and its path.

    Its mode follows the umask.
    """
    _sweep_once(target.parent, BESIDE)
    while True:
        path = target.with_name(unused_name(target.name))
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            if _held(descriptor, path):
                return descriptor, path
            os.close(descriptor)


def hold_folder(parent: Path, prefix: str) -> tuple[int, Path]:
    """A new folder in ``parent``, held until the returned descriptor is closed: that and its path.

    prefix: a dot, and before it what the folder will become, if anything; or ``xmcbench-``. The mode of a folder
    follows the umask; that of the latter, which is among the files of others, is private.
    """
    private = prefix == _PRIVATE
    _sweep_once(parent, _SCRATCH if private else BESIDE)
    while True:
        path = parent / tagged(prefix)
        try:
            path.mkdir(0o700 if private else 0o777)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileExistsError:
            continue
        except FileNotFoundError:
            if not parent.is_dir():
                raise
            continue  # another process took it for one that was left behind
        if _held(descriptor, path):
            folder = _folders[path] = _Folder(path)
            _heart.add(folder)
            return descriptor, path
        os.close(descriptor)


def _held(descriptor: int, name: Path) -> bool:
    """Lock a new file or folder; False where a sweep was faster."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # the sweep holds it, and is about to remove it
        return False
    except OSError:  # a file system without locks
        pass
    try:
        return os.fstat(descriptor).st_ino == os.stat(name).st_ino
    except FileNotFoundError:
        return False


@contextmanager
def folder_in(parent: Path) -> Iterator[Path]:
    """A folder in ``parent``, which is made where it is missing, for a block. Raises StorageError."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        held, folder = hold_folder(parent, ".")
    except OSError as error:
        raise StorageError.from_os_error(error, parent) from error
    try:
        yield folder
    finally:
        remove_folder(held, folder)


def scratch_folder() -> tuple[int, Path]:
    """A new folder in the system's folder of temporary files, held: as ``hold_folder``. Raises StorageError."""
    try:
        return hold_folder(Path(tempfile.gettempdir()), _PRIVATE)
    except OSError as error:
        raise StorageError.from_os_error(error, tempfile.gettempdir()) from error


def remove_folder(held: int, folder: Path) -> None:
    """Remove a folder that is held by this descriptor, and close that."""
    if found := _folders.pop(folder, None):
        _heart.discard(found)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(held)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in the system's folder of temporary files, for a block. Raises StorageError when it cannot be made."""
    held, folder = scratch_folder()
    try:
        yield folder
    finally:
        remove_folder(held, folder)


def sweep_scratch() -> None:
    """Remove the scratch folders of this user whose process was killed."""
    _sweep(Path(tempfile.gettempdir()), _SCRATCH)


def sweep(folder: Path, depth: int = 0) -> None:
    """Remove what unfinished writes left in a folder, and so many levels below it, where their process was killed."""
    _sweep(folder, BESIDE)
    if depth:
        with suppress(OSError):
            for entry in [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
                sweep(Path(entry.path), depth - 1)


def _sweep_once(folder: Path, pattern: re.Pattern[str]) -> None:
    """Sweep a folder before this process makes the first file or folder of its own there."""
    if (folder, pattern) not in _swept:
        _swept.add((folder, pattern))
        _sweep(folder, pattern)


def _sweep(folder: Path, pattern: re.Pattern[str]) -> None:
    try:
        entries = [(entry, found) for entry in os.scandir(folder) if (found := pattern.fullmatch(entry.name))]
    except OSError:
        return
    time = now(folder) if entries else 0.0
    for entry, found in entries:
        elsewhere = found["machine"] != machine_tag()
        with suppress(OSError):
            state = entry.stat(follow_symlinks=False)
            if elsewhere and time - state.st_mtime < _OLD_S:
                continue
            if state.st_uid == os.getuid() and not entry.is_symlink():
                _remove_unheld(entry, time - state.st_mtime)


def _remove_unheld(entry: os.DirEntry[str], age_s: float) -> None:
    way = os.O_RDONLY if entry.is_dir() else os.O_RDWR
    descriptor = os.open(entry.path, way | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS or age_s < _OLD_S:
                raise
        if entry.is_dir():
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
    finally:
        os.close(descriptor)
