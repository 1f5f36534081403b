"""Claims: files that say who works on something in a folder that machines share.

A claim names its owner, a process, and a thread of that process touches the file from time to time. It is dead when its
owner is known to be, on the same machine, or when nobody has touched it for a while. Nothing waits for a lock of the
file system, which some do not have, and which others keep when a machine is lost.
"""

from __future__ import annotations

import json
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from xmcbench.environment import machine
from xmcbench.errors import StorageError
from xmcbench.processes.heartbeat import Heart, now
from xmcbench.processes.lifetime import new_mark, supervisor_died, supervisor_lives
from xmcbench.processes.temporary_name import unused_name

#: The ending of a claim's file, and what is added to it for that of the process that takes a dead claim over.
CLAIM, _TURN = ".claim", ".turn"

#: Seconds between two touches of a claim, and after how many untouched seconds it is dead.
BEAT_S, DEAD_S = 5.0, 60.0

_heart = Heart(BEAT_S)


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
        if not self.path.exists():
            return self._created(self.path)
        if not dead(self.path, self._while_alive):
            return False  # nothing was written: many may ask, often
        # One at a time takes over from the dead, and looks again before.
        turn = self.path.with_name(f"{self.path.name}{_TURN}")
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
        own = path.with_name(unused_name(path.name))
        said = json.dumps({"owner": self._mark, "host": socket.gethostname(), "pid": os.getpid()}) + "\n"
        try:
            own.write_text(said)
            try:
                os.link(own, path)
            except FileExistsError:
                # NFS asks again where an answer was lost, and then finds the link that the first request made.
                with suppress(FileNotFoundError):  # another one's, which is given back by now
                    return os.path.samefile(own, path)
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
    return now(path.parent) - touched > DEAD_S


def sweep_claims(folder: Path, pattern: str, ours: re.Pattern[str], while_alive: bool = False) -> None:
    """Remove the claims below a folder whose owner is gone, and what was left of taking one over.

    pattern: of the claims' paths without ``CLAIM``, relative to the folder. ours: the same, exactly: others may have
    files with such a suffix too. while_alive: as in ``Claim``.
    """
    for turn in _matching(folder, pattern, f"{CLAIM}{_TURN}", ours):
        if dead(turn):
            with suppress(OSError):
                turn.unlink(missing_ok=True)
    for path in _matching(folder, pattern, CLAIM, ours):
        if dead(path, while_alive):
            with suppress(StorageError), Claim(path, while_alive):
                pass  # it is taken, and given back


def _matching(folder: Path, pattern: str, suffix: str, ours: re.Pattern[str]) -> list[Path]:
    found = sorted(folder.glob(f"{pattern}{suffix}"))
    return [path for path in found if ours.fullmatch(path.relative_to(folder).as_posix().removesuffix(suffix))]


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
