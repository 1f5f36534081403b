"""From the outcome of a cell's process to its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from xmcbench.output.escaping import visible
from xmcbench.records import Record
from xmcbench.records.record import Environment, Measured, MethodFacts, Status, SubsetFacts
from xmcbench.records.record_json import check_readable
from xmcbench.runner.job import Outcome
from xmcbench.runner.scoring import protocol_of

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.processes.supervisor import Ending
    from xmcbench.runner.executors.base import Machine
    from xmcbench.runner.plan import PlannedCell
    from xmcbench.runner.scorer import Scored
    from xmcbench.setting import Subset


def status_of(outcome: Outcome | None, ending: Ending, time_limit_s: float | None) -> tuple[Status, str]:
    """Return the status of a cell before it is scored, and the reason if there is no result."""
    if outcome is not None:  # how the process ended after that changes nothing
        return outcome.status, visible(outcome.reason)
    if ending.timed_out:
        return "timeout", f"stopped after the time limit of {time_limit_s:g} s"
    return "failed", ending.reason


def measure(
    planned: PlannedCell, outcome: Outcome, ending: Ending, scored: bool, started: str, total_s: float, neighbors: int
) -> Measured:
    """Return the measurements of a cell."""
    predict_s = outcome.wall_s.get("predict", 0.0)
    return Measured(
        started=started,
        total_s=total_s,
        wall_s=outcome.wall_s if scored else {},
        reused_s=outcome.reused_s,
        predict_ms_per_instance=1000 * predict_s / len(planned.dataset.test) if scored else None,
        # The process knows its own peak exactly; sampling includes its children. Take the higher of the two.
        peak_memory_bytes=max(ending.peak_memory_bytes, outcome.peak_memory_bytes),
        peak_gpu_memory_bytes=outcome.peak_gpu_memory_bytes,
        neighbors=neighbors,
    )


def record_of(
    planned: PlannedCell,
    compute: Compute,
    machine: Machine,
    status: Status,
    reason: str,
    outcome: Outcome,
    scored: Scored | None,
    measured: Measured,
    log: str,
) -> Record:
    """Return the record of a cell; it has failed if no file can hold the report of its process."""
    from packaging.utils import canonicalize_name

    dataset, row = planned.dataset, planned.row
    # What the process read counts: this one may have read a version before it was replaced. Spelling may differ.
    used = {canonicalize_name(name): (name, version) for name, version in outcome.packages.items()}
    known = {name: used.pop(canonicalize_name(name), ("", version))[1] for name, version in machine.packages.items()}
    result: dict[str, Any] = {"log": log}
    if scored:
        result = {"metrics": scored.metrics, "predictions": scored.predictions, "ranks": scored.ranks}
        result |= {"notes": outcome.notes, "isolation": outcome.isolation, "artifacts": outcome.artifacts}
    record = Record(
        key=planned.cell.key,
        cell=planned.cell,
        method=MethodFacts(
            title=row.title,
            variant=row.variant,
            supervision=row.method.supervision,
            deterministic=row.method.deterministic,
            source_sha256=planned.source_sha256,
            names=planned.names,
        ),
        status=status,
        reason=reason,
        subset=subset_facts(planned.subset),
        data_notes=dataset.notes,
        counts=dataset.counts(),
        protocol=scored.protocol if scored else protocol_of(dataset.card.filter, dataset.propensity),
        environment=Environment(
            packages={**known, **dict(used.values())},
            hardware=machine.hardware,
            xmcbench=machine.xmcbench,
            compute=compute,
        ),
        measured=measured,
        **result,
    )
    try:
        check_readable(record)
    except ValueError as error:
        reason, outcome = f"there is a result, but {error}", Outcome(status="failed")
        measured = msgspec.structs.replace(measured, wall_s={}, reused_s=0.0, predict_ms_per_instance=None)
        return record_of(planned, compute, machine, "failed", reason, outcome, None, measured, log)
    return record


def subset_facts(subset: Subset | None) -> SubsetFacts | None:
    """Return the description of the pairs that a method was given."""
    if subset is None:
        return None
    counts = {"pairs": len(subset.pattern), "labels": subset.labels, "instances": subset.instances}
    return SubsetFacts(name=subset.name, sha256=subset.digest, **counts)
