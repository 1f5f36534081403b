"""Processes that do not outlive the one that started them, however it ends.

On Linux, the kernel signals a process when its parent dies, and hands it the orphans below it (``die_with_parent``,
``adopt_orphans``). And every supervised process carries a mark of its supervisor in its environment: by it, processes
are found that are left where even the process in between was killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The environment variable that holds the mark.
MARK = "XMCBENCH_SUPERVISED"

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def die_with_parent(parent: int, sign: signal.Signals = signal.SIGKILL, *, watches_itself: bool = False) -> None:
    """Have this process signaled when its parent dies, even where it never runs Python code again.

    parent: the process that is the parent unless it is dead already. Elsewhere than on Linux, a thread watches, unless
    the process ``watches_itself`` because it is about to fork: a fork beside a thread can lock up.
    """
    if not _prctl(_PR_SET_PDEATHSIG, sign) and not watches_itself:
        threading.Thread(target=_watch, args=(parent, sign), daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), sign)


@contextmanager
def ending_forks() -> Iterator[None]:
    """Let only this process leave the block: a child that its code forked, and that gets to its end, ends there.

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


def adopt_orphans() -> None:
    """Become the parent of every orphan among the processes below this one, where the system can do that."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def new_mark() -> str:
    """Make a mark of this process: its namespace, number and start, and something unique."""
    return f"{_namespace()}:{os.getpid()}:{_start_of(os.getpid())}:{os.urandom(8).hex()}"


def supervisor_of(mark: str) -> int:
    """Return the number of the process that made a mark."""
    return int(mark.split(":")[1])


def is_running(mark: str) -> bool | None:
    """Return whether the process that made a mark is running; None where that cannot be known from here."""
    if not _is_mark(mark) or mark.split(":", maxsplit=1)[0] != _namespace() or not _namespace():
        return None
    _, process, started, _ = mark.split(":")
    return _start_of(int(process)) == started


def kill(processes: Iterable[int]) -> None:
    """Kill processes that may be gone."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def kill_marked(mark: str) -> None:
    """Kill every process that carries the mark."""
    _kill_all(lambda found: found == mark)


def kill_orphans() -> None:
    """Kill every process whose supervisor was killed. Those in another container cannot be judged from here."""
    _kill_all(lambda mark: is_running(mark) is False)


def descendants(process: int) -> set[int]:
    """Return every process below a process, on Linux; nothing elsewhere."""
    # Not psutil, which takes 20 ms to import into each process that is started.
    below: dict[int, list[int]] = {}
    for number in _processes():
        if fields := _status(number):
            below.setdefault(int(fields[1]), []).append(number)
    found: set[int] = set()
    waiting = [process]
    while waiting:
        children = [child for child in below.get(waiting.pop(), []) if child not in found]
        found.update(children)
        waiting += children
    return found


def _prctl(option: int, value: int) -> bool:
    return sys.platform == "linux" and bool(ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0) == 0)


def _watch(parent: int, sign: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), sign)


def _kill_all(is_chosen: Callable[[str], bool]) -> None:
    """Kill the processes with a mark that is chosen, until there is none: one may be starting another.

    The mark of this process itself, which those that it starts inherit, is never chosen.
    """
    prefix, own = f"{MARK}=".encode(), os.environ.get(MARK)
    for _ in range(100):
        found = [
            number
            for number in _processes()
            for variable in _read(f"/proc/{number}/environ").split(b"\0")
            if variable.startswith(prefix)
            and _is_mark(mark := variable[len(prefix) :].decode(errors="replace"))
            and mark != own
            and is_chosen(mark)
        ]
        if not found:
            return
        kill(found)
        time.sleep(0.01)


def _is_mark(text: str) -> bool:
    parts = text.split(":")
    return text.isascii() and len(parts) == 4 and parts[1].isdigit()


def _namespace() -> str:
    """Return the namespace that numbers of processes belong to; empty elsewhere than on Linux."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def _start_of(process: int) -> str:
    """Return the start of a process, in ticks since that of the machine; empty if it has ended. Numbers are reused."""
    fields = _status(process)
    return fields[19].decode() if len(fields) > 19 and fields[0] not in b"ZX" else ""


def _status(process: int) -> list[bytes]:
    """Return the state of a process, its parent and so on; empty if it is gone."""
    # The name of the program before it may hold anything, and is in parentheses.
    return _read(f"/proc/{process}/stat").rpartition(b")")[2].split()


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""  # it ended, or is another user's
