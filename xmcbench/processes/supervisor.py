"""Processes under watch: time limit, memory limit, memory reading, and no survivor when we go."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xmcbench.errors import StorageError, XmcbenchError
from xmcbench.processes.forkserver import Forked, ForkServer, end_process, start_module
from xmcbench.processes.process_tree import MARK, kill_marked, new_mark
from xmcbench.processes.reaper import GRACE_S

if TYPE_CHECKING:
    import psutil

#: Seconds between two looks at the process.
_INTERVAL_S = 0.05

#: Real-time signals have no names.
_NAMES = {sign.value: sign.name for sign in signal.Signals}


@dataclass(frozen=True)
class Ending:
    """The end of a process. ``returncode`` is negative for a signal; memory is the highest seen for the whole tree.

    timed_out, over_memory: true if that limit ended it before it had its result.
    """

    returncode: int
    timed_out: bool
    over_memory: bool
    peak_memory_bytes: int

    @property
    def reason(self) -> str:
        """The reason why a process ended without a result, in one line."""
        peak = f"{self.peak_memory_bytes / 2**30:.1f} GiB"
        if self.over_memory:
            return f"out of memory: it used {peak}, more than --memory-limit allows"
        if self.returncode == -signal.SIGKILL:
            return f"killed by SIGKILL, probably because the system ran out of memory (it used {peak})"
        if self.returncode < 0:
            return f"killed by {_NAMES.get(-self.returncode, f'signal {-self.returncode}')}"
        return f"ended with exit code {self.returncode} and no result"


class Supervised:
    """A module that runs as a process, its output in ``log``; at a limit it is ended, with everything it started.

    result: the file that the process writes as its last act. Once it is there, the limits no longer apply, and the
    process has a few seconds to end. It also ends when this process dies. server: forks the process; else it is started
    from scratch. Raises StorageError when the log cannot be written.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        result: Path,
        time_limit_s: float | None = None,
        memory_limit_bytes: int | None = None,
        server: ForkServer | None = None,
    ) -> None:
        self._mark, self._result, self._memory_limit = new_mark(), result, memory_limit_bytes
        marked = {**environment, MARK: self._mark}
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            stream = log.open("wb")
        except OSError as error:
            raise StorageError.from_os_error(error, log) from error
        try:
            with stream:
                self._process = _start([module, *arguments], log, stream, marked, server)
        except OSError as error:
            raise XmcbenchError(
                f"no process can be started: {error.strerror or error}", "end other processes, or see `ulimit -u`"
            ) from error
        except BaseException:  # Ctrl-C while it starts: nobody has its number yet
            kill_marked(self._mark)
            raise
        self._deadline = time.monotonic() + time_limit_s if time_limit_s else None
        self._finished = self._timed_out = self._over_memory = False
        self._next_look = 0.0
        #: Resident memory of the process and all below it at the last look, and the highest so far, in bytes.
        self.memory_bytes = self.peak_memory_bytes = 0

    def descriptor(self) -> int:
        """Return a new descriptor that can be read when it has ended. Raises OSError where there is none."""
        if isinstance(self._process, Forked):
            return os.dup(self._process.fileno())
        return os.pidfd_open(self._process.pid)

    def look(self) -> Ending | None:
        """Return its end; None while it runs within its limits. Call it often: it looks when it is time to."""
        if self._process.poll() is not None:
            return self.end()
        now = time.monotonic()
        if now < self._next_look:
            return None
        before = time.thread_time()
        self.memory_bytes = _tree_memory(self._process.pid)
        # A look reads every process of the machine: it may take a twentieth of a core. The time of other processes does
        # not count, else on a busy machine the next look would be seconds later.
        self._next_look = now + max(_INTERVAL_S, 20 * (time.thread_time() - before))
        self.peak_memory_bytes = max(self.peak_memory_bytes, self.memory_bytes)
        if not self._finished and self._result.exists():
            self._finished, self._deadline = True, now + GRACE_S
        late = self._deadline is not None and now > self._deadline
        self._timed_out = late and not self._finished
        limit = self._memory_limit
        self._over_memory = not self._finished and limit is not None and self.memory_bytes > limit
        return self.end() if late or self._over_memory else None

    def end(self) -> Ending:
        """End it and everything it started, if it still runs, and return its end."""
        code = end_process(self._process, self._mark)
        return Ending(code, self._timed_out, self._over_memory, self.peak_memory_bytes)


def _start(
    argv: Sequence[str], log: Path, stream: IO[bytes], environment: Mapping[str, str], server: ForkServer | None
) -> Forked | subprocess.Popen[bytes]:
    """Start a process that runs a module, with a reaper. stream: the log, opened. Raises OSError."""
    if server:
        with suppress(OSError):  # it is gone
            return server.start(argv, log, environment)
    return start_module(["xmcbench.processes.reaper", *argv], environment, subprocess.DEVNULL, stream)


def supervise(process: Supervised) -> Ending:
    """Wait for the end of a process. An exception in this process (Ctrl-C) ends it too."""
    try:
        while (ending := process.look()) is None:
            wait([process], _INTERVAL_S)
    finally:
        process.end()
    return ending


def wait(processes: Sequence[Supervised], timeout_s: float, files: Sequence[int] = ()) -> None:
    """Wait until one of the processes ends, one of the descriptors ``files`` can be read, or the time is over."""
    watched = select.poll()
    descriptors = []
    try:
        for process in processes:
            try:
                descriptors.append(process.descriptor())
            except (AttributeError, OSError):  # not Linux, or an old one: look often
                timeout_s = min(timeout_s, _INTERVAL_S)
        for descriptor in (*descriptors, *files):
            watched.register(descriptor, select.POLLIN)
        watched.poll(1000 * timeout_s)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _tree_memory(pid: int | None) -> int:
    """Return the resident bytes of all processes below a reaper. Pages that several share are counted once."""
    import psutil

    if pid is None:
        return 0
    try:
        tree = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return 0
    total = 0
    for process in tree:
        with suppress(psutil.Error):  # it ended while we looked
            total += _share(process) if len(tree) > 1 else process.memory_info().rss
    return total


def _share(process: psutil.Process) -> int:
    """Return proportional memory, or resident memory where the system does not tell that, in bytes."""
    import psutil

    try:
        return int(process.memory_full_info().pss)
    except (AttributeError, psutil.AccessDenied):
        return int(process.memory_info().rss)


_SECRET = re.compile(r".*(TOKEN|KEY|SECRET|PASSWORD)", re.IGNORECASE)


def without_secrets(named: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of this process without secrets, told by their names, except the named ones."""
    kept = {*named}
    return {name: value for name, value in os.environ.items() if name in kept or not _SECRET.fullmatch(name)}
