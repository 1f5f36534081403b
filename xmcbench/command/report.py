"""What a run prints: progress on stderr, the plan or the table on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.api import Options
from xmcbench.command.progress import Display, duration
from xmcbench.errors import UsageError
from xmcbench.layout import laid_out
from xmcbench.records import Record, Standing, Store, as_json
from xmcbench.registry import Registry
from xmcbench.results import Results
from xmcbench.runner.estimate import Estimate, SharedWork
from xmcbench.runner.plan import Plan, PlannedCell, Skipped

if TYPE_CHECKING:
    from xmcbench.data import Dataset


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
        said = f"{finished} of {len(states)} cells are finished and will not be run again"
        said += f"; {stale} are stale (use --refresh to rerun those)" if stale else " (use --force to rerun them)"
        print(f"xmcbench: {said}", file=sys.stderr)
    with Display(planned, Store(options.runs)) as display:
        records = replace(options, progress=display.progress, watch=display.watch).executed(planned)
    return Results(tuple(records), filter_name, options.runs, planned.standing, tuple(planned.skipped))


def pretrained(planned: Plan, options: Options, as_json: bool = False) -> int:
    """Do the pre-trainings of a plan, with a line each; 1 if one failed."""
    from xmcbench.runner.pretraining import Pretrained

    def progress(planned: PlannedCell, position: int, ended: Pretrained | None) -> None:
        name = f"pre-training of {planned.name} on {planned.cell.dataset}, seed {planned.cell.seed}"
        said = "started"
        if ended is not None:
            done = f"done in {duration(ended.took_s)}"
            said = done if ended.ok else f"failed: {ended.reason} (log: {ended.log})"
        print(f"{name}: {said}", file=sys.stderr, flush=True)

    found = options.pretrained(planned, progress)
    if as_json:
        lines = [
            {"method": each.planned.name, "seed": each.planned.cell.seed, "reason": each.reason, "took_s": each.took_s}
            for each in found
        ]
        print_json({"pretrainings": lines})
    else:
        print(f"{sum(each.ok for each in found)} of {len(found)} pre-trainings done")
    return 0 if all(each.ok for each in found) else 1


def dry_run(planned: Plan, options: Options, arguments: argparse.Namespace) -> int:
    """Print what a run would do."""
    jobs = options.jobs_of(planned)
    estimate = Estimate.of(planned, Store(arguments.runs))
    if arguments.json:
        print_json(
            {
                "cells": _planned_cells(planned, estimate),
                "skipped": skipped_json(planned.skipped),
                "shared": [_shared_json(each) for each in estimate.shared],
                "estimate": {"total_s": estimate.total_s, "unmeasured": estimate.unmeasured, "jobs": jobs},
            }
        )
    else:
        print(_plan_table(planned, estimate), _summary(planned, estimate, jobs), sep="\n\n")
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


def show_notes(datasets: Iterable[Dataset]) -> None:
    """One line for everything that was left out, assumed or drawn when datasets were read."""
    different = {(dataset.name, dataset.digest): dataset for dataset in datasets}.values()
    for dataset in different:
        whose = f"{dataset.name}: " if len(different) > 1 else ""
        for note in dataset.notes:
            print(f"xmcbench: note: {whose}{note}", file=sys.stderr)


def warn_skipped(skipped: Sequence[Skipped]) -> None:
    """One line for every method that `all` leaves out."""
    for each in skipped:
        print(f"xmcbench: {each}", file=sys.stderr)


def records_json(records: Sequence[Record], standing: Standing) -> list[dict[str, Any]]:
    """Records as JSON values, each with a note: null, or why it is stale."""
    return [{**as_json(record), "problem": standing.problem(record) or None} for record in records]


def skipped_json(skipped: Sequence[Skipped]) -> list[dict[str, Any]]:
    """What `all` left out, as JSON values."""
    return [
        {"method": each.method, "reason": each.reason, "hint": each.hint, "where": list(each.where)} for each in skipped
    ]


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=1, sort_keys=True))


def _plan_table(planned: Plan, estimate: Estimate) -> str:
    """What a run would do, one row per cell: its state, and the cost of the last similar cell that ran here."""
    several = len({(each.cell.dataset, each.cell.setting) for each in planned.cells}) > 1
    lines = []
    for each in _planned_cells(planned, estimate):
        seconds, memory = each["last_s"], each["last_peak_memory_bytes"]
        costs = [f"{seconds:.1f}", f"{memory / 2**30:.2f}"] if seconds is not None else ["", ""]
        where = [each["dataset"], each["setting"]] if several else []
        lines.append([each["method"], *where, each["seed"], each["state"], *costs])
    for left_out in planned.skipped:
        where = ["", ", ".join(left_out.where)] if several else []
        lines.append([left_out.method, *where, "", f"skipped: {left_out.reason}", "", ""])
    heads = ["Method", *(["dataset", "setting"] if several else []), "seed", "state", "last s", "last peak GiB"]
    return laid_out(lines, heads)


def _summary(planned: Plan, estimate: Estimate, jobs: int) -> str:
    """Cells by state, what they share, and what the whole takes."""
    states = Counter(each.state for each in planned.cells)
    counted = ", ".join(f"{states[state]} {state}" for state in ("to run", "cached", "stale") if states[state])
    said = [f"{len(planned.cells)} cells: {counted}."]
    for each in estimate.shared:
        said.append(
            f"The pre-training of {each.method}, seed {each.seed}, on {each.dataset} is done once for "
            f"{len(each.cells)} cells."
        )
    if states["to run"]:
        measured = states["to run"] - estimate.unmeasured
        at_once = f"{jobs} at once" if jobs > 1 else "one after the other"
        known = f"{duration(estimate.total_s / jobs)} for {measured} cells, {at_once}" if measured else ""
        unknown = f"{estimate.unmeasured} cells have not been measured" if estimate.unmeasured else ""
        said.append(f"Estimate: {'; '.join(filter(None, [known, unknown]))}.")
    return "\n".join(said)


def _planned_cells(planned: Plan, estimate: Estimate) -> list[dict[str, Any]]:
    cells = []
    for each in planned.cells:
        last = estimate.last.get(each.cell.key)
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


def _shared_json(each: SharedWork) -> dict[str, Any]:
    return {"method": each.method, "dataset": each.dataset, "seed": each.seed, "cells": len(each.cells)}
