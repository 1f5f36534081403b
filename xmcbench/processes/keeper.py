"""The process between a supervisor and the process it supervises: it outlives everything below it, and ends it.

    python -m xmcbench.processes.keeper MODULE ARGUMENT...

runs a module in a child, and ends as the child does. The keeper adopts every orphan below it, also one that made a
session of its own, and leaves none: when the child ends, when it is asked to end, and when its own parent is killed.
The child is a fork, so that a process is not started twice.
"""

from __future__ import annotations

import os
import resource
import runpy
import select
import signal
import socket
import sys
import time
from contextlib import suppress

from xmcbench.processes.lifetime import GRACE_S, MARK, adopt_orphans, descendants, die_with_parent, supervising

#: Seconds that others below us have to end when the child is gone.
_OTHERS_GRACE_S = 0.5
#: Seconds until we stop waiting for what the kernel does not let go of.
_PATIENCE_S = 10.0
#: Seconds between two looks at the parent, where the kernel does not say that it died.
_LOOK_S = 0.5


def main() -> None:
    """Run the module that the command line names, and end as it does."""
    keep(supervising(os.environ[MARK]))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def keep(parent: int, line: socket.socket | None = None) -> None:
    """Fork. The child returns; this process becomes its keeper, and never does.

    parent: the number of the process that this one is a child of, which ends with it. line: to the supervisor, where
    that is another process: the status of the child is written to it, and when its other side is closed, the child is
    ended. Otherwise SIGTERM is the way to ask for that.
    """
    keeper = os.getpid()
    adopt_orphans()
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for sign in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(sign, _noted)
    die_with_parent(parent, signal.SIGTERM, looks_itself=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the child must not lose it before it can end by it
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        status = _kept(child, parent, wake, line)
        if line:
            with suppress(OSError):
                line.send(b"%d\n" % status)
        _mirror(status)
    os.setsid()
    signal.set_wakeup_fd(before)
    for sign in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(sign, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.close(wake)
    os.close(woken)
    if line:
        line.close()
    die_with_parent(keeper)


_asked: list[int] = []


def _noted(sign: int, _: object) -> None:
    if sign == signal.SIGTERM:
        _asked.append(sign)


def _kept(child: int, parent: int, wake: int, line: socket.socket | None) -> int:
    """Wait until the child has ended, or has to; leave nothing below us. Returns the child's status."""
    status, deadline = None, None
    watched: list[int | socket.socket] = [wake, line] if line else [wake]
    while status is None and os.getppid() == parent and (deadline is None or time.monotonic() < deadline):
        if _asked and deadline is None:
            deadline = time.monotonic() + GRACE_S
            with suppress(OSError):
                _ask(child)
        left = _LOOK_S if deadline is None else max(0.0, deadline - time.monotonic())
        if line in select.select(watched, [], [], left)[0]:  # nothing is ever sent: its other side is closed
            _asked.append(signal.SIGTERM)
            watched = [wake]
        with suppress(BlockingIOError):
            os.read(wake, 1024)
        status, _ = _reaped(child)
    if status is not None and os.getppid() == parent:
        _ask_others(child)
    return _ended(child, status)


def _ask(child: int) -> None:
    """Ask the child to end, and what is in its session."""
    try:
        os.killpg(child, signal.SIGTERM)
    except ProcessLookupError:  # it has none yet
        os.kill(child, signal.SIGTERM)


def _ask_others(child: int) -> None:
    """Let what the child started end by itself, such as the process that frees its shared memory."""
    deadline = time.monotonic() + _OTHERS_GRACE_S
    below = descendants(os.getpid())
    for process in below:
        with suppress(OSError):
            os.kill(process, signal.SIGTERM)
    while below and time.monotonic() < deadline:
        time.sleep(0.01)
        _reaped(child)
        below = descendants(os.getpid())


def _ended(child: int, status: int | None) -> int:
    """Kill everything below us until there is nothing. Returns the child's status, SIGKILL where it is not known."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for process in descendants(os.getpid()):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        found, left = _reaped(child)
        status = found if status is None else status
        if not left:
            break
        time.sleep(0.002)
    return signal.SIGKILL if status is None else status


def _reaped(child: int) -> tuple[int | None, bool]:
    """Take the status of all that has ended: that of the child if it was among them, and whether anything is left."""
    found = None
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, False
        if process == 0:
            return found, True
        if process == child:
            found = status


def _mirror(status: int) -> None:
    """End as a process of this status did."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child's core, if any, is the one to look at
        sign = os.WTERMSIG(status)
        if sign != signal.SIGKILL:
            signal.signal(sign, signal.SIG_DFL)
        os.kill(os.getpid(), sign)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
