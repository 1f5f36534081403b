"""One process under watch: time limit, memory limit, memory reading, and no survivor when we go."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.processes.lifetime import GRACE_S, MARK, end_marked, new_mark

#: Seconds between two looks at the process.
_INTERVAL_S = 0.05


@dataclass(frozen=True)
class Ending:
    """How a process ended. ``returncode`` is negative for a signal; memory is the highest seen for the whole tree.

    timed_out, over_memory: whether a limit ended it before it had its result.
    """

    returncode: int
    timed_out: bool
    over_memory: bool
    peak_memory_bytes: int

    @property
    def reason(self) -> str:
        """Why a process that did not say so itself ended, in one line."""
        peak = f"{self.peak_memory_bytes / 2**30:.1f} GiB"
        if self.over_memory:
            return f"out of memory: it used {peak}, more than --memory-limit allows"
        if self.returncode == -signal.SIGKILL:
            return f"killed by SIGKILL, probably by the system for want of memory (it used {peak})"
        if self.returncode < 0:
            return f"killed by {signal.Signals(-self.returncode).name}"
        return f"ended with exit code {self.returncode} and no result"


def supervise(
    module: str,
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    result: Path,
    time_limit_s: float | None = None,
    memory_limit_bytes: int | None = None,
) -> Ending:
    """Run a module as a process to its end, its output in ``log``; at a limit, end it and everything it started.

    result: the file that the process writes as its last act. Once it is there, the limits no longer apply, and the
    process has a few seconds to end. An exception in this process (Ctrl-C) ends it too, and so does the death of this
    process. Raises StorageError when the log cannot be written.
    """
    mark = new_mark()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream:
            process = subprocess.Popen(
                # -P: the package that is installed, not a folder of its name where the user happens to stand.
                [sys.executable, "-P", "-m", "xmcbench.processes.keeper", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**environment, MARK: mark},
                start_new_session=True,  # a Ctrl-C in the terminal is for this process alone
            )
    except OSError as error:
        raise StorageError.from_os_error(error, log) from error
    peak, timed_out, over_memory = 0, False, False
    deadline = time.monotonic() + time_limit_s if time_limit_s else None
    finished = False
    try:
        while not _ended(process):
            used = _tree_memory(process.pid)
            peak = max(peak, used)
            if not finished and result.exists():
                finished, deadline = True, time.monotonic() + GRACE_S
            late = deadline is not None and time.monotonic() > deadline
            timed_out = late and not finished
            over_memory = not finished and memory_limit_bytes is not None and used > memory_limit_bytes
            if late or over_memory:
                break
    finally:
        _end(process, mark)
    return Ending(process.returncode, timed_out, over_memory, peak)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process ends within the interval."""
    if process.poll() is not None:
        return True
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or an old one
        try:
            process.wait(_INTERVAL_S)
        except subprocess.TimeoutExpired:
            return False
        return True
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.poll(1000 * _INTERVAL_S)
    finally:
        os.close(descriptor)
    return process.poll() is not None


def _tree_memory(pid: int) -> int:
    """Resident memory of all processes below one, in bytes: the one itself only keeps them."""
    import psutil

    try:
        tree = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return 0
    total = 0
    for process in tree:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue  # it ended while we looked
    return total


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Leave nothing: the keeper ends what is below it, and where it was killed itself, the mark tells what that is."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(3 * GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.returncode == -signal.SIGKILL:
        end_marked(mark)
