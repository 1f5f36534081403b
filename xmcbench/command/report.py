"""Output of a run: progress on stderr, the plan or the table on stdout."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError, XmcbenchError
from xmcbench.output.escaping import terminal
from xmcbench.output.layout import fill, format_table
from xmcbench.output.quantities import duration, format_count

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.experiment import Experiment, Run, Shown
    from xmcbench.records import Record, Staleness, Store
    from xmcbench.results import Results
    from xmcbench.runner.plan import Plan, PlannedCell
    from xmcbench.runner.rows import Skipped
    from xmcbench.runner.schedule import Estimate
    from xmcbench.runner.scoring import StoredScores
    from xmcbench.setting import Setting


def execute(experiment: Experiment[Shown]) -> Shown:
    """Execute an experiment with progress, and announce cached and stale cells."""
    planned = experiment.plan
    _warn_damaged(planned)
    states = Counter(cell.state for cell in planned.cells)
    if finished := len(planned.cells) - states["to run"]:
        stale = (
            f"; {states['stale']} of them stale (--refresh reruns these)"
            if states["stale"]
            else " (--force reruns them)"
        )
        print(f"xmcbench: {finished} of {format_count(len(planned.cells), 'cell')} cached{stale}", file=sys.stderr)
    return experiment.execute(lines=True)


def run_pretraining(experiment: Run, as_json: bool = False) -> int:
    """Run the shared pre-training of an experiment, with a line per pre-training; 1 if one failed."""
    from xmcbench.runner.pretraining import Pretrained, pretrain

    def progress(planned: PlannedCell, position: int, ended: Pretrained | None) -> None:
        name = f"pre-training of {planned.name} on {planned.cell.dataset}, seed {planned.cell.seed}"
        said = "started"
        if ended is not None:
            done = f"done in {duration(ended.took_s)}"
            said = done if ended.ok else f"failed: {ended.reason} (log: {ended.log})"
        print(f"{name}: {said}", file=sys.stderr, flush=True)

    found = pretrain(experiment.plan, experiment.options.target, progress)
    if as_json:
        lines = [
            {
                "method": made.planned.name,
                "dataset": made.planned.cell.dataset,
                "seed": made.planned.cell.seed,
                "reason": made.reason,
                "took_s": made.took_s,
            }
            for made in found
        ]
        print_json({"pretrainings": lines})
    else:
        print(f"{sum(made.ok for made in found)} of {len(found)} pre-trainings done")
    return 0 if all(made.ok for made in found) else 1


def dry_run(experiment: Experiment[Shown], as_json: bool = False) -> int:
    """Print the plan of an experiment."""
    from xmcbench.records import Store
    from xmcbench.runner.schedule import Estimate

    planned, jobs = experiment.plan, experiment.jobs
    _warn_damaged(planned)
    estimate = Estimate.of(planned, Store(experiment.options.runs))
    if as_json:
        print_json(
            {
                "cells": _list_cells(planned, estimate),
                "skipped": list_skipped(planned.skipped),
                "shared": [
                    {"method": work.method, "dataset": work.dataset, "seed": work.seed, "cells": len(work.cells)}
                    for work in estimate.shared
                ],
                "estimate": {"total_s": estimate.total_s, "unmeasured": estimate.unmeasured, "jobs": jobs},
            }
        )
    else:
        print(_plan_table(planned, estimate), fill(_summary(planned, estimate, jobs)), sep="\n\n")
    return 0


def check_new(path: Path, force: bool, flag: str = "--force") -> None:
    """Raise UsageError, before any work, for a file that would be replaced without ``flag``."""
    if path.exists() and not force:
        raise UsageError(f"{path} already exists", f"choose another name, or replace it with {flag}")


def warn_left_out(store: Store) -> int:
    """Print one line for every record that could not be read; return 1 if there is one."""
    for error in store.left_out.values():
        print(f"xmcbench: left out: {error}", file=sys.stderr)
    return 1 if store.left_out else 0


def select_latest(records: Iterable[Record], places: Mapping[str, str] | None = None) -> list[Record]:
    """Return the records on one version of the data of each name, and print one line per name with results on others.

    It is the version on this machine, if it has a result and is found by its name or in ``places`` (name -> place), or
    else that of the last run.
    """
    from xmcbench.leaderboard.consistency import latest
    from xmcbench.leaderboard.groups import by_dataset

    found = list(records)
    versions = {(record.cell.dataset, record.cell.dataset_sha256) for record in found}
    several = {name for name, number in Counter(name for name, _ in versions).items() if number > 1}
    here = _digests_here(several, places or {})
    kept, others = latest(found, here)
    shown = {record.cell.dataset: record.cell.dataset_sha256 for record in kept}
    for name, left_out in sorted(by_dataset(others).items()):
        digests = ", ".join(sorted({record.cell.dataset_sha256[:4] for record in left_out}))
        why = "are on this machine" if here.get(name) == shown[name] else "were run last"
        print(
            f"left out: {format_count(len(left_out), 'result')} on other data of the same name, {terminal(name)} "
            f"(data {digests}); shown are those on data {shown[name][:4]}, which {why}",
            file=sys.stderr,
        )
    return kept


def _digests_here(names: Iterable[str], places: Mapping[str, str]) -> dict[str, str]:
    """Return name -> SHA-256 of the datasets of these names that can be read on this machine."""
    from xmcbench.data.catalog import is_name, load_dataset

    found = {}
    for name in names:
        if name in places or is_name(name):
            with suppress(XmcbenchError):  # the records can be shown without their data
                found[name] = load_dataset(places.get(name, name)).digest
    return found


def note_untested(scores: StoredScores) -> None:
    """Print one line about the records whose ranks could not be read."""
    for error in [*scores.missing.values()][:1]:
        unread = format_count(len(scores.missing), "record")
        print(f"no test of rows with the ranks of {unread}, the first: {terminal(str(error))}", file=sys.stderr)


def note_unlisted(records: Iterable[Record], setting: Setting) -> None:
    """Print one line per dataset with results in a setting that is left out because none is named."""
    from xmcbench.leaderboard.groups import for_tuning, is_listed

    there = {record.cell.dataset for record in records if record.ok and record.cell.setting == setting}
    for dataset in sorted(name for name in there if not is_listed(name)):
        kind = "a dataset for tuning" if for_tuning(dataset) else "a sample of a dataset"
        print(f"left out: {terminal(dataset)}, by its name {kind} (--dataset includes it)", file=sys.stderr)


def note_unknown(records: Iterable[Record], staleness: Staleness) -> None:
    """Print one line for methods that are not here: it is unknown whether their results are stale."""
    from xmcbench.records.staleness import HINT

    if unknown := sorted({name for record in records if record.ok for name in staleness.find_missing_methods(record)}):
        print(
            f"xmcbench: note: whether results of {', '.join(map(terminal, unknown))} are stale is not known ({HINT})",
            file=sys.stderr,
        )


def _warn_damaged(planned: Plan) -> None:
    for damage in (cell.damage for cell in planned.cells if cell.damage):
        print(f"xmcbench: {damage}; the cell runs again", file=sys.stderr)


def show_notes(datasets: Iterable[Dataset]) -> None:
    """Print one line per item that was left out, assumed or drawn when datasets were read."""
    different = {(dataset.name, dataset.digest): dataset for dataset in datasets}.values()
    for dataset in different:
        whose = f"{dataset.name}: " if len(different) > 1 else ""
        for note in dataset.notes:
            print(f"xmcbench: note: {whose}{note}", file=sys.stderr)


def warn_skipped(skipped: Sequence[Skipped]) -> None:
    """Print one line for every method that `all` leaves out."""
    for method in skipped:
        print(f"xmcbench: {method}", file=sys.stderr)


def results_json(results: Results) -> dict[str, Any]:
    """Return the filter of results, or that of each dataset where they differ, and the methods that were left out."""
    filters = {part.records[0].cell.dataset: part.filter for part in results.parts()}
    return {"filter": results.filter or filters, "skipped": list_skipped(results.skipped)}


def records_json(records: Sequence[Record], staleness: Staleness) -> list[dict[str, Any]]:
    """Return records as JSON values, with the reason why a record is stale, or null."""
    from xmcbench.records import as_json

    return [{**as_json(record), "problem": staleness.problem(record) or None} for record in records]


def list_skipped(skipped: Sequence[Skipped]) -> list[dict[str, Any]]:
    """Return the methods that were left out as JSON values."""
    names = ("method", "reason", "hint", "where")
    return [{name: getattr(method, name) for name in names} for method in skipped]


def show(found: Any, as_json: bool) -> None:
    """Print an answer as text, or as one JSON document."""
    print(json.dumps(found.as_json(), indent=1) if as_json else fill(str(found)))


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=1, sort_keys=True))


def _plan_table(planned: Plan, estimate: Estimate) -> str:
    """Return the plan, one row per cell: its state, and the cost of the last similar cell that ran here."""
    several = len({(cell.cell.dataset, cell.cell.setting) for cell in planned.cells}) > 1
    lines = []
    for cell in _list_cells(planned, estimate):
        seconds, memory = cell["last_s"], cell["last_peak_memory_bytes"]
        costs = [f"{seconds:.1f}", f"{memory / 2**30:.2f}"] if seconds is not None else ["", ""]
        where = [cell["dataset"], cell["setting"]] if several else []
        lines.append([cell["method"], *where, cell["seed"], cell["state"], *costs])
    for left_out in planned.skipped:
        where = ["", ", ".join(left_out.where)] if several else []
        why = f"{left_out.reason} ({left_out.hint})" if left_out.hint else left_out.reason
        lines.append([left_out.method, *where, "", f"skipped: {why}", "", ""])
    heads = ["Method", *(["dataset", "setting"] if several else []), "seed", "state", "last s", "last peak GiB"]
    return format_table(
        lines, heads, ["left" if head in ("Method", "dataset", "setting", "state") else "right" for head in heads]
    )


def _summary(planned: Plan, estimate: Estimate, jobs: int) -> str:
    """Return the cells by state, the work that they share, and an estimate of the time."""
    states = Counter(cell.state for cell in planned.cells)
    listed = ", ".join(f"{states[state]} {state}" for state in ("to run", "cached", "stale") if states[state])
    said = [f"{format_count(len(planned.cells), 'cell')}: {listed}." if listed else "0 cells."]
    for work in estimate.shared:
        said.append(
            f"The pre-training of {work.method}, seed {work.seed}, on {work.dataset} is done once for "
            f"{format_count(len(work.cells), 'cell')}."
        )
    for cell in planned.cells:
        if cell.cell.key in estimate.calls:
            calls, tokens = estimate.calls[cell.cell.key]
            said.append(
                f"{cell.name}, seed {cell.cell.seed}, on {cell.cell.dataset} asks a model at most {calls:,} questions, "
                f"of about {int(float(f'{tokens:.2g}')):,} tokens; those whose answers are kept cost nothing."
            )
    if states["to run"]:
        measured = states["to run"] - estimate.unmeasured
        at_once = f"{jobs} at once" if jobs > 1 else "one after the other"
        known = (
            f"{duration(estimate.total_s / jobs)} for {format_count(measured, 'cell')}, {at_once}" if measured else ""
        )
        unknown = f"{format_count(estimate.unmeasured, 'cell')} not measured yet" if estimate.unmeasured else ""
        said.append(f"Estimate: {'; '.join(filter(None, [known, unknown]))}.")
    return "\n".join(said)


def _list_cells(planned: Plan, estimate: Estimate) -> list[dict[str, Any]]:
    cells = []
    for cell in planned.cells:
        last, calls = estimate.last.get(cell.cell.key), estimate.calls.get(cell.cell.key)
        cells.append(
            {
                "method": cell.name,
                "dataset": cell.cell.dataset,
                "setting": cell.cell.setting.slug,
                "seed": cell.cell.seed,
                "state": cell.state,
                "key": cell.cell.key,
                "last_s": last.measured.total_s if last else None,
                "last_peak_memory_bytes": last.measured.peak_memory_bytes if last else None,
                **({"calls": calls[0], "tokens": calls[1]} if calls else {}),
            }
        )
    return cells
