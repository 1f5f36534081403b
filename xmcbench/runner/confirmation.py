"""Confirming stale results: one cell is run again, and if it gives the same result, the results it covers are kept.

A change of code that changes no result, such as a renamed variable, makes every row of a method stale. Instead of
running all of them again, one cell is run for each method, parameters, dataset and kind of supervision (without pairs,
or with pairs), from scratch, and its ranks are compared with the stored ones. The check is written into every record
that it covers: which cell was run, when, and how much differed. These cells share what they make, such as weights that
were trained without pairs, as those of one run do; nothing of the stored results is used.

Training an encoder gives other weights on another processor, also by the same code. A cell that was made on this class
of machine is therefore preferred, and where all records are from another one, the rerun can be compared with a run of
the older code on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xmcbench.environment import Compute, hardware
from xmcbench.errors import MethodError
from xmcbench.output.quantities import counted
from xmcbench.records import Record, Standing, Store
from xmcbench.records.record import SourceCheck
from xmcbench.records.standing import valid_sources
from xmcbench.runner.execution import execute
from xmcbench.runner.place import Limits, Place
from xmcbench.runner.plan import plan_again
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.plugins.registry import Registry

#: Tolerance for rounding on another machine: the share of true pairs whose rank changes, and the change of any figure
#: of the default filter, as a fraction (0.0005 is 0.05 points).
MOST_OTHER_RANKS, LARGEST_CHANGE = 0.001, 0.0005


@dataclass(frozen=True)
class Group:
    """Records that one check covers. The first one is run again: the cheapest that this class of machine made."""

    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        """The group in one line."""
        record = self.records[0]
        pairs = "without pairs" if record.cell.setting.kind == "ez" else "with pairs"
        size = counted(len(self.records), "record")
        return f"{record.name} on {record.cell.dataset}, {pairs}: {size}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check. problem: why the cell has no result; empty if it has. unwritten: records of the group
    that another run had, so that the check is not written into them."""

    group: Group
    same_ranks: float = 0.0
    largest_change: float = 1.0
    problem: str = ""
    unwritten: int = 0

    @property
    def stands(self) -> bool:
        """Whether the rerun gave the same result, within the tolerance."""
        return self.same_ranks >= 1 - MOST_OTHER_RANKS and self.largest_change <= LARGEST_CHANGE


def groups(records: Iterable[Record], standing: Standing) -> list[Group]:
    """The stale records that have ranks, grouped by the check that covers them."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.ok and record.ranks and standing.stale(record):
            cell = record.cell
            pairs = cell.setting.kind != "ez"
            covered = [cell.dataset_sha256, cell.method, cell.parameters, pairs, record.method.source_sha256]
            found.setdefault(canonical_json(covered), []).append(record)
    here = hardware()

    def order(record: Record) -> tuple[bool, bool, float, str]:
        there = record.environment.hardware
        return there.kind != here.kind, there.model != here.model, record.measured.total_s, record.key

    return [Group(tuple(sorted(group, key=order))) for group in found.values()]


def confirm(
    group: Group,
    dataset: str,
    store: Store,
    registry: Registry,
    fresh: Store,
    limits: Limits | None = None,
    reference: Store | None = None,
) -> Verdict:
    """Run the group's first cell again, and compare the ranks of its true pairs.

    dataset: its name or folder. fresh: the runs folder in which it runs, empty but for other groups. reference:
    results of the older code on this machine; if it has one of a cell of the group, that cell is run, and compared with
    this result. If the result is the same, the check is written into every record of the group that no other run has.
    Raises what planning the cell raises, and StorageError if the stored ranks are missing.
    """
    referred = _referred(group, reference) if reference else None
    before, base = (referred, reference) if referred and reference else (group.records[0], store)
    cell = before.cell
    planned = plan_again(before, dataset, registry, fresh)
    compute = before.environment.compute or Compute()
    (after,) = execute(planned, Place(fresh, limits or Limits(), compute))
    if not after.ok:
        return Verdict(group, problem=f"{after.status}: {after.reason}")
    verdict = _compared(group, before, base, after, fresh)
    if verdict.stands:
        check = SourceCheck(
            source_sha256=after.method.source_sha256,
            key=cell.key,
            date=datetime.now(UTC).date().isoformat(),
            same_ranks=verdict.same_ranks,
            largest_change=verdict.largest_change,
            machine=after.environment.hardware.kind if referred else None,
        )
        for record in group.records:
            with store.claim(record.cell) as claim:
                # A run may have written another one meanwhile.
                if claim.held and store.find(record.cell) == record:
                    store.write(msgspec.structs.replace(record, checks=(*record.checks, check)))
                verdict = replace(verdict, unwritten=verdict.unwritten + (not claim.held))
    return verdict


def _referred(group: Group, reference: Store) -> Record | None:
    """The reference's result of a cell of the group, by code that is known to give the group's."""
    for record in group.records:
        found = reference.find(record.cell)
        if found and found.ok and found.ranks and found.method.source_sha256 in valid_sources(record):
            return found
    return None


def _compared(group: Group, before: Record, store: Store, after: Record, fresh: Store) -> Verdict:
    truth = fresh.truth(after)
    if before.ranks is None or after.ranks is None or before.ranks.truth_sha256 != after.ranks.truth_sha256:
        raise MethodError(f"{before.name} was scored against other true pairs", "run it again")
    old, new = store.ranks(before, truth).by_filter, fresh.ranks(after, truth).by_filter
    shares = [float(np.mean(old[name] == new[name])) for name in new]
    values = [record.metrics[before.protocol.filter].values for record in (before, after)]
    change = max(abs(values[0][name] - values[1][name]) for name in values[1])
    return Verdict(group, min(shares), change)
