"""Run a plan's cells, each in a separate process, and write each record as soon as its cell ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from xmcbench import environment
from xmcbench.data.catalogue import roots
from xmcbench.environment import Compute
from xmcbench.errors import StorageError, XmcbenchError
from xmcbench.escaping import visible
from xmcbench.metrics import DEPTH, protocol
from xmcbench.processes.lifetime import end_orphans
from xmcbench.processes.supervisor import Ending, supervise
from xmcbench.records import Record, Store
from xmcbench.records.record import (
    Environment,
    Measured,
    MethodFacts,
    Protocol,
    Status,
    SubsetFacts,
    check_readable,
)
from xmcbench.records.standing import figures_current, metrics_digest
from xmcbench.runner.job import Job, Outcome, TextFile
from xmcbench.runner.plan import Plan, PlannedCell
from xmcbench.runner.scorer import Scored, Scorer
from xmcbench.storage.atomic import make_folder
from xmcbench.storage.cache import cache_root
from xmcbench.storage.shipped import shipped
from xmcbench.storage.temporary import scratch, sweep_scratch

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.setting import Subset


@dataclass(frozen=True)
class Limits:
    """The limits of one cell: wall seconds, and GiB of memory for its process and its children."""

    time_s: float | None = None
    memory_gib: float | None = None


#: Called when a cell starts (record None) and when it ends: the cell, its position, its record.
Progress = Callable[[PlannedCell, int, Record | None], None]


@dataclass(frozen=True)
class Place:
    """Where cells run, their limits, and their hardware."""

    store: Store
    limits: Limits = field(default_factory=Limits)
    compute: Compute = field(default_factory=Compute)


def execute(plan: Plan, place: Place, progress: Progress = lambda *_: None, force: bool = False) -> list[Record]:
    """The record of every cell of the plan, in order; cells that already have one are not run.

    A cell that fails, hangs or runs out of memory becomes a record that says so, and the others go on. A finished cell
    whose figures are from other metrics or propensities is scored again from its stored ranks. When two runs share a
    folder, a cell that the other one is running is left to it. Raises StorageError when a record cannot be written; on
    Ctrl-C the finished records stay.
    """
    store, records = place.store, {}
    sweep(store)
    waiting = list(enumerate(plan.cells))
    busy: list[tuple[int, PlannedCell]] = []
    with Scorer() as scorer:
        for wait, queue in ((False, waiting), (True, busy)):
            for position, planned in queue:
                if planned.state != "to run" and planned.record is not None:
                    records[position] = up_to_date(planned.record, planned.dataset, store, scorer)
                    continue
                with store.lock(planned.cell, wait=wait) as claim:
                    if not claim.held:
                        busy.append((position, planned))
                        continue
                    # Another run may have finished it since the plan was made.
                    made = store.find(planned.cell)
                    if made is not None and made.ok and made != planned.record and not force:
                        records[position] = made
                        continue
                    progress(planned, position, None)
                    records[position] = _run_cell(planned, place, scorer)
                    if not records[position].ok:
                        store.sweep()  # what its process was writing when it ended
                    progress(planned, position, records[position])
    return [records[position] for position in sorted(records)]


def sweep(store: Store) -> None:
    """Remove what runs that were killed left behind: processes, temporary folders, files that were being written."""
    end_orphans()
    sweep_scratch()
    store.sweep()


def up_to_date(record: Record, dataset: Dataset, store: Store, scorer: Scorer) -> Record:
    """The record with the figures of today's metrics and card; written if they have changed.

    A record without ranks stays as it is: nothing can be computed from it.
    """
    current = figures_current(record, dataset.propensity) and record.protocol.filter == dataset.card.filter
    if not record.ok or current or record.ranks is None:
        return record
    return rescored(record, dataset.card.filter, dataset.propensity, store, scorer)


def rescored(record: Record, filter_name: str, propensity: tuple[float, float], store: Store, scorer: Scorer) -> Record:
    """The record with the figures of today's metrics from its ranks; replaces the old one."""
    scored = scorer.rescore(record.cell, store.root, filter_name, propensity)
    return store.write(msgspec.structs.replace(record, metrics=scored.metrics, protocol=scored.protocol))


def _run_cell(planned: PlannedCell, place: Place, scorer: Scorer) -> Record:
    cell, store, dataset, limits = planned.cell, place.store, planned.dataset, place.limits
    started, begin = datetime.now(UTC), time.perf_counter()
    log, depth = store.relative(store.log_path(cell)), DEPTH + dataset.longest_filter
    # The earlier result of this cell stays until there is another one.
    with store.staging() as staged:
        outcome, ending = in_a_process(planned, place, staged, depth)
        status, reason = status_of(outcome, ending, limits)
        scored = None
        if status == "ok":
            try:
                scored = scorer.score(cell, staged.root, planned.loaded_by, depth)
            except XmcbenchError as error:
                status, reason = "failed", str(error)
        outcome = outcome or Outcome(status="failed")
        measured = Measured(
            started=started.isoformat(timespec="seconds"),
            total_s=time.perf_counter() - begin,
            wall_s=outcome.wall_s if scored else {},
            reused_s=outcome.reused_s,
            predict_ms_per_instance=1000 * outcome.wall_s.get("predict", 0.0) / len(dataset.test) if scored else None,
            # The process knows its own peak exactly; sampling includes its children. Take the higher of the two.
            peak_memory_bytes=max(ending.peak_memory_bytes, outcome.peak_memory_bytes),
            peak_gpu_memory_bytes=outcome.peak_gpu_memory_bytes,
        )
        record = _record(planned, place, status, reason, outcome, scored, measured, log)
        try:
            check_readable(record)
        except ValueError as error:  # the notes of the method
            reason = f"there is a result, but {error}"
            record = _record(planned, place, "failed", reason, Outcome(status="failed"), None, measured, log)
        return store.write(record, staged)


