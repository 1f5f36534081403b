"""The progress of a run: lines that change on a terminal and in a notebook, and plain lines elsewhere.

The first line is about the whole run. Each running cell has a line with its phase, progress and time left, and then its
name, which a narrow terminal cuts. Plain lines are printed when a cell starts and when it ends, and at most once a
minute in between.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Self

from xmcbench.output.escaping import terminal
from xmcbench.output.quantities import duration, format_count
from xmcbench.records import Record, Store
from xmcbench.results import files_of
from xmcbench.runner.execution import Underway, execute
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.schedule import similar_records
from xmcbench.runner.target import Target

#: Seconds between two lines elsewhere than on a terminal.
_EVERY_S = 60.0


@dataclass
class Outlook:
    """The time that the cells of a plan still take, by similar cells, or by the mean of those that ran.

    expected_s: key of a cell -> its time, -1 if no similar cell is known.
    """

    expected_s: dict[str, float]
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.expected_s)

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


class Screen:
    """A place where the progress of a run is shown, while it is entered. This one shows nothing."""

    #: True if ``show`` replaces its last lines, so that nothing needs to be printed when a cell starts.
    changes = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the lines that change."""

    def show(self, lines: list[str]) -> None:
        """Show the state of a run, in place of the last one if this is possible."""

    def say(self, line: str) -> None:
        """Print a line that stays."""


class _Terminal(Screen):
    changes = True

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        # Lines are escaped here: the escape sequences of the display itself have to arrive.
        self._console = Console(file=getattr(sys.stderr, "stream", sys.stderr))
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, lines: list[str]) -> None:
        from rich.text import Text

        self._live.update(Text("\n".join(map(terminal, lines)), no_wrap=True, overflow="ellipsis"), refresh=True)

    def say(self, line: str) -> None:
        from rich.text import Text

        self._console.print(Text(terminal(line)), soft_wrap=True)


class _Notebook(Screen):
    changes = True

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def __exit__(self, *_: object) -> None:
        self.show([])

    def show(self, lines: list[str]) -> None:
        self._handle.update({"text/plain": "\n".join(map(terminal, lines))}, raw=True)

    def say(self, line: str) -> None:
        print(terminal(line))


class _Lines(Screen):
    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def show(self, lines: list[str]) -> None:
        if time.monotonic() - self._said_at >= _EVERY_S:
            self.say("; ".join(lines))

    def say(self, line: str) -> None:
        self._said_at = time.monotonic()
        print(line, file=sys.stderr, flush=True)


def find_screen(lines: bool = True) -> Screen:
    """Return the terminal or notebook of this process; without either plain lines, or nothing if ``lines`` is false."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
        return _Notebook()
    if sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown"):
        return _Terminal()
    return _Lines() if lines else Screen()


def execute_shown(plan: Plan, target: Target, force: bool = False, lines: bool = True) -> list[Record]:
    """Execute a plan and show the progress, as ``find_screen`` says. Raises what ``execute`` raises."""
    with find_screen(lines) as screen:
        display = Display(plan, target.store, screen)
        return execute(plan, target, display.progress, force, display.watch)


class Display:
    """Shows a run on a screen: ``progress`` and ``watch`` are what ``execute`` calls."""

    def __init__(self, planned: Plan, store: Store, screen: Screen) -> None:
        self._runs, self._screen = store.root, screen
        waiting = {place: cell for place, cell in enumerate(planned.cells) if cell.state == "to run"}
        self._numbers = {place: number for number, place in enumerate(waiting, 1)}
        known = {key: record.measured.total_s for key, record in similar_records([*waiting.values()], store).items()}
        keys = [cell.cell.key for cell in waiting.values()]
        self._outlook = Outlook({key: known.get(key, -1.0) for key in keys})
        self._several = len({(cell.cell.dataset, cell.cell.setting) for cell in planned.cells}) > 1

    def progress(self, planned: PlannedCell, position: int, record: Record | None) -> None:
        """Print that a cell starts (no record) or how it ended."""
        if position not in self._numbers:  # a finished cell, whose record another run has removed since
            self._numbers[position] = len(self._numbers) + 1
            self._outlook.expected_s[planned.cell.key] = -1.0
        line = f"[{self._numbers[position]}/{self._outlook.cells}] {self._name(planned)}"
        if record is not None:
            self._outlook.took_s[planned.cell.key] = record.measured.total_s
            self._screen.say(f"{line}: {_describe_end(record, self._runs)}")
        elif not self._screen.changes:
            self._screen.say(f"{line}: started")

    def watch(self, running: Sequence[Underway]) -> None:
        """Show the progress of the running cells."""
        self._screen.show([self._whole(running), *map(self._line, running)])

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


def _describe_end(record: Record, runs: Path) -> str:
    took = f"{record.measured.total_s:.1f} s"
    if record.status == "unscored":  # as are all documents of `suggest`; tables of results say why
        return f"done, {took}"
    said = f"{record.status}, {took}"
    return said if record.ok else f"{said}: {record.reason}{files_of(record, runs)}"


def _describe(cell: Underway) -> str:
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
