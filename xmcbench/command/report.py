"""What a run prints: progress on stderr, the plan or the table on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xmcbench.api import Options
from xmcbench.errors import UsageError
from xmcbench.records import Record, Standing, Store, as_json
from xmcbench.registry import Registry
from xmcbench.results import Results
from xmcbench.runner.plan import Plan, PlannedCell, Skipped


class Progress:
    """One line per cell on stderr, and only when stderr is a terminal."""

    def __init__(self, cells: int) -> None:
        self._cells, self._shown = cells, sys.stderr.isatty()

    def __call__(self, planned: PlannedCell, position: int, record: Record | None) -> None:
        """Show that a cell starts (no record) or how it ended."""
        if not self._shown:
            return
        place = f"[{position + 1}/{self._cells}] {planned.name}, seed {planned.cell.seed}"
        if record is None:
            print(f"{place} ...", file=sys.stderr, end="\r", flush=True)
        else:
            print(f"{place}: {record.status}, {record.measured.total_s:.1f} s", file=sys.stderr)


def registry(options: Options) -> Registry:
    """All methods; prints a note where one replaces another."""
    found = options.registry()
    for note in found.notes:
        print(f"xmcbench: {note}", file=sys.stderr)
    return found


def carried_out(planned: Plan, options: Options, filter_name: str) -> Results:
    """Execute a plan with progress, and announce cached and stale cells."""
    states = [each.state for each in planned.cells]
    if finished := len(states) - states.count("to run"):
        stale = states.count("stale")
        said = f"{finished} of {len(states)} cells are finished and not run again"
        said += f", {stale} of them stale (--refresh runs these)" if stale else " (--force does)"
        print(f"xmcbench: {said}", file=sys.stderr)
    records = replace(options, progress=Progress(len(planned.cells))).executed(planned)
    return Results(tuple(records), filter_name, options.runs, planned.standing, tuple(planned.skipped))


def dry_run(planned: Plan, arguments: argparse.Namespace) -> int:
    """Print what a run would do."""
    store = Store(arguments.runs)
    if arguments.json:
        print_json({"cells": _planned_cells(planned, store), "skipped": skipped_json(planned.skipped)})
    else:
        print(_plan_table(planned, store))
    return 0


def check_new(path: Path, force: bool) -> None:
    """Raise UsageError, before any work, for a file that would be replaced without --force."""
    if path.exists() and not force:
        raise UsageError(f"{path} already exists", "choose another name, or replace it with --force")


def warn_left_out(store: Store) -> int:
    """One line for every record that could not be read; 1 if there are such."""
    for error in store.left_out.values():
        print(f"xmcbench: left out: {error}", file=sys.stderr)
    return 1 if store.left_out else 0


def warn_skipped(skipped: Sequence[Skipped]) -> None:
    """One line for every method that `all` leaves out."""
    for each in skipped:
        print(f"xmcbench: {each}", file=sys.stderr)


def records_json(records: Sequence[Record], standing: Standing) -> list[dict[str, Any]]:
    """Records as JSON values, each with a note: null, or why it is stale."""
    return [{**as_json(record), "problem": standing.problem(record) or None} for record in records]


def skipped_json(skipped: Sequence[Skipped]) -> list[dict[str, str]]:
    """What `all` left out, as JSON values."""
    return [{"method": each.method, "reason": each.reason, "hint": each.hint} for each in skipped]


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=1, sort_keys=True))


def _plan_table(planned: Plan, store: Store) -> str:
    """What a run would do, one row per cell: its state, and the cost of the last similar cell that ran here."""
    from tabulate import tabulate

    several = len({(each.cell.dataset, each.cell.setting) for each in planned.cells}) > 1
    lines = []
    for each in _planned_cells(planned, store):
        seconds, memory = each["last_s"], each["last_peak_memory_bytes"]
        costs = [f"{seconds:.1f}", f"{memory / 2**30:.2f}"] if seconds is not None else ["", ""]
        where = [each["dataset"], each["setting"]] if several else []
        lines.append([each["method"], *where, each["seed"], each["state"], *costs])
    where = ["", ""] if several else []
    lines += [[each.method, *where, "", f"skipped: {each.reason}", "", ""] for each in planned.skipped]
    heads = ["Method", *(["dataset", "setting"] if several else []), "seed", "state", "last s", "last peak GiB"]
    return str(tabulate(lines, heads, disable_numparse=True))


def _planned_cells(planned: Plan, store: Store) -> list[dict[str, Any]]:
    latest = {} if all(each.record for each in planned.cells) else store.latest(planned.cells[0].cell.dataset)
    cells = []
    for each in planned.cells:
        last = each.record or latest.get(each.cell.method)
        cells.append(
            {
                "method": each.name,
                "dataset": each.cell.dataset,
                "setting": each.cell.setting.slug,
                "seed": each.cell.seed,
                "state": each.state,
                "key": each.cell.key,
                "last_s": last.measured.total_s if last else None,
                "last_peak_memory_bytes": last.measured.peak_memory_bytes if last else None,
            }
        )
    return cells
