"""Processes that do not outlive the one that started them, however it ends.

Two things make sure of that on Linux. The kernel signals a process when its parent dies, and hands it the orphans below
it (``die_with_parent``, ``adopt_orphans``). And every supervised process carries a mark in its environment, which says
who supervises it: what is left where even the process in between was killed is found by it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

#: The environment variable that holds the mark.
MARK = "XMCBENCH_SUPERVISED"

#: Seconds that a process has to end after it was asked to.
GRACE_S = 3.0

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def die_with_parent(parent: int, sign: signal.Signals = signal.SIGKILL, *, looks_itself: bool = False) -> None:
    """Have this process signaled when its parent dies, even where it never runs Python code again.

    parent: the process that is the parent unless it is dead already. Elsewhere than on Linux, a thread looks, but not
    where a process that is about to fork ``looks_itself``: a fork takes no thread along, and can lock up beside one.
    """
    if not _prctl(_PR_SET_PDEATHSIG, sign) and not looks_itself:
        threading.Thread(target=_watch, args=(parent, sign), daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), sign)


@contextmanager
def ending_forks() -> Iterator[None]:
    """Let only this process leave the block: a child that the code in it forked, and that gets so far, ends there.

    It would do the work of its parent a second time, and its errors would be taken for those of the parent.
    """
    process, code = os.getpid(), 0
    try:
        yield
    except BaseException as error:
        if os.getpid() == process:
            raise
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            code = error.code or 0
        else:
            traceback.print_exc()
            code = 1
    if os.getpid() != process:
        sys.stdout.flush()
        os._exit(code)


def adopt_orphans() -> bool:
    """Become the parent of every orphan among the processes below this one. Returns whether the system can do it."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def new_mark() -> str:
    """A mark for a process that this one supervises: namespace, number and start of this one, and something unique."""
    return f"{_namespace()}:{os.getpid()}:{_started(os.getpid())}:{os.urandom(8).hex()}"


def supervising(mark: str) -> int:
    """The number of the process that a mark names as the supervisor."""
    return int(mark.split(":")[1])


def supervisor_died(mark: str) -> bool:
    """Whether the process that made a mark is dead; False where that cannot be known from here."""
    return _known(mark) and not _runs(mark)


def supervisor_lives(mark: str) -> bool:
    """Whether the process that made a mark runs; False where that cannot be known from here."""
    return _known(mark) and _runs(mark)


def _known(mark: str) -> bool:
    """Whether a mark is one, of this namespace."""
    return _well_formed(mark.encode(errors="replace")) and mark.split(":", maxsplit=1)[0] == _namespace() != ""


def _runs(mark: str) -> bool:
    _, process, started, _ = mark.split(":")
    return _started(int(process)) == started


class Kept(Protocol):
    """A process that has a keeper, as ``subprocess.Popen`` describes it."""

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def end_kept(process: Kept, mark: str) -> int:
    """Leave nothing: the keeper ends what is below it, and where it was killed itself, the mark tells what that is.

    Returns the return code of the process.
    """
    code = process.poll()
    if code is None:
        process.terminate()
        try:
            code = process.wait(3 * GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code == -signal.SIGKILL:
        end_marked(mark)
    return code


def end_marked(mark: str) -> None:
    """Kill every process that carries the mark."""
    _kill_all(lambda found: found == mark)


def end_orphans() -> None:
    """Kill every supervised process whose supervisor is dead: what a run left behind that was killed with all its own.

    A supervisor in another namespace, such as another container, cannot be judged from here.
    """
    if _namespace():
        _kill_all(supervisor_died)


def descendants(process: int) -> set[int]:
    """Every process below a process, on Linux; nothing elsewhere."""
    below: dict[int, list[int]] = {}
    for number in _numbers():
        # The name of a program may hold anything, and is in parentheses.
        fields = _read(f"/proc/{number}/stat").rpartition(b")")[2].split()
        if len(fields) > 1:
            below.setdefault(int(fields[1]), []).append(number)
    found: set[int] = set()
    waiting = [process]
    while waiting:
        children = [each for each in below.get(waiting.pop(), []) if each not in found]
        found.update(children)
        waiting += children
    return found


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0) == 0)


def _watch(parent: int, sign: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), sign)


def _namespace() -> str:
    """The namespace that numbers of processes belong to; empty elsewhere than on Linux."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process started, in ticks since the machine did; empty where there is none. Numbers are used again."""
    fields = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return fields[19].decode() if len(fields) > 19 else ""


def _kill_all(chosen: Callable[[str], bool]) -> None:
    """Kill the processes with a mark that is chosen, until there is none: one may be starting another.

    Those that carry the mark of this process itself are not its orphans.
    """
    prefix, own = f"{MARK}=".encode(), os.environ.get(MARK)
    for _ in range(100):
        found = [
            number
            for number in _numbers()
            for line in _read(f"/proc/{number}/environ").split(b"\0")
            if line.startswith(prefix)
            and _well_formed(line)
            and (mark := line[len(prefix) :].decode()) != own
            and chosen(mark)
        ]
        for number in found:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


def _well_formed(line: bytes) -> bool:
    parts = line.split(b":")
    return line.isascii() and len(parts) == 4 and parts[1].isdigit()


def _numbers() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit())


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""  # it ended, or is another user's
