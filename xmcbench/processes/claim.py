"""Claims: files that say who works on something in a folder that machines share.

A claim names its owner, a process, and a thread of that process touches the file from time to time. It is dead when its
owner is known to be, on the same machine, or when nobody has touched it for a while. Nothing waits for a lock of the
file system, which some do not have, and which others keep when a machine is lost.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

from xmcbench.environment import machine
from xmcbench.errors import StorageError
from xmcbench.processes.lifetime import new_mark, supervisor_died, supervisor_lives

#: The ending of a claim's file.
CLAIM = ".claim"

#: Seconds between two touches of a claim, and after how many untouched seconds it is dead.
BEAT_S, DEAD_S = 5.0, 60.0


class Claim:
    """The file at ``path``, for a block: ``held`` says whether nobody else has it.

    while_alive: a process of this machine keeps it while it is alive, even if it does not touch the file. That is for
    work that keeps the other threads of its process from running. Raises StorageError when it cannot be written.
    """

    def __init__(self, path: Path, while_alive: bool = False) -> None:
        self.path, self.held, self._while_alive = path, False, while_alive
        self._mark = f"{machine()}:{new_mark()}"

    def __enter__(self) -> Claim:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.held = self._taken()
        except OSError as error:
            raise StorageError.from_os_error(error, self.path) from error
        if self.held:
            _heart.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.held:
            _heart.discard(self)
            if self.mine():
                self.path.unlink(missing_ok=True)
            self.held = False

    def mine(self) -> bool:
        """Whether it is still ours: a process that was stopped for long may have lost it."""
        return _owner(self.path) == self._mark

    def beat(self) -> None:
        """Touch it, if it is ours."""
        with suppress(OSError):
            if self.mine():
                os.utime(self.path)

    def _taken(self) -> bool:
        if self._created(self.path):
            return True
        if not dead(self.path, self._while_alive):
            return False
        # One at a time takes over from the dead, and looks again before.
        turn = self.path.with_name(f"{self.path.name}.turn")
        if not self._created(turn):
            if dead(turn):
                turn.unlink(missing_ok=True)
            return False
        try:
            if dead(self.path, self._while_alive):
                self.path.unlink(missing_ok=True)
            return self._created(self.path)
        finally:
            turn.unlink(missing_ok=True)

    def _created(self, path: Path) -> bool:
        """Create the file with our name in it, in one step; False if there is one."""
        own = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
        said = json.dumps({"owner": self._mark, "host": socket.gethostname(), "pid": os.getpid()}) + "\n"
        try:
            own.write_text(said)
            try:
                os.link(own, path)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links
                return _created_exclusively(path, said)
        finally:
            own.unlink(missing_ok=True)
        return True


def dead(path: Path, while_alive: bool = False) -> bool:
    """Whether the owner of a claim is gone; False where there is no claim. while_alive: as in ``Claim``."""
    owner = _owner(path)
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return False
    where, _, mark = owner.partition(":")
    if where == machine() and mark:
        if supervisor_died(mark):
            return True
        if while_alive and supervisor_lives(mark):
            return False
    return _now(path.parent) - touched > DEAD_S


def holder(path: Path) -> str:
    """Who has a claim, for a message: host and process; empty where nobody has it."""
    try:
        said = json.loads(path.read_bytes())
        return f"process {said['pid']} on {said['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _owner(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # gone, or damaged: its age decides


def _created_exclusively(path: Path, content: str) -> bool:
    try:
        stream = path.open("x")
    except FileExistsError:
        return False
    try:
        with stream:
            stream.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def _now(folder: Path) -> float:
    """The time by the clock of the file system, which may be that of another machine."""
    probe = folder / f".{os.urandom(8).hex()}.now"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink()


class _Heart:
    """The thread that touches all claims of this process."""

    def __init__(self) -> None:
        self._claims: weakref.WeakSet[Claim] = weakref.WeakSet()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, claim: Claim) -> None:
        with self._guard:
            self._claims.add(claim)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()

    def discard(self, claim: Claim) -> None:
        with self._guard:
            self._claims.discard(claim)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            with self._guard:
                claims = list(self._claims)
            for claim in claims:
                claim.beat()


_heart = _Heart()
