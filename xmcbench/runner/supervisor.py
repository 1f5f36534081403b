"""One process under watch: time limit, memory limit, memory reading, and no survivor when we go."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcbench.errors import StorageError

#: Seconds between two looks at the process.
_INTERVAL_S = 0.05
#: Seconds a process has to end after it was asked to.
_GRACE_S = 3.0


@dataclass(frozen=True)
class Ending:
    """How a process ended. ``returncode`` is negative for a signal; memory is the highest seen for the whole tree."""

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
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    time_limit_s: float | None = None,
    memory_limit_bytes: int | None = None,
) -> Ending:
    """Run a command to its end, its output in ``log``; end it with all its children at a limit.

    An exception in this process (Ctrl-C) ends them too. Raises StorageError when the log cannot be written.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,  # a process group of its own: it is ended with everything it started
            )
    except OSError as error:
        raise StorageError.from_os_error(error, log) from error
    peak, timed_out, over_memory = 0, False, False
    deadline = time.monotonic() + time_limit_s if time_limit_s else None
    try:
        while True:
            try:
                process.wait(_INTERVAL_S)
                break
            except subprocess.TimeoutExpired:
                used = _tree_memory(process.pid)
            peak = max(peak, used)
            timed_out = deadline is not None and time.monotonic() > deadline
            over_memory = memory_limit_bytes is not None and used > memory_limit_bytes
            if timed_out or over_memory:
                break
    finally:
        _end(process)
    return Ending(process.returncode, timed_out, over_memory, peak)


def _tree_memory(pid: int) -> int:
    """Resident memory of a process and all below it, in bytes."""
    import psutil

    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for process in tree:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue  # it ended while we looked
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the process group behind: children that outlive a finished leader go too."""
    for sign, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
