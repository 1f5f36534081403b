"""From what a cell's process left to its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from xmcbench.environment import Compute
from xmcbench.metrics import protocol
from xmcbench.output.escaping import visible
from xmcbench.records import Record
from xmcbench.records.record import (
    Environment,
    Measured,
    MethodFacts,
    Protocol,
    Status,
    SubsetFacts,
)
from xmcbench.records.record_json import check_readable
from xmcbench.records.standing import metrics_digest
from xmcbench.runner.job import Outcome

if TYPE_CHECKING:
    from xmcbench.processes.supervisor import Ending
    from xmcbench.runner.executors.base import Machine
    from xmcbench.runner.plan import PlannedCell
    from xmcbench.runner.scorer import Scored
    from xmcbench.setting import Subset


def status_of(outcome: Outcome | None, ending: Ending, time_limit_s: float | None) -> tuple[Status, str]:
    """The status of a cell before it is scored, and why there is no result."""
    if outcome is not None:  # how the process ended after that changes nothing
        return outcome.status, visible(outcome.reason)
    if ending.timed_out:
        return "timeout", f"stopped after the time limit of {time_limit_s:g} s"
    return "failed", ending.reason


def measured_of(
    planned: PlannedCell, outcome: Outcome, ending: Ending, scored: bool, started: str, total_s: float, neighbors: int
) -> Measured:
    """What was measured of a cell."""
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
    """The record of a cell. Where no file can hold what its process reported, it says that, and has no result."""
    made = _record(planned, compute, machine, status, reason, outcome, scored, measured, log)
    try:
        check_readable(made)
    except ValueError as error:
        reason = f"there is a result, but {error}"
        measured = msgspec.structs.replace(measured, wall_s={}, reused_s=0.0, predict_ms_per_instance=None)
        return _record(planned, compute, machine, "failed", reason, Outcome(status="failed"), None, measured, log)
    return made


def _record(
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
            names=planned.names,
        ),
        status=status,
        reason=reason,
        subset=subset_facts(planned.subset),
        data_notes=dataset.notes,
        counts=dataset.counts(),
        protocol=scored.protocol if scored else unscored,
        environment=Environment(
            packages=_packages(machine.packages, outcome.packages),
            hardware=machine.hardware,
            xmcbench=machine.xmcbench,
            compute=compute,
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
        pairs=len(subset.pattern),
        labels=subset.labels,
        instances=subset.instances,
    )


def _packages(machine: Mapping[str, str], used: Mapping[str, str]) -> dict[str, str]:
    """The packages of the machine, and those that the method used: each once, however its name is spelled."""
    from packaging.utils import canonicalize_name

    known = {canonicalize_name(name) for name in machine}
    return {**machine, **{name: version for name, version in used.items() if canonicalize_name(name) not in known}}
