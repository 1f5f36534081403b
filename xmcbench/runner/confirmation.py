"""Evidence that changed code gives the same results: by canaries, or by running whole cells again.

A change of code that changes no result, such as a renamed variable, makes every row of a method stale. Its canaries
take seconds, and tell whether the stored outcomes come out again. With ``--full``, one cell is run for each method,
parameters, dataset and kind of supervision (without pairs, or with pairs), from scratch, and its ranks are compared
with the stored ones. The cells share what they make, as those of one run do; nothing of the stored results is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from xmcbench.environment import Compute, hardware
from xmcbench.errors import MethodError
from xmcbench.output.quantities import counted
from xmcbench.records import Record, Standing, Store
from xmcbench.records.equivalence import FILE, Evidence, read_file, with_evidence, write_file
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
    """Records that the rerun of one cell covers. The first one is run: the cheapest that this class of machine made."""

    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        """The group in one line."""
        record = self.records[0]
        pairs = "without pairs" if record.cell.setting.kind == "ez" else "with pairs"
        return f"{record.name} on {record.cell.dataset}, {pairs}: {counted(len(self.records), 'record')}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a rerun. problem: why the cell has no result; empty if it has. source: of today's code."""

    group: Group
    same_ranks: float = 0.0
    largest_change: float = 1.0
    problem: str = ""
    source: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether the rerun gave the same result, within the tolerance."""
        return self.same_ranks >= 1 - MOST_OTHER_RANKS and self.largest_change <= LARGEST_CHANGE


def groups(records: Iterable[Record], standing: Standing) -> list[Group]:
    """Return the records with ranks whose source is stale, grouped by the rerun that covers them."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.ok and record.ranks and standing.stale_source(record):
            cell = record.cell
            pairs = cell.setting.kind != "ez"
            covered = [cell.dataset_sha256, cell.method, cell.parameters, pairs, record.method.source_sha256]
            found.setdefault(canonical_json(covered), []).append(record)
    here = hardware()

    def order(record: Record) -> tuple[bool, bool, float, str]:
        there = record.environment.hardware
        return there.kind != here.kind, there.model != here.model, record.measured.total_s, record.key

    return [Group(tuple(sorted(group, key=order))) for group in found.values()]


def rerun(
    group: Group, dataset: str, store: Store, registry: Registry, fresh: Store, limits: Limits | None = None
) -> Verdict:
    """Run the first cell of a group again, and compare the ranks of its true pairs.

    dataset: its name or folder. fresh: the runs folder in which it runs, empty but for other groups. Raises what
    planning the cell raises, and StorageError if the stored ranks are missing.
    """
    before = group.records[0]
    planned = plan_again(before, dataset, registry, fresh)
    compute = before.environment.compute or Compute()
    (after,) = execute(planned, Place(fresh, limits or Limits(), compute))
    if not after.ok:
        return Verdict(group, problem=f"{after.status}: {after.reason}")
    truth = fresh.truth(after)
    if before.ranks is None or after.ranks is None or before.ranks.truth_sha256 != after.ranks.truth_sha256:
        raise MethodError(f"{before.name} was scored against other true pairs", "run it again")
    old, new = store.ranks(before, truth).by_filter, fresh.ranks(after, truth).by_filter
    shares = [float(np.mean(old[name] == new[name])) for name in new]
    values = [record.metrics[before.protocol.filter].values for record in (before, after)]
    change = max(abs(values[0][name] - values[1][name]) for name in values[1])
    return Verdict(group, min(shares), change, source=after.method.source_sha256)


def record_reruns(verdicts: Iterable[Verdict], runs: Path) -> None:
    """Add the sources whose reruns were all equal to the file of a runs folder.

    A source is that of a method, or of a method with its parts: all groups that it made must have come out equal.
    Raises StorageError.
    """
    by_source: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        record = verdict.group.records[0]
        by_source.setdefault((record.cell.method, record.method.source_sha256), []).append(verdict)
    for (method, before), group in by_source.items():
        if all(verdict.is_equal for verdict in group):
            shares, changes = zip(*((verdict.same_ranks, verdict.largest_change) for verdict in group), strict=True)
            for source in {verdict.source for verdict in group}:
                record_evidence(runs, method, before, source, "reruns", len(group), min(shares), max(changes))


def record_evidence(
    runs: Path,
    name: str,
    before: str | None,
    source: str,
    kind: Literal["canaries", "reruns"],
    compared: int,
    same_ranks: float,
    largest_change: float,
) -> None:
    """Add a source, and that it gives the same results as an earlier one, to the file of a runs folder.

    Raises StorageError.
    """
    evidence = Evidence(
        source=source,
        kind=kind,
        date=datetime.now(UTC).date().isoformat(),
        processor=hardware().kind,
        compared=compared,
        same_ranks=same_ranks,
        largest_change=largest_change,
    )
    write_file(runs / FILE, with_evidence(read_file(runs / FILE), name, before, evidence))