def in_a_process(
    planned: PlannedCell, place: Place, staged: Store, depth: int, asked: TextFile | None = None
) -> tuple[Outcome | None, Ending]:
    """Run the method of a cell; what it reports, if anything, and how its process ended.

    staged: where its predictions go. depth: predictions of each text. asked: texts to predict for, instead of the test
    instances.
    """
    cell, store, dataset, limits = planned.cell, place.store, planned.dataset, place.limits
    for folder in (store.artifacts, staged.predictions_path(cell).parent):
        make_folder(folder)  # a folder that exists beforehand stays readable in the cell
    with (
        scratch() as temporary,
        store.subset(dataset.slug, planned.subset) as pairs,
    ):
        job_file, outcome_file = temporary / "job.json", temporary / "outcome.json"
        job = _job(planned, place, staged, pairs, depth, outcome_file)
        (msgspec.structs.replace(job, test=asked) if asked else job).write(job_file)
        ending = supervise(
            "xmcbench.runner.worker",
            [str(job_file)],
            store.log_path(cell),
            _environment(temporary),
            outcome_file,
            limits.time_s,
            int(limits.memory_gib * 2**30) if limits.memory_gib else None,
        )
        try:
            return Outcome.read(outcome_file), ending
        except StorageError as error:  # the method's process wrote there, or broke what we wrote
            return Outcome(status="failed", reason=str(error)), ending


def _job(planned: PlannedCell, place: Place, staged: Store, pairs: Path | None, depth: int, outcome: Path) -> Job:
    cell, store, dataset = planned.cell, place.store, planned.dataset
    corpora = (dataset.train_corpus, dataset.label_corpus, dataset.test_corpus)
    read = (dataset.train, dataset.labels, dataset.test)
    files = zip(corpora, read, strict=True)
    train, labels, test = (TextFile(str(corpus.texts.resolve()), texts.digest) for corpus, texts in files)
    return Job(
        train=train,
        labels=labels,
        test=test,
        pairs=str(pairs.resolve()) if pairs else None,
        pairs_sha256=cell.subset_sha256,
        k=depth,
        method=cell.method,
        plugin=str(planned.row.entry.plugin.resolve()) if planned.row.entry.plugin else None,
        parameters=cell.parameters,
        seed=cell.seed,
        compute=place.compute,
        predictions=str(staged.predictions_path(cell).resolve()),
        outcome=str(outcome),
        artifacts=str(store.artifacts.resolve()),
        hidden=tuple(str(path.resolve()) for path in _hidden(dataset, store)),
    )


def _hidden(dataset: Dataset, store: Store) -> list[Path]:
    """Files and folders that hold pairs, or reveal them."""
    published = shipped("leaderboards/published")
    boards = {store.root, *([published.parent] if published else [])}
    results = [root / name for root in boards for name in ("records", "ranks", "truth", "subsets")]
    return [cache_root(), *roots(), *dataset.sources, *results]


def _environment(scratch: Path) -> dict[str, str]:
    """The environment of a cell's process: the user's, and what we set."""
    # Waiting threads sleep instead of spinning, which would slow a shared machine down.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE"}
    # Hash order must not differ between two runs of one seed. Temporary files are removed when the cell ends.
    return {**waiting, **os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(scratch)}


def status_of(outcome: Outcome | None, ending: Ending, limits: Limits) -> tuple[Status, str]:
    """How a cell ended, and why there is no result."""
    if outcome is not None:  # how the process ended after that changes nothing
        return outcome.status, visible(outcome.reason)
    if ending.timed_out:
        return "timeout", f"stopped after the time limit of {limits.time_s:g} s"
    return "failed", ending.reason


def _record(
    planned: PlannedCell,
    place: Place,
    status: Status,
    reason: str,
    outcome: Outcome,
    scored: Scored | None,
    measured: Measured,
    log: str,
) -> Record:
    dataset, row = planned.dataset, planned.row
    result: dict[str, Any] = {"log": log}
    if scored:
        result = {"metrics": scored.metrics, "predictions": scored.predictions, "ranks": scored.ranks}
        result |= {"notes": outcome.notes, "isolation": outcome.isolation, "artifacts": outcome.artifacts}
    unscored = Protocol(
        version=protocol.VERSION,
        filter=dataset.card.filter,
        propensity=dataset.propensity,
        source_sha256=metrics_digest(),
    )
    return Record(
        key=planned.cell.key,
        cell=planned.cell,
        method=MethodFacts(
            title=row.title,
            variant=row.variant,
            supervision=row.method.supervision,
            deterministic=row.method.deterministic,
            source_sha256=planned.source_sha256,
        ),
        status=status,
        reason=reason,
        subset=subset_facts(planned.subset),
        counts=dataset.counts(),
        protocol=scored.protocol if scored else unscored,
        environment=Environment(
            packages={**environment.packages(), **outcome.packages},
            hardware=environment.hardware(),
            xmcbench=environment.program(),
            compute=place.compute,
        ),
        measured=measured,
        **result,
    )


def subset_facts(subset: Subset | None) -> SubsetFacts | None:
    """The description of the pairs that a method was given."""
    if subset is None:
        return None
    return SubsetFacts(
        name=subset.name,
        sha256=subset.digest,
        pairs=subset.pairs.nnz,
        labels=subset.labels,
        instances=subset.instances,
    )
