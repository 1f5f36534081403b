"""Retries for work that another run holds: rare, because each attempt costs a shared folder some work."""

from __future__ import annotations

import time

#: Seconds between two attempts for one thing: a tenth of the time waited so far, within these bounds.
_LEAST_S, _MOST_S, _SHARE = 0.5, 15.0, 0.1
#: The most attempts per second when a run waits for many things.
_RATE = 40.0
#: Failed attempts in a row after which a run returns to its own cells.
MOST_FAILED = 20


class Backoff:
    """The times of the next attempts, by the name of the work that another run holds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def is_due(self, name: str) -> bool:
        """Return whether to try now: at once unless the last attempt failed."""
        return name not in self._due or self._due[name] <= time.monotonic()

    def fail(self, name: str) -> None:
        """Record that another run holds it."""
        now = time.monotonic()
        waited_s = now - self._since.setdefault(name, now)
        self._due[name] = now + max(_LEAST_S, min(_MOST_S, _SHARE * waited_s), len(self._since) / _RATE)

    def succeed(self, name: str) -> None:
        """Record that this run holds it."""
        self._since.pop(name, None)
        self._due.pop(name, None)
