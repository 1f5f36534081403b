"""Run a plan's cells, each in a process of its own, and write each record the moment its cell ends."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench import environment
from xmcbench.metrics import protocol
from xmcbench.records import SCHEMA, Store
from xmcbench.runner.job import Job, Outcome
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.supervisor import Ending, supervise

if TYPE_CHECKING:
    from xmcbench.data import Dataset


@dataclass(frozen=True)
class Limits:
    """What one cell may take: wall seconds, and GiB of memory for its process and all it starts."""

    time_s: float | None = None
    memory_gib: float | None = None


#: Called when a cell starts (record None) and when it ends: the cell, its place, its record.
Progress = Callable[[PlannedCell, int, dict[str, Any] | None], None]


def execute(
    plan: Plan,
    dataset: Dataset,
    source: str,
    store: Store,
    plugins: Sequence[Path] = (),
    limits: Limits | None = None,
    progress: Progress = lambda *_: None,
    force: bool = False,
) -> list[dict[str, Any]]:
    """The record of every cell of the plan, in its order; cells that have one already are not run.

    ``source`` is the name or folder the data set is loaded by, once more in each process.

    A cell that fails, hangs or runs out of memory is a record that says so, and the rest go on. When two runs write
    one folder, a cell that the other one is at is left to it and its record taken. Raises StorageError when a record
    cannot be written; on Ctrl-C the finished records stay.
    """
    records: dict[int, dict[str, Any]] = {}
    waiting = list(enumerate(plan.cells))
    busy: list[tuple[int, PlannedCell]] = []
    for wait, queue in ((False, waiting), (True, busy)):
        for position, planned in queue:
            if planned.state != "to run" and planned.record is not None:
                records[position] = planned.record
                continue
            with store.lock(planned.cell, wait=wait) as claim:
                if not claim.held:
                    busy.append((position, planned))
                    continue
                # Another run may have ended it since the plan was made.
                made = store.find(planned.cell)
                if made is not None and made["status"] == "ok" and made != planned.record and not force:
                    records[position] = made
                    continue
                progress(planned, position, None)
                records[position] = _run_cell(planned, dataset, source, store, plugins, limits or Limits())
                progress(planned, position, records[position])
    return [records[position] for position in sorted(records)]


def _run_cell(
    planned: PlannedCell, dataset: Dataset, source: str, store: Store, plugins: Sequence[Path], limits: Limits
) -> dict[str, Any]:
    cell = planned.cell
    started = datetime.now(UTC)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="xmcbench-") as scratch:
        outcome_file = Path(scratch, "outcome.json")
        job = Job(
            dataset=source,
            dataset_digest=dataset.digest,
            method=cell.method,
            plugins=tuple(str(plugin.resolve()) for plugin in plugins),
            parameters=cell.parameters,
            seed=cell.seed,
            source=planned.source,
            pairs=str(store.subset_path(dataset.slug, planned.subset).resolve()) if planned.subset else None,
            predictions=str(store.predictions_path(cell).resolve()),
            outcome=str(outcome_file),
            artefacts=str(store.artefacts.resolve()),
        )
        job.write(Path(scratch, "job.json"))
        log = store.log_path(cell)
        ending = supervise(
            # -P: the package that is installed, not a folder of its name where the user happens to stand.
            [sys.executable, "-P", "-m", "xmcbench.runner.worker", str(Path(scratch, "job.json"))],
            log,
            _environment(),
            limits.time_s,
            int(limits.memory_gib * 2**30) if limits.memory_gib else None,
        )
        outcome = Outcome.read(outcome_file)
    record = _record(planned, dataset, outcome, ending, limits)
    record["measured"] = {
        **record.pop("measured"),
        "started": started.isoformat(timespec="seconds"),
        "total_s": time.perf_counter() - begin,
    }
    if record["status"] == "ok":
        record["predictions"]["file"] = store.predictions_path(cell).relative_to(store.root).as_posix()
    else:
        record["log"] = log.relative_to(store.root).as_posix()
    return store.write(cell, record)


def _environment() -> dict[str, str]:
    """The environment of a cell's process: the user's, and two settings of ours."""
    # A thread that waits gives its core back: spinning ones bring a shared machine to a standstill.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE"}
    # Hash order must not differ between two runs of one seed.
    return {**waiting, **os.environ, "PYTHONHASHSEED": "0"}


def _record(
    planned: PlannedCell, dataset: Dataset, outcome: Outcome | None, ending: Ending, limits: Limits
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if ending.timed_out:
        status, reason = "timeout", f"stopped after the time limit of {limits.time_s:g} s"
    elif outcome is None or ending.over_memory:
        status, reason = "failed", ending.reason
    else:
        status, reason, result = outcome.status, outcome.reason, dict(outcome.result)
    measured = {"wall_s": {}, **result.pop("measured", {})}
    # The process knows its own peak exactly, the sampling knows of its children: the higher of the two is meant.
    measured["peak_memory_bytes"] = max(ending.peak_memory_bytes, measured.get("peak_memory_bytes", 0))
    return {
        "schema": SCHEMA,
        "key": planned.cell.key,
        "cell": planned.cell.identity(),
        "method": {
            "title": planned.title,
            "variant": planned.variant,
            "supervision": planned.method.supervision,
            "source_sha256": planned.source,
        },
        "subset": planned.subset.identity() if planned.subset else None,
        "counts": dataset.counts(),
        "status": status,
        "reason": reason,
        "protocol": {"version": protocol.VERSION, "filter": dataset.card.filter},
        "environment": {"packages": environment.packages(), "hardware": environment.hardware()},
        "measured": measured,
        **result,
    }
