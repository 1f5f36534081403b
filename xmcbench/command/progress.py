"""The progress of a run on stderr: lines that change on a terminal, and plain lines elsewhere.

A line says which cell, what it does, how far it is, how fast, and how long it still takes; one more is about the whole.
Elsewhere than on a terminal there is a line when a cell starts, one when it ends, and at most one a minute between.
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
    from xmcbench.progress import Report
    from xmcbench.records import Record, Store
    from xmcbench.runner.execution import Underway
    from xmcbench.runner.plan import Plan, PlannedCell

#: Seconds between two lines elsewhere than on a terminal.
_EVERY_S = 60.0


@dataclass
class Outlook:
    """How long the cells of a plan still take, by what similar ones took, or by the mean of those that ran."""

    cells: int
    expected_s: dict[str, float]
    took_s: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, planned: Plan, store: Store) -> Self:
        """The outlook at the beginning of a run."""
        waiting = [each for each in planned.cells if each.state == "to run"]
        last = similar_records(waiting, store)
        known = {key: record.measured.total_s for key, record in last.items()}
        return cls(len(waiting), {each.cell.key: known.get(each.cell.key, -1.0) for each in waiting})

    def ended(self, planned: PlannedCell, seconds: float) -> None:
        """Note that a cell has its record."""
        self.took_s[planned.cell.key] = seconds

    def left_s(self, running: Sequence[Underway]) -> float | None:
        """Seconds until all are done; None while nothing is known about one of them."""
        since = {each.planned.cell.key: each.since_s for each in running}
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
        self._several = len({(each.cell.dataset, each.cell.setting) for each in planned.cells}) > 1
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
        """Say that a cell starts (no record) or how it ended."""
        if record is not None:
            self._outlook.ended(planned, record.measured.total_s)
            self._say(f"{self._name(planned, position)}: {_ended(record, self._runs)}")
        elif self._live is None:
            self._say(f"{self._name(planned, position)}: started")

    def watch(self, running: Sequence[Underway]) -> None:
        """Show how far the cells are that run."""
        lines = [f"{self._name(each.planned, each.position)}: {_doing(each)}" for each in running]
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
        left_s = self._outlook.left_s(running)
        left = f", about {duration(left_s)} left" if left_s is not None else ""
        return f"{len(self._outlook.took_s)} of {self._outlook.cells} cells done, {len(running)} running{left}"

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text(terminal(line)), soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _ended(record: Record, runs: Path) -> str:
    """How a cell ended, in one line."""
    took = f"{record.measured.total_s:.1f} s"
    if record.status == "unscored":  # as are all documents of `suggest`; tables of results say why
        return f"done, {took}"
    said = f"{record.status}, {took}"
    return said if record.ok else f"{said}: {record.reason}{files_of(record, runs)}"


def _doing(cell: Underway) -> str:
    """What a cell does, and how far it is."""
    report = cell.report
    if report is None:
        return f"starting, {duration(cell.since_s)}"
    return ", ".join([report.phase, *_steps(report), duration(cell.since_s)])


def _steps(report: Report) -> list[str]:
    if not report.done and not report.total:
        return []
    share = f" ({report.done / report.total:.0%})" if report.total else ""
    said = [f"{report.unit} {report.done}{f' of {report.total}' if report.total else ''}{share}"]
    said += [f"{report.rate:.3g}/s"] if report.rate else []
    return said + ([f"{duration(report.left_s)} left"] if report.left_s is not None else [])
