"""The process between a supervisor and the process it supervises: it outlives everything below it, and ends it.

    python -m xmcbench.processes.reaper MODULE ARGUMENT...

runs a module in a child, and ends as the child does. The reaper adopts every orphan below it, also one that made a
session for itself, and leaves none: when the child ends, when it is asked to end, and when its own parent is killed.
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

from xmcbench.processes.process_tree import MARK, adopt_orphans, descendants, die_with_parent, kill, supervisor_of

#: Seconds that a process has to end after it was asked to, and processes that it started when it is gone.
GRACE_S, _OTHERS_GRACE_S = 3.0, 0.5
#: Seconds until we stop waiting for processes that the kernel does not let go of.
_PATIENCE_S = 10.0
#: Seconds between two looks at the parent, where the kernel does not say that it died.
_LOOK_S = 0.5


def main() -> None:
    """Run the module that the command line names, and end as it does."""
    keep(supervisor_of(os.environ[MARK]))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def keep(parent: int, line: socket.socket | None = None) -> None:
    """Fork. The child returns; this process becomes its reaper, and never does.

    parent: of this process, which ends with it. line: to the supervisor, where that is another process: it gets the
    status of the child, and ends the child by closing its side. Otherwise SIGTERM asks for that.
    """
    reaper = os.getpid()
    adopt_orphans()
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for sign in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(sign, _note)
    die_with_parent(parent, signal.SIGTERM, watches_itself=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the child must not lose it before it can end by it
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        status = _reap(child, parent, wake, line)
        if line:
            with suppress(OSError):
                line.send(b"%d\n" % status)
        _end_like(status)
    os.setsid()
    signal.set_wakeup_fd(before)
    for sign in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(sign, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.close(wake)
    os.close(woken)
    if line:
        line.close()
    die_with_parent(reaper)


_requests: list[int] = []


def _note(sign: int, _: object) -> None:
    if sign == signal.SIGTERM:
        _requests.append(sign)


def _reap(child: int, parent: int, wake: int, line: socket.socket | None) -> int:
    """Wait until the child has ended, or has to; leave nothing below us. Return the child's status."""
    status, deadline = None, None
    watched: list[int | socket.socket] = [wake, line] if line else [wake]
    while status is None and os.getppid() == parent and (deadline is None or time.monotonic() < deadline):
        if _requests and deadline is None:
            deadline = time.monotonic() + GRACE_S
            with suppress(OSError):
                _terminate(child)
        left = _LOOK_S if deadline is None else max(0.0, deadline - time.monotonic())
        if line in select.select(watched, [], [], left)[0]:  # nothing is ever sent: its other side is closed
            _requests.append(signal.SIGTERM)
            watched = [wake]
        with suppress(BlockingIOError):
            os.read(wake, 1024)
        status, _ = _take_statuses(child)
    if status is not None and os.getppid() == parent:
        _terminate_others(child)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        kill(descendants(os.getpid()))
        found, is_any_left = _take_statuses(child)
        status = found if status is None else status
        if not is_any_left:
            break
        time.sleep(0.002)
    return signal.SIGKILL if status is None else status


def _terminate(child: int) -> None:
    """Ask the child to end, and its session."""
    try:
        os.killpg(child, signal.SIGTERM)
    except ProcessLookupError:  # it has none yet
        os.kill(child, signal.SIGTERM)


def _terminate_others(child: int) -> None:
    """Let processes that the child started end by themselves, such as the one that frees its shared memory."""
    deadline = time.monotonic() + _OTHERS_GRACE_S
    below = descendants(os.getpid())
    for process in below:
        with suppress(OSError):
            os.kill(process, signal.SIGTERM)
    while below and time.monotonic() < deadline:
        time.sleep(0.01)
        _take_statuses(child)
        below = descendants(os.getpid())


def _take_statuses(child: int) -> tuple[int | None, bool]:
    """Take the status of all that has ended. Return that of the child, if it has, and whether anything is left."""
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


def _end_like(status: int) -> None:
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
