"""What a run prints: progress on stderr, the plan or the table on stdout."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.command.progress import Display
from xmcbench.errors import UsageError
from xmcbench.experiment import Experiment, Run, Shown
from xmcbench.output.escaping import terminal
from xmcbench.output.layout import laid_out
from xmcbench.output.quantities import counted, duration
from xmcbench.records import Record, Standing, Store, as_json
from xmcbench.records.standing import HINT
from xmcbench.runner.estimate import Estimate, SharedWork
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.rows import Skipped

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.results import Results


def execute(experiment: Experiment[Shown]) -> Shown:
    """Execute an experiment with progress, and announce cached and stale cells."""
    planned = experiment.plan
    _warn_damaged(planned)
    states = [each.state for each in planned.cells]
    if finished := len(states) - states.count("to run"):
        stale = states.count("stale")
        said = f"{finished} of {counted(len(states), 'cell')} cached"
        said += f"; {stale} of them stale (--refresh reruns these)" if stale else " (--force reruns them)"
        print(f"xmcbench: {said}", file=sys.stderr)
    with Display(planned, Store(experiment.options.runs)) as display:
        return experiment.execute(display.progress, display.watch)


def pretrain(experiment: Run, as_json: bool = False) -> int:
    """Run the shared pre-training of an experiment, with a line for each; 1 if one failed."""
    from xmcbench.runner.pretraining import Pretrained

    def progress(planned: PlannedCell, position: int, ended: Pretrained | None) -> None:
        name = f"pre-training of {planned.name} on {planned.cell.dataset}, seed {planned.cell.seed}"
        said = "started"
        if ended is not None:
            done = f"done in {duration(ended.took_s)}"
            said = done if ended.ok else f"failed: {ended.reason} (log: {ended.log})"
        print(f"{name}: {said}", file=sys.stderr, flush=True)

    found = experiment.pretrain(progress)
    if as_json:
        lines = [
            {"method": each.planned.name, "seed": each.planned.cell.seed, "reason": each.reason, "took_s": each.took_s}
            for each in found
        ]
        print_json({"pretrainings": lines})
    else:
        print(f"{sum(each.ok for each in found)} of {len(found)} pre-trainings done")
    return 0 if all(each.ok for each in found) else 1


def dry_run(experiment: Experiment[Shown], as_json: bool = False) -> int:
    """Print what an experiment would run."""
    planned, jobs = experiment.plan, experiment.jobs
    _warn_damaged(planned)
    estimate = Estimate.of(planned, Store(experiment.options.runs))
    if as_json:
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


def check_new(path: Path, force: bool, flag: str = "--force") -> None:
    """Raise UsageError, before any work, for a file that would be replaced without ``flag``."""
    if path.exists() and not force:
        raise UsageError(f"{path} already exists", f"choose another name, or replace it with {flag}")


def warn_left_out(store: Store) -> int:
    """One line for every record that could not be read; 1 if there are such."""
    for error in store.left_out.values():
        print(f"xmcbench: left out: {error}", file=sys.stderr)
    return 1 if store.left_out else 0


def note_earlier(earlier: Mapping[str, int]) -> None:
    """One line for each dataset with results on an earlier version of it, which are left out."""
    for dataset, number in sorted(earlier.items()):
        print(f"left out: {counted(number, 'result')} on an earlier version of {terminal(dataset)}", file=sys.stderr)


def note_unknown(records: Iterable[Record], standing: Standing) -> None:
    """One line for methods that are not here: whether their results are stale cannot be said."""
    if unknown := sorted({name for each in records if each.ok for name in standing.lacking(each)}):
        print(
            f"xmcbench: note: whether results of {', '.join(map(terminal, unknown))} are stale is not known ({HINT})",
            file=sys.stderr,
        )


def _warn_damaged(planned: Plan) -> None:
    """One line for every cell whose record is damaged, so that it runs again."""
    for each in planned.cells:
        if each.damage:
            print(f"xmcbench: {each.damage}; the cell runs again", file=sys.stderr)


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


def results_json(results: Results) -> dict[str, Any]:
    """Return the filter of results, or that of each dataset where they differ, and the methods that were left out."""
    filters = {part.records[0].cell.dataset: part.filter for part in results.parts()}
    return {"filter": results.filter or filters, "skipped": skipped_json(results.skipped)}


def records_json(records: Sequence[Record], standing: Standing) -> list[dict[str, Any]]:
    """Records as JSON values, each with a note: null, or why it is stale."""
    return [{**as_json(record), "problem": standing.problem(record) or None} for record in records]


def skipped_json(skipped: Sequence[Skipped]) -> list[dict[str, Any]]:
    """What was left out, as JSON values."""
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
        why = f"{left_out.reason} ({left_out.hint})" if left_out.hint else left_out.reason
        lines.append([left_out.method, *where, "", f"skipped: {why}", "", ""])
    heads = ["Method", *(["dataset", "setting"] if several else []), "seed", "state", "last s", "last peak GiB"]
    figures = {"seed", "last s", "last peak GiB"}
    return laid_out(lines, heads, ["right" if head in figures else "left" for head in heads])


def _summary(planned: Plan, estimate: Estimate, jobs: int) -> str:
    """Cells by state, what they share, and what the whole takes."""
    states = Counter(each.state for each in planned.cells)
    listed = ", ".join(f"{states[state]} {state}" for state in ("to run", "cached", "stale") if states[state])
    said = [f"{counted(len(planned.cells), 'cell')}: {listed}." if listed else "0 cells."]
    for each in estimate.shared:
        said.append(
            f"The pre-training of {each.method}, seed {each.seed}, on {each.dataset} is done once for "
            f"{counted(len(each.cells), 'cell')}."
        )
    if states["to run"]:
        measured = states["to run"] - estimate.unmeasured
        at_once = f"{jobs} at once" if jobs > 1 else "one after the other"
        known = f"{duration(estimate.total_s / jobs)} for {counted(measured, 'cell')}, {at_once}" if measured else ""
        unknown = f"{counted(estimate.unmeasured, 'cell')} not measured yet" if estimate.unmeasured else ""
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
