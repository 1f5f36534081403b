"""The progress of a run on stderr: lines that change on a terminal, and plain lines elsewhere.

Each cell has a line with its phase, progress, speed and time left; another line is about the whole run. Elsewhere than
on a terminal, a line is printed when a cell starts and when it ends, and at most once a minute in between.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

from xmcbench.output.escaping import terminal
from xmcbench.output.quantities import duration
from xmcbench.results import files_of
from xmcbench.runner.estimate import similar_records

if TYPE_CHECKING:
    from xmcbench.records import Record, Store
    from xmcbench.runner.execution import Underway
    from xmcbench.runner.plan import Plan, PlannedCell

#: Seconds between two lines elsewhere than on a terminal.
_EVERY_S = 60.0


@dataclass
class Outlook:
    """The time that the cells of a plan still take, by similar cells, or by the mean of those that ran."""

    cells: int
    expected_s: dict[str, float]
    took_s: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, planned: Plan, store: Store) -> Self:
        """Return the outlook at the beginning of a run."""
        waiting = [cell for cell in planned.cells if cell.state == "to run"]
        known = {key: record.measured.total_s for key, record in similar_records(waiting, store).items()}
        return cls(len(waiting), {cell.cell.key: known.get(cell.cell.key, -1.0) for cell in waiting})

    def seconds_left(self, running: Sequence[Underway]) -> float | None:
        """Estimate the time until all are done; None while nothing is known about one of them."""
        since = {cell.planned.cell.key: cell.since_s for cell in running}
        mean = fmean(self.took_s.values()) if self.took_s else -1.0
        left = 0.0
        for key, expected in self.expected_s.items():
            if key not in self.took_s:
                takes = expected if expected >= 0 else mean
                if takes < 0:
                    return None
                left += max(0.0, takes - since.get(key, 0.0))
        return left / max(1, len(running))


class Display:
    """Shows a run while it is entered: ``progress`` and ``watch`` are what ``execute`` calls."""

    def __init__(self, planned: Plan, store: Store, every_s: float = _EVERY_S) -> None:
        self._outlook = Outlook.of(planned, store)
        self._runs, self._all, self._every_s = store.root, len(planned.cells), every_s
        self._several = len({(cell.cell.dataset, cell.cell.setting) for cell in planned.cells}) > 1
        self._live: Any = None
        self._said_at = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            # What is shown is escaped here: the escape sequences of the display itself have to arrive.
            console = Console(file=getattr(sys.stderr, "stream", sys.stderr))
            if not console.is_dumb_terminal:
                shown = Live(console=console, auto_refresh=False, transient=True, redirect_stderr=False)
                self._live = shown
                self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def progress(self, planned: PlannedCell, position: int, record: Record | None) -> None:
        """Print that a cell starts (no record) or how it ended."""
        if record is not None:
            self._outlook.took_s[planned.cell.key] = record.measured.total_s
            self._say(f"{self._name(planned, position)}: {_describe_end(record, self._runs)}")
        elif self._live is None:
            self._say(f"{self._name(planned, position)}: started")

    def watch(self, running: Sequence[Underway]) -> None:
        """Show the progress of the running cells."""
        lines = [f"{self._name(cell.planned, cell.position)}: {_describe(cell)}" for cell in running]
        if self._live is not None:
            from rich.text import Text

            text = Text("\n".join([*map(terminal, lines), self._whole(running)]), no_wrap=True, overflow="ellipsis")
            self._live.update(text, refresh=True)
        elif time.monotonic() - self._said_at >= self._every_s:
            self._say("; ".join([self._whole(running), *lines]))

    def _name(self, planned: PlannedCell, position: int) -> str:
        where = f", {planned.cell.dataset} {planned.cell.setting.slug}" if self._several else ""
        return f"[{position + 1}/{self._all}] {planned.name}{where}, seed {planned.cell.seed}"

    def _whole(self, running: Sequence[Underway]) -> str:
        left_s = self._outlook.seconds_left(running)
        left = f", about {duration(left_s)} left" if left_s is not None else ""
        return f"{len(self._outlook.took_s)} of {self._outlook.cells} cells done, {len(running)} running{left}"

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text(terminal(line)), soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _describe_end(record: Record, runs: Path) -> str:
    """Return the end of a cell in one line."""
    took = f"{record.measured.total_s:.1f} s"
    if record.status == "unscored":  # as are all documents of `suggest`; tables of results say why
        return f"done, {took}"
    said = f"{record.status}, {took}"
    return said if record.ok else f"{said}: {record.reason}{files_of(record, runs)}"


def _describe(cell: Underway) -> str:
    """Return the phase and progress of a cell."""
    report = cell.report
    if report is None:
        return f"starting, {duration(cell.since_s)}"
    said = [report.phase]
    if report.done or report.total:
        whole = f" of {report.total} ({report.done / report.total:.0%})" if report.total else ""
        said.append(f"{report.unit} {report.done}{whole}")
        said += [f"{report.rate:.3g}/s"] if report.rate else []
        said += [f"{duration(report.left_s)} left"] if report.left_s is not None else []
    return ", ".join([*said, duration(cell.since_s)])
