"""Locks: claims, which machines share, and locks of this machine, which the system releases when their process ends.

A claim is a file that names its owner, a process, which touches the file from time to time. It is dead when its owner
is known to be, on this machine, or when nobody has touched it for a while. It needs no lock of the file system, which
some do not have, and which others keep when a machine is lost. The names of temporary files name their owner too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from xmcbench.environment import machine, machine_tag
from xmcbench.errors import StorageError
from xmcbench.processes.process_tree import is_running, new_mark

#: The ending of a claim's file, and the ending added for the process that takes a dead claim over.
CLAIM, _TURN = ".claim", ".turn"
#: Seconds between two touches of a claim, and after how many untouched seconds it is dead.
BEAT_S, DEAD_S = 5.0, 60.0
#: The owner of a temporary file in its name: the tag of the machine, and the mark of the process.
OWNER = r"(?P<machine>[0-9a-f]{6})-(?P<mark>[0-9]*-[0-9]+-[0-9]*-[0-9a-f]+)"
#: Errors of a file system without locks, where everybody gets every lock: work may be done twice, but stays whole.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF)
#: Errors of a file that may only be read.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Claim:
    """The file at ``path``, for a block: ``held`` is true unless another process has it.

    while_alive: a process of this machine keeps it while it is alive, even if it does not touch the file. That is for
    work that keeps the other threads of its process from running. Raises StorageError when it cannot be written.
    """

    def __init__(self, path: Path, while_alive: bool = False) -> None:
        self.path, self.held, self._while_alive = path, False, while_alive
        self._owner = f"{machine()}:{new_mark()}"

    def __enter__(self) -> Claim:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.held = self._take()
        except OSError as error:
            raise StorageError.from_os_error(error, self.path) from error
        if self.held:
            heartbeat.start(self.path, self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.held:
            heartbeat.stop(self.path)
            if self.is_ours():
                self.path.unlink(missing_ok=True)
            self.held = False

    def is_ours(self) -> bool:
        """Return whether it is still ours: a process that was stopped for long may have lost it."""
        return _owner(self.path) == self._owner

    def _take(self) -> bool:
        if not self.path.exists():
            return self._create(self.path)
        if not is_dead(self.path, self._while_alive):
            return False  # nothing was written: many may ask, often
        # One process at a time takes over from the dead, and looks again first.
        turn = self.path.with_name(f"{self.path.name}{_TURN}")
        if not self._create(turn):
            if is_dead(turn):
                turn.unlink(missing_ok=True)
            return False
        try:
            if is_dead(self.path, self._while_alive):
                self.path.unlink(missing_ok=True)
            return self._create(self.path)
        finally:
            turn.unlink(missing_ok=True)

    def _create(self, path: Path) -> bool:
        """Create the file with our name in it; False if there is one."""
        try:
            stream = path.open("x")
        except FileExistsError:
            return False
        try:
            with stream:
                json.dump({"owner": self._owner, "host": socket.gethostname(), "pid": os.getpid()}, stream)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return True


def is_dead(path: Path, while_alive: bool = False) -> bool:
    """Return whether the owner of a claim is gone; False where there is no claim. while_alive: as in ``Claim``."""
    where, _, mark = _owner(path).partition(":")
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return False
    running = is_running(mark) if where == machine() else None
    if running is False or (running and while_alive):
        return not running
    return now(path.parent) - touched > DEAD_S


def sweep_claims(folder: Path, pattern: str, ours: re.Pattern[str], while_alive: bool = False) -> None:
    """Remove the claims below a folder whose owner is gone, and leftovers of taking one over.

    pattern: of the claims' paths without ``CLAIM``, relative to the folder. ours: the same, exactly, as other programs
    may have such files too.
    """
    for suffix in (f"{CLAIM}{_TURN}", CLAIM):
        for path in sorted(folder.glob(f"{pattern}{suffix}")):
            if not ours.fullmatch(path.relative_to(folder).as_posix().removesuffix(suffix)):
                continue
            with suppress(OSError, StorageError):
                if suffix != CLAIM and is_dead(path):
                    path.unlink(missing_ok=True)
                elif suffix == CLAIM and is_dead(path, while_alive):
                    with Claim(path, while_alive):
                        pass  # it is taken, and given back


def _owner(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # gone, or damaged: its age decides


class Heartbeat:
    """A thread that touches, every few seconds, the claims and the temporary folders of this process."""

    def __init__(self, interval_s: float = BEAT_S) -> None:
        self._interval_s, self._thread = interval_s, threading.Thread()
        self._held: dict[Path, Claim | None] = {}

    def start(self, path: Path, claim: Claim | None = None) -> None:
        """Touch a folder, or the file of a claim while it is ours, from now on."""
        self._held[path] = claim
        if not self._thread.is_alive():  # also in a fork
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()

    def stop(self, path: Path) -> None:
        """Touch it no longer."""
        self._held.pop(path, None)

    def _beat(self) -> None:
        while True:
            time.sleep(self._interval_s)
            for path, claim in list(self._held.items()):
                with suppress(OSError):
                    if claim is None or claim.is_ours():
                        os.utime(path)


heartbeat = Heartbeat()


def now(folder: Path) -> float:
    """Return the time by the clock of a folder's file system, or of this machine where no file can be made there."""
    probe = folder / temporary_name()  # swept if we are killed
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return time.time()
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        with suppress(OSError):
            probe.unlink()


