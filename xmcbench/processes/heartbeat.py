"""Signs of life for other machines: a thread that touches what this process holds, and the clock they are judged by."""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from xmcbench.processes.temporary_name import unused_name


class Living(Protocol):
    """Something that is held and can be touched."""

    def beat(self) -> None:
        """Touch it. Raises nothing."""


class Heart:
    """The thread that touches, every so many seconds, all that was added and not discarded."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._held: weakref.WeakSet[Living] = weakref.WeakSet()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, held: Living) -> None:
        """Touch this from now on."""
        with self._guard:
            self._held.add(held)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()

    def discard(self, held: Living) -> None:
        """Touch this no longer."""
        with self._guard:
            self._held.discard(held)

    def _beat(self) -> None:
        while True:
            time.sleep(self._every_s)
            with self._guard:
                held = list(self._held)
            for each in held:
                each.beat()


def now(folder: Path) -> float:
    """The time by the clock of the file system of a folder, which may be that of another machine.

    It is that of a new file, which is removed at once. Where none can be made, it is the time of this machine.
    """
    # As temporary files are named: where the process is killed in between, the next sweep removes it.
    probe = folder / unused_name()
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return time.time()
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        with suppress(OSError):
            probe.unlink()
