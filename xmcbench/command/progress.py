"""The progress of a run on stderr: lines that change on a terminal, and plain lines elsewhere.

The first line is about the whole run. Each running cell has a line with its phase, progress and time left, and then its
name, which a narrow terminal cuts. Elsewhere than on a terminal, a line is printed when a cell starts and when it ends,
and at most once a minute in between.
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
from xmcbench.output.quantities import duration, format_count
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
        """Estimate the time until all cells are done.

        None while nothing is known about one of them, and once all that are left take longer than expected.
        """
        underway = {cell.planned.cell.key: cell for cell in running}
        mean = fmean(self.took_s.values()) if self.took_s else -1.0
        left = 0.0
        for key in self.expected_s.keys() - self.took_s.keys():
            takes = self.expected_s[key] if self.expected_s[key] >= 0 else mean
            if takes < 0:
                return None
            cell = underway.get(key)
            left += takes if cell is None else max(0.0, takes - cell.since_s, (cell.report and cell.report.left_s) or 0)
        return left / max(1, len(running)) or None


class Display:
    """Shows a run while it is entered: ``progress`` and ``watch`` are what ``execute`` calls."""

    def __init__(self, planned: Plan, store: Store, every_s: float = _EVERY_S) -> None:
        self._outlook = Outlook.of(planned, store)
        self._runs, self._every_s = store.root, every_s
        waiting = [place for place, cell in enumerate(planned.cells) if cell.state == "to run"]
        self._numbers = {place: number for number, place in enumerate(waiting, 1)}
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
        line = f"[{self._numbers[position]}/{self._outlook.cells}] {self._name(planned)}"
        if record is not None:
            self._outlook.took_s[planned.cell.key] = record.measured.total_s
            self._say(f"{line}: {_describe_end(record, self._runs)}")
        elif self._live is None:
            self._say(f"{line}: started")

    def watch(self, running: Sequence[Underway]) -> None:
        """Show the progress of the running cells."""
        if self._live is not None:
            from rich.text import Text

            lines = [self._whole(running), *(terminal(self._line(cell)) for cell in running)]
            self._live.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)
        elif time.monotonic() - self._said_at >= self._every_s:
            self._say("; ".join([self._whole(running), *map(self._line, running)]))

    def _line(self, cell: Underway) -> str:
        return f"[{self._numbers[cell.position]}/{self._outlook.cells}] {_describe(cell)}: {self._name(cell.planned)}"

    def _name(self, planned: PlannedCell) -> str:
        where = f", {planned.cell.dataset} {planned.cell.setting.slug}" if self._several else ""
        return f"{planned.name}, seed {planned.cell.seed}{where}"

    def _whole(self, running: Sequence[Underway]) -> str:
        left_s = self._outlook.seconds_left(running)
        left = f", {_approximate(left_s)} left" if left_s is not None else ""
        done = f"{len(self._outlook.took_s)} of {format_count(self._outlook.cells, 'cell')} done"
        return f"{done}, {len(running)} running{left}"

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
    if report.total:
        said.append(f"{report.done / report.total:.0%} of {format_count(report.total, report.unit)}")
        said += [f"{_approximate(report.left_s)} left"] if report.left_s is not None else []
    elif report.done:
        said.append(format_count(report.done, report.unit))
    return ", ".join([*said, f"{duration(cell.since_s)} so far"])


def _approximate(seconds: float) -> str:
    """Return an estimated duration in words: no estimate is exact to a second."""
    return f"about {duration(seconds)}" if seconds >= 10 else "under 10 s"
