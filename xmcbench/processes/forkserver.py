"""A process that has imported what others will need, and forks them.

    python -m xmcbench.processes.forkserver IMPORT,...

Imports take longer than the work of a cheap cell. Here they are done once. Standard input is a Unix socket. To have a
process forked, send two file descriptors over it: one end of another socket, the line to that process; and a file with
the order, JSON with ``argv`` (a module and its arguments), ``log`` (a file for the output), ``environment`` and
``folder`` (the working directory). Every process gets a keeper, which writes its own number to the line, and the exit
status of the process when it has ended.

The server does nothing but import, so a fork is what a new process would be. The only threads are those of allocators
and BLAS, which handle forks.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

from xmcbench.processes.keeper import keep
from xmcbench.processes.lifetime import MARK, adopt_orphans, descendants, die_with_parent, supervising


def main() -> None:
    """Import, then fork on request; in a fork, run what the order says."""
    adopt_orphans()
    die_with_parent(supervising(os.environ[MARK]), signal.SIGTERM)
    for name in filter(None, sys.argv[1].split(",")):
        with suppress(Exception):  # the method that needs it reports the error
            import_module(name)
    gc.freeze()  # the collector must not touch, and so copy, what the forks share
    server = os.getpid()
    line, order = _served()
    with suppress(OSError):
        line.send(b"%d\n" % os.getpid())
    _become(order)
    keep(server, line)
    sys.argv = order["argv"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _served() -> tuple[socket.socket, dict[str, Any]]:
    """Fork on request until the other side is gone. Returns only in a fork: its line and its order."""
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asked = socket.socket(fileno=os.dup(0))
    keepers: set[int] = set()
    while True:
        ready = select.select([asked.fileno(), wake], [], [])[0]
        if wake in ready:
            os.read(wake, 1024)
            _reap(keepers)
        if asked.fileno() not in ready:
            continue
        _, files, _, _ = socket.recv_fds(asked, 1, 2)
        if len(files) < 2:
            os._exit(0)  # the other side is closed; keepers end with us
        with warnings.catch_warnings(), suppress(OSError):  # too many processes: the other side sees its line closed
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 about threads: see above
            if not (keeper := os.fork()):
                break
            keepers.add(keeper)
        for file in files:
            os.close(file)
    signal.set_wakeup_fd(before)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked.close()
    os.close(wake)
    os.close(woken)
    with open(files[1], "rb") as order:
        return socket.socket(fileno=files[0]), json.loads(order.read())


def _reap(keepers: set[int]) -> None:
    """Forget keepers that have ended. What is left of one that was killed was handed to us: kill it."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            keepers.discard(found[0])
            if os.WIFSIGNALED(found[1]):
                kept = keepers.union(*map(descendants, keepers))
                for process in descendants(os.getpid()) - kept:
                    with suppress(OSError):
                        os.kill(process, signal.SIGKILL)


def _become(order: dict[str, Any]) -> None:
    """Set up what a new process would start with: session, folder, environment, files, random numbers."""
    os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    tempfile.tempdir = None  # that of the environment is another
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(order["log"], os.O_WRONLY | os.O_APPEND)
    for descriptor, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, place)
    os.close(nothing)
    os.close(log)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else all forks would draw the same numbers


if __name__ == "__main__":
    main()
