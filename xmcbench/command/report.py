"""What a run prints: progress on stderr, the plan or the table on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from xmcbench.leaderboard.markup import plain
from xmcbench.leaderboard.rows import grouped, names, rows
from xmcbench.leaderboard.tables import MAIN, cost_table, metric_table
from xmcbench.records import Record, Standing, Store, as_json
from xmcbench.runner.plan import Plan, PlannedCell, Skipped


class Progress:
    """One line a cell on stderr, and only when stderr is a terminal."""

    def __init__(self, cells: int) -> None:
        self._cells, self._shown = cells, sys.stderr.isatty()

    def __call__(self, planned: PlannedCell, position: int, record: Record | None) -> None:
        """Say that a cell starts (no record) or how it ended."""
        if not self._shown:
            return
        place = f"[{position + 1}/{self._cells}] {planned.name}, seed {planned.cell.seed}"
        if record is None:
            print(f"{place} ...", file=sys.stderr, end="\r", flush=True)
        else:
            print(f"{place}: {record.status}, {record.measured.total_s:.1f} s", file=sys.stderr)


def warn_skipped(skipped: Sequence[Skipped]) -> None:
    """One line for every method that `all` left out."""
    for each in skipped:
        print(f"xmcbench: {each}", file=sys.stderr)


def tables(records: Sequence[Record], filter_name: str, standing: Standing) -> str:
    """The result of a run: metrics, costs, then what failed and what is stale."""
    made = rows(records, filter_name, standing)
    parts = []
    if any(row.figures for row in made):
        # One machine has run all this, or a row stands twice.
        costs = [(row, cost) for row in made for cost in row.costs.values()]
        parts += [plain(metric_table(made, MAIN)), plain(cost_table(costs))]
    parts += [f"{row.name}, {problem}" for row in made for problem in row.problems]
    parts += [f"{row.name}: {mark} (--refresh runs it again)" for row in made for mark in row.marks]
    return "\n\n".join(parts)


def stale(records: Sequence[Record], standing: Standing) -> list[tuple[str, str]]:
    """(row, what is wrong) of every row with stale results, or with results of different code."""
    groups = grouped(record for record in records if record.ok)
    return [(name, each) for key, name in names(groups).items() for each in standing.problems(groups[key])]


def records_json(records: Sequence[Record], standing: Standing) -> list[dict[str, Any]]:
    """Records as JSON values, each with what a reader has to know of it: null, or why it is stale."""
    return [{**as_json(record), "problem": standing.problem(record) or None} for record in records]


def skipped_json(skipped: Sequence[Skipped]) -> list[dict[str, str]]:
    """What `all` left out, as JSON values."""
    return [{"method": each.method, "reason": each.reason, "hint": each.hint} for each in skipped]


def plan_json(planned: Plan, store: Store) -> dict[str, Any]:
    """What a run would do, as JSON values."""
    return {"cells": _planned_cells(planned, store), "skipped": skipped_json(planned.skipped)}


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=1, sort_keys=True))


def plan_table(planned: Plan, store: Store) -> str:
    """What a run would do, a line a cell: its state, and what it or its like took when it last ran here."""
    from tabulate import tabulate

    lines = []
    for each in _planned_cells(planned, store):
        seconds, memory = each["last_s"], each["last_peak_memory_bytes"]
        costs = [f"{seconds:.1f}", f"{memory / 2**30:.2f}"] if seconds is not None else ["", ""]
        lines.append([each["method"], each["seed"], each["state"], *costs])
    lines += [[each.method, "", f"skipped: {each.reason}", "", ""] for each in planned.skipped]
    return str(tabulate(lines, ["Method", "seed", "state", "last s", "last peak GiB"], disable_numparse=True))


def _planned_cells(planned: Plan, store: Store) -> list[dict[str, Any]]:
    latest = {} if all(each.record for each in planned.cells) else store.latest(planned.cells[0].cell.dataset)
    cells = []
    for each in planned.cells:
        last = each.record or latest.get(each.cell.method)
        cells.append(
            {
                "method": each.name,
                "seed": each.cell.seed,
                "state": each.state,
                "key": each.cell.key,
                "last_s": last.measured.total_s if last else None,
                "last_peak_memory_bytes": last.measured.peak_memory_bytes if last else None,
            }
        )
    return cells