def temporary_name(target: str = "", prefix: str = ".") -> str:
    """Return a name that no other file has, with its owner, for a file or folder that may become ``target``."""
    return f"{prefix}{target}{'.' if target else ''}{machine_tag()}-{new_mark().replace(':', '-')}.tmp"


def is_owner_running(name: re.Match[str]) -> bool | None:
    """Return whether the owner that a name matched ``OWNER`` with is running; None where that is not known here."""
    return is_running(name["mark"].replace("-", ":")) if name["machine"] == machine_tag() else None


class exclusive:  # noqa: N801 - reads as a statement: `with exclusive(path):`
    """Hold the lock file at ``path`` for a block; with ``wait=False``, ``held`` says whether it was free."""

    def __init__(self, path: Path, wait: bool = True) -> None:
        self._path, self._wait, self.held = path, wait, False

    def __enter__(self) -> exclusive:
        with suppress(BlockingIOError):
            self._stream = _lock(self._path, fcntl.LOCK_EX if self._wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held = True
        return self

    def __exit__(self, *_: object) -> None:
        if self.held:
            self._stream.close()

    def remove(self) -> None:
        """Remove the lock file, where the lock is held: whoever waits for it takes another one."""
        if self.held:
            self._path.unlink(missing_ok=True)


def hold_shared(path: Path) -> IO[str]:
    """Hold a shared lock on the file at ``path`` until the returned stream is closed. Raises StorageError."""
    return _lock(path, fcntl.LOCK_SH)


def _lock(path: Path, mode: int) -> IO[str]:
    """Return the locked file. Raises BlockingIOError if it is not free and the mode says not to wait."""
    while True:
        stream = _open(path, mode)
        try:
            try:
                fcntl.flock(stream, mode)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            # The previous holder may have removed the file: a lock on a removed file excludes nobody.
            with suppress(FileNotFoundError):
                if os.fstat(stream.fileno()).st_ino == path.stat().st_ino:
                    return stream
        except BaseException:  # Ctrl-C too
            stream.close()
            raise
        stream.close()


def _open(path: Path, mode: int) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")  # NFS gives a shared lock to who can read only, an exclusive one to who can write
    except OSError as error:
        if mode & fcntl.LOCK_SH and error.errno in _READ_ONLY and path.is_file():
            return path.open()  # a store of somebody else, or on a file system that cannot be written
        raise StorageError.from_os_error(error, path) from error
