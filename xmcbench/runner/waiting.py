"""When to ask again for what another run has: rarely, because each question is work for a shared folder."""

from __future__ import annotations

import time

#: Seconds between two questions for one thing: a tenth of what the wait has taken, within these bounds.
_LEAST_S, _MOST_S, _SHARE = 0.5, 15.0, 0.1
#: The most questions per second when a run waits for many things.
_RATE = 40.0
#: After this many unsuccessful questions in a row, a run goes back to its own cells.
IN_VAIN = 20


class Waits:
    """What other runs had when it was asked for, by name, and when to ask again."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def due(self, name: str) -> bool:
        """Whether to ask for something now: at once where nobody was known to have it."""
        return name not in self._due or self._due[name] <= time.monotonic()

    def busy(self, name: str) -> None:
        """It was asked for, and another run has it."""
        now = time.monotonic()
        waited = now - self._since.setdefault(name, now)
        pause_s = max(_LEAST_S, min(_MOST_S, _SHARE * waited), len(self._since) / _RATE)
        self._due[name] = now + pause_s

    def free(self, name: str) -> None:
        """It was asked for, and nobody else had it."""
        self._since.pop(name, None)
        self._due.pop(name, None)
