"""Processes forked from one that has already imported what they need: see ``forkserver``."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from xmcbench.processes.lifetime import MARK, end_kept, new_mark

#: Whether processes can be forked like this. On macOS, system libraries do not survive a fork.
AVAILABLE = sys.platform == "linux"


class ForkServer:
    """A process that imports modules and forks others. It ends with this process, or when ``end`` is called.

    imports: modules; one that cannot be imported is skipped. environment: its variables. Raises OSError if the process
    cannot be started.
    """

    def __init__(self, imports: Sequence[str], environment: Mapping[str, str]) -> None:
        self._mark = new_mark()
        self._forks: list[Forked] = []
        self._asks, asked = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                # -P: the package that is installed, not a folder of its name where the user happens to stand.
                [sys.executable, "-P", "-m", "xmcbench.processes.forkserver", ",".join(imports)],
                stdin=asked.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment, MARK: self._mark},
                start_new_session=True,  # a Ctrl-C in the terminal is for this process alone
            )
        except BaseException:
            self._asks.close()
            raise
        finally:
            asked.close()

    @property
    def runs(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    @property
    def busy(self) -> bool:
        """Whether a process that it forked is running."""
        self._forks = [each for each in self._forks if each.poll() is None]
        return bool(self._forks)

    def start(self, argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
        """Fork a process that runs a module: ``argv`` is its name and its arguments. Returns at once.

        log: an existing file, to which the output is appended. Raises OSError if the server is gone.
        """
        order = {"argv": list(argv), "log": str(log), "environment": dict(environment), "folder": os.getcwd()}
        ours, theirs = socket.socketpair()
        file = os.memfd_create("order")
        try:
            with theirs, open(file, "wb", closefd=False) as stream:
                stream.write(json.dumps(order).encode())
                stream.flush()
                os.lseek(file, 0, os.SEEK_SET)
                socket.send_fds(self._asks, [b"."], [theirs.fileno(), file])
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(file)
        self._forks.append(Forked(ours, self))
        return self._forks[-1]

    def end(self) -> None:
        """End it and every process that it forked."""
        self._asks.close()
        end_kept(self._process, self._mark)
        for fork in self._forks:  # their keepers see that it is gone
            fork.wait()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


class Forked:
    """A process that a server forked. It has the interface of ``subprocess.Popen``."""

    def __init__(self, line: socket.socket, server: ForkServer) -> None:
        self._line, self._server, self._said = line, server, b""
        line.setblocking(False)
        self._returncode: int | None = None

    @property
    def pid(self) -> int | None:
        """The number of its keeper; None until it has started."""
        self.poll()
        number, ended, _ = self._said.partition(b"\n")
        return int(number) if ended else None

    def fileno(self) -> int:
        """A descriptor that becomes readable when it ends."""
        return self._line.fileno()

    def poll(self) -> int | None:
        """Its return code; None while it runs. It is -9 if its keeper was killed or never started."""
        while self._returncode is None:
            try:
                said = self._line.recv(64)
            except BlockingIOError:
                break
            except OSError:
                said = b""
            self._said += said
            if not said:
                self._line.close()
                status = self._said.splitlines()[1:]
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
        """Kill its keeper, or the server if that hangs before the fork."""
        if self.pid is None:
            self._server.kill()
        elif self._returncode is None:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
