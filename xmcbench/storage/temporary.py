"""Temporary files and folders, which carry their owner in their names: once it is killed, the next process to make one
at the same place removes them.

An owner on another machine, or in another container, cannot be judged from here. A process therefore touches its
folders, and what such an owner made is only removed when it was not touched for a day, by the clock of the file system.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.storage.locks import OWNER, heartbeat, is_owner_running, now, temporary_name

#: Names beside the targets, with the target if any, and names in the system's folder.
_BESIDE = re.compile(rf"\.(?:(?P<target>.*)\.)?{OWNER}\.tmp")
_SCRATCH = re.compile(rf"xmcbench-{OWNER}\.tmp")
#: After how many untouched seconds a file or folder is removed whose owner cannot be judged.
_OLD_S = 86400.0
#: The folders that this process has swept when it made something in them, and for which names.
_swept: set[tuple[Path, re.Pattern[str]]] = set()


def temporary_path(target: Path) -> Path:
    """Return the path of a new file beside ``target``, which the caller makes."""
    _sweep_once(target.parent, _BESIDE)
    return target.with_name(temporary_name(target.name))


def final_name(name: str) -> str | None:
    """Return the later name of a file or folder with a temporary one: empty if none, None if it is not temporary."""
    found = _BESIDE.fullmatch(name)
    return found and (found["target"] or "")


@contextmanager
def folder_in(parent: Path, target: Path | None = None) -> Iterator[Path]:
    """A folder in ``parent`` for a block. target: the path that it will be moved to, if any. Raises StorageError."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(parent, _BESIDE)
        folder = parent / temporary_name(target.name if target else "")
        folder.mkdir()
    except OSError as error:
        raise StorageError.from_os_error(error, target or parent) from error
    heartbeat.start(folder)
    try:
        yield folder
    finally:
        remove_folder(folder)


def make_scratch() -> Path:
    """Make a private folder among the system's temporary files. Raises StorageError."""
    parent = Path(tempfile.gettempdir())
    _sweep_once(parent, _SCRATCH)
    folder = parent / temporary_name(prefix="xmcbench-")
    try:
        folder.mkdir(0o700)
    except OSError as error:
        raise StorageError.from_os_error(error, parent) from error
    heartbeat.start(folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder that this process made here, unless it was moved."""
    heartbeat.stop(folder)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """A private folder among the system's temporary files, for a block. Raises StorageError when it cannot be made."""
    folder = make_scratch()
    try:
        yield folder
    finally:
        remove_folder(folder)


def sweep_scratch() -> None:
    """Remove the scratch folders of this user whose process was killed."""
    _sweep(Path(tempfile.gettempdir()), _SCRATCH)


def sweep(folder: Path, depth: int = 0) -> None:
    """Remove leftovers of killed processes in a folder, and so many levels below it."""
    _sweep(folder, _BESIDE)
    if depth:
        with suppress(OSError):
            for entry in [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
                sweep(Path(entry.path), depth - 1)


def _sweep_once(folder: Path, pattern: re.Pattern[str]) -> None:
    """Sweep a folder before this process makes its first file or folder there."""
    if (folder, pattern) not in _swept:
        _swept.add((folder, pattern))
        _sweep(folder, pattern)


def _sweep(folder: Path, pattern: re.Pattern[str]) -> None:
    try:
        entries = [(entry, name) for entry in os.scandir(folder) if (name := pattern.fullmatch(entry.name))]
    except OSError:
        return
    for entry, name in entries:
        with suppress(OSError):
            state = entry.stat(follow_symlinks=False)
            if state.st_uid != os.getuid() or entry.is_symlink() or (running := is_owner_running(name)):
                continue
            if running is None and now(folder) - state.st_mtime < _OLD_S:
                continue
            if entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
