"""Progress of a cell: its process reports, and the process that watches it reads.

    from xmcbench import progress

    for step in progress.track(range(steps), "step"):
        ...

A cell's process is not attached to a terminal. It writes its phase and its steps to a file, which the variable
``XMCBENCH_PROGRESS`` names; without it nothing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

#: The variable that names the file.
VARIABLE = "XMCBENCH_PROGRESS"
#: Seconds between two reports of one phase.
_INTERVAL_S = 0.2

_Item = TypeVar("_Item")
#: A method may write any number to the file. With these bounds the time left is one that has words.
_Count = Annotated[int, Meta(ge=0, le=2**53)]


class Report(Struct, frozen=True):
    """A phase of a cell, and its steps in some unit: done, and in total, 0 if that is not known.

    since: when these steps began, in seconds since 1970; first: how many were done by then.
    """

    phase: str
    done: _Count = 0
    total: _Count = 0
    unit: str = "step"
    since: Annotated[float, Meta(ge=0)] = 0.0
    first: _Count = 0

    @property
    def rate(self) -> float | None:
        """Steps per second; None before the first one."""
        took = time.time() - self.since
        return (self.done - self.first) / took if self.done > self.first and took > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the steps are done; None if that is not known."""
        return (self.total - self.done) / self.rate if self.rate and self.total else None


def read(path: Path) -> Report | None:
    """Return the last report in a file; None if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None  # nothing yet, or a method wrote there


class Reporter:
    """Writes the reports of this process."""

    def __init__(self) -> None:
        # A process that the cell starts goes on with the phase of the cell.
        path = os.environ.get(VARIABLE)
        found = read(Path(path)) if path else None
        self._last, self._written_at = Report(found.phase if found else "load"), 0.0

    def phase(self, name: str) -> None:
        """Report that a phase of the cell begins."""
        self._write(Report(name), always=True)

    def steps(self, done: int, total: int = 0, unit: str = "step") -> None:
        """Report how many steps of the current phase are done, and in total, 0 if that is not known."""
        last, done, total = self._last, int(done), int(total)  # JSON has no numbers of numpy
        if (last.unit, last.total) != (unit, total) or done < last.done or not last.since:
            self._write(Report(last.phase, done, total, unit, time.time(), done), always=True)
        else:
            self._write(Report(last.phase, done, total, unit, last.since, last.first), always=done == total)

    def _write(self, report: Report, always: bool) -> None:
        self._last = report
        path, now = os.environ.get(VARIABLE), time.monotonic()
        if path is None or (not always and now - self._written_at < _INTERVAL_S):
            return
        self._written_at = now
        temporary = f"{path}.{os.getpid()}"
        with suppress(OSError):  # a full disk is no reason to fail
            Path(temporary).write_bytes(msgspec.json.encode(report))
            os.replace(temporary, path)


_reporter = Reporter()
phase, steps = _reporter.phase, _reporter.steps


def track(items: Iterable[_Item], unit: str = "step") -> Iterator[_Item]:
    """Yield the items, and report how many are done."""
    total = len(items) if isinstance(items, Sized) else 0
    steps(0, total, unit)
    for done, item in enumerate(items, 1):
        yield item
        steps(done, total, unit)
