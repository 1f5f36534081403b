"""Processes forked from one that has already imported what they need.

    python -m xmcbench.processes.forkserver IMPORT,...

Imports take longer than the work of a cheap cell. A fork server does them once. To have a process forked, the client
sends it two file descriptors over a Unix socket, its standard input: one end of another socket, the line to that
process; and a file with the order, JSON with ``argv`` (a module and its arguments), ``log`` (a file for the output),
``environment`` and ``folder`` (the working directory). Every process gets a reaper, which writes its own number to the
line, and the exit status of the process when it has ended.

The server only imports, so a fork is what a new process would be. The only threads are those of allocators and BLAS,
which handle forks. It is not that of ``multiprocessing``, whose ``start`` blocks while the server imports, so that no
limit would end an import that hangs; whose processes run the user's script again; and which has one environment.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from xmcbench.processes.process_tree import (
    MARK,
    adopt_orphans,
    descendants,
    die_with_parent,
    kill,
    kill_marked,
    new_mark,
    supervisor_of,
)
from xmcbench.processes.reaper import GRACE_S, keep

#: Whether processes can be forked like this. On macOS, system libraries do not survive a fork.
AVAILABLE = sys.platform == "linux"

#: Seconds between two looks of an idle server at the reapers that have ended.
_LOOK_S = 0.5


class ForkServer:
    """A process that imports modules and forks others. It ends with this process, or when ``end`` is called.

    imports: modules; those that cannot be imported are skipped. Raises OSError if the process cannot be started.
    """

    def __init__(self, imports: Sequence[str], environment: Mapping[str, str]) -> None:
        self._mark = new_mark()
        self._forks: list[Forked] = []
        self._socket, theirs = socket.socketpair()
        try:
            argv, variables = [__name__, ",".join(imports)], {**environment, MARK: self._mark}
            self._process = start_module(argv, variables, theirs.fileno(), subprocess.DEVNULL)
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()

    @property
    def is_running(self) -> bool:
        """True while it runs."""
        return self._process.poll() is None

    @property
    def is_busy(self) -> bool:
        """True while a process that it forked runs."""
        self._forks = [fork for fork in self._forks if fork.poll() is None]
        return bool(self._forks)

    def start(self, argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
        """Fork a process that runs a module: ``argv`` is its name and its arguments. Returns at once.

        log: an existing file, to which the output is appended. Raises OSError if the server is gone.
        """
        order = {"argv": list(argv), "log": str(log), "environment": dict(environment), "folder": os.getcwd()}
        ours, theirs = socket.socketpair()
        file = os.memfd_create("order")  # of any size; a busy server would block a message
        try:
            with theirs, open(file, "wb", closefd=False) as stream:
                stream.write(json.dumps(order).encode())
                stream.flush()
                os.lseek(file, 0, os.SEEK_SET)
                socket.send_fds(self._socket, [b"."], [theirs.fileno(), file])
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(file)
        self._forks.append(Forked(ours, self))
        return self._forks[-1]

    def end(self) -> None:
        """End it and every process that it forked."""
        self._socket.close()
        end_process(self._process, self._mark)
        for fork in self._forks:  # their reapers see that it is gone
            fork.wait()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


class Forked:
    """A process that a server forked. It has the interface of ``subprocess.Popen``."""

    def __init__(self, line: socket.socket, server: ForkServer) -> None:
        self._line, self._server, self._reply = line, server, b""
        line.setblocking(False)
        self._returncode: int | None = None

    @property
    def pid(self) -> int | None:
        """The number of its reaper; None until it has started."""
        self.poll()
        number, ended, _ = self._reply.partition(b"\n")
        return int(number) if ended else None

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when it ends."""
        return self._line.fileno()

    def poll(self) -> int | None:
        """Return its exit code; None while it runs. It is -9 if its reaper was killed or never started."""
        while self._returncode is None:
            try:
                received = self._line.recv(64)
            except BlockingIOError:
                break
            except OSError:
                received = b""
            self._reply += received
            if not received:
                self._line.close()
                status = self._reply.splitlines()[1:]
                self._returncode = os.waitstatus_to_exitcode(int(status[0])) if status else -signal.SIGKILL
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
            watched = select.poll()  # not select, which knows 1,024 descriptors
            watched.register(self._line, select.POLLIN)
            watched.poll(None if left is None else 1000 * left)
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill its reaper, or the server if that hangs before the fork."""
        if self.pid is None:
            self._server.kill()
        elif self._returncode is None:
            kill([self.pid])


def start_module(
    argv: Sequence[str], environment: Mapping[str, str], stdin: int, output: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs a module: ``argv`` is its name and its arguments. Raises OSError."""
    return subprocess.Popen(
        # -P: the package that is installed, not a folder of its name where the user happens to stand.
        [sys.executable, "-P", "-m", *argv],
        stdin=stdin,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,  # a Ctrl-C in the terminal is for this process alone
    )


def end_process(process: subprocess.Popen[bytes] | Forked, mark: str) -> int:
    """End a process with everything below it: by its reaper, or by the mark if that was killed. Return the code."""
    code = process.poll()
    if code is None:
        process.terminate()
        try:
            code = process.wait(3 * GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code == -signal.SIGKILL:
        kill_marked(mark)
    return code


def main() -> None:
    """Import, then fork on request; in a fork, run the module of the order."""
    adopt_orphans()
    die_with_parent(supervisor_of(os.environ[MARK]), signal.SIGTERM)
    for name in filter(None, sys.argv[1].split(",")):
        with suppress(Exception):  # the method that needs it reports the error
            import_module(name)
    gc.freeze()  # the collector must not touch, and so copy, what the forks share
    server = os.getpid()
    line, order = _serve()
    with suppress(OSError):
        line.send(b"%d\n" % os.getpid())
    _become(order)
    keep(server, line)
    sys.argv = order["argv"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _serve() -> tuple[socket.socket, dict[str, Any]]:
    """Fork on request until the client is gone. Returns only in a fork: its line and its order."""
    client = socket.socket(fileno=os.dup(0))
    reapers: set[int] = set()
    while True:
        ready = select.select([client], [], [], _LOOK_S if reapers else None)[0]
        _forget_ended(reapers)
        if not ready:
            continue
        _, files, _, _ = socket.recv_fds(client, 1, 2)
        if len(files) < 2:
            os._exit(0)  # the client is gone; reapers end with us
        with warnings.catch_warnings(), suppress(OSError):  # too many processes: the client sees its line closed
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 about threads: see above
            if not (reaper := os.fork()):
                break
            reapers.add(reaper)
        for file in files:
            os.close(file)
    client.close()
    with open(files[1], "rb") as order:
        return socket.socket(fileno=files[0]), json.loads(order.read())


def _forget_ended(reapers: set[int]) -> None:
    """Forget reapers that have ended, and kill what was below one that was killed, which was handed to us."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            reapers.discard(found[0])
            if os.WIFSIGNALED(found[1]):
                kill(descendants(os.getpid()) - reapers.union(*map(descendants, reapers)))


def _become(order: dict[str, Any]) -> None:
    """Set up session, folder, environment, files and random numbers as in a new process."""
    os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    tempfile.tempdir = None  # that of the environment is another
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(order["log"], os.O_WRONLY | os.O_APPEND)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    os.close(nothing)
    os.close(log)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else all forks would draw the same numbers


if __name__ == "__main__":
    main()
