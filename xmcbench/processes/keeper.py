"""The process between a supervisor and the process it supervises: it outlives everything below it, and ends it.

    python -m xmcbench.processes.keeper MODULE ARGUMENT...

runs a module in a child, and ends as the child does.

    python -m xmcbench.processes.keeper --wait IMPORT,...

imports some modules in the child, which then waits for a line of JSON on its standard input: ``argv`` (the module and
its arguments), ``log`` (a file for its output), ``environment``. Without one it ends.

The keeper adopts every orphan below it, also one that made a session of
its own, and leaves none: when the child ends, when it is asked to end (SIGTERM), and when its own parent is killed.
The child is a fork, so that a process is not started twice.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module

from xmcbench.processes.lifetime import GRACE_S, MARK, adopt_orphans, descendants, die_with_parent, supervising

#: Instead of a module: it is told later.
WAIT = "--wait"
#: Seconds that others below us have to end when the child is gone.
_OTHERS_GRACE_S = 0.5
#: Seconds until we stop waiting for what the kernel does not let go of.
_PATIENCE_S = 10.0
#: Seconds between two looks at the parent, where the kernel does not say that it died.
_LOOK_S = 0.5


def main() -> None:
    """Run the module that the command line names, and end as it does."""
    parent, keeper = supervising(os.environ[MARK]), os.getpid()
    adopt_orphans()
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for sign in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(sign, _noted)
    die_with_parent(parent, signal.SIGTERM)
    child = os.fork()
    if child:
        _mirror(_kept(child, parent, wake))
    os.setsid()
    signal.set_wakeup_fd(before)
    for sign in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(sign, signal.SIG_DFL)
    os.close(wake)
    os.close(woken)
    die_with_parent(keeper)
    sys.argv = sys.argv[1:] if sys.argv[1] != WAIT else _told(sys.argv[2].split(","))
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _told(imports: list[str]) -> list[str]:
    """Import what will be needed, and wait for what to run: the module and its arguments."""
    for name in imports:
        with suppress(Exception):
            import_module(name)
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)
    told = json.loads(line)
    mark = os.environ[MARK]
    os.environ.clear()
    os.environ.update({**told["environment"], MARK: mark})
    tempfile.tempdir = None  # that of the environment is another
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(told["log"], os.O_WRONLY | os.O_APPEND)
    for descriptor, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, place)
    os.close(nothing)
    os.close(log)
    argv: list[str] = told["argv"]
    return argv


_asked: list[int] = []


def _noted(sign: int, _: object) -> None:
    if sign == signal.SIGTERM:
        _asked.append(sign)


def _kept(child: int, parent: int, wake: int) -> int:
    """Wait until the child has ended, or has to; leave nothing below us. Returns the child's status."""
    status, deadline = None, None
    while status is None and os.getppid() == parent and (deadline is None or time.monotonic() < deadline):
        if _asked and deadline is None:
            deadline = time.monotonic() + GRACE_S
            with suppress(OSError):
                os.killpg(child, signal.SIGTERM)
        select.select([wake], [], [], _LOOK_S if deadline is None else max(0.0, deadline - time.monotonic()))
        with suppress(BlockingIOError):
            os.read(wake, 1024)
        status = _reaped(child)
    if status is not None and os.getppid() == parent:
        _ask_others(child)
    return _ended(child, status)


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
        found = _reaped(child)
        status = found if status is None else status
        if not _has_children():
            break
        time.sleep(0.002)
    return signal.SIGKILL if status is None else status


def _reaped(child: int) -> int | None:
    """Take the status of all that has ended; returns that of the child if it was among them."""
    found = None
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            if process == child:
                found = status
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


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
