"""Evidence that changed code gives the same results: by canaries, or by running whole cells again.

A change of code that changes no result, such as a renamed variable, makes every row of a method stale. Its canaries
take seconds, and tell whether the stored outcomes come out again. With ``--full``, one cell is run for each method,
parameters, dataset and kind of supervision (without pairs, or with pairs), from scratch, and its ranks are compared
with the stored ones. The cells share what they make, as those of one run do; nothing of the stored results is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from xmcbench.environment import Compute, hardware
from xmcbench.errors import MethodError
from xmcbench.output.quantities import counted
from xmcbench.records import Record, Standing, Store
from xmcbench.records.equivalence import (
    FILE,
    METRICS,
    RANKS,
    Evidence,
    equal_sources,
    read_equivalence,
    read_file,
    with_evidence,
    write_file,
)
from xmcbench.runner.canaries import run_all, stored_file
from xmcbench.runner.canary_cells import canaries
from xmcbench.runner.canary_outcomes import Stored, compare
from xmcbench.runner.canary_protocol import StoredProtocol, compare_protocol, protocol_sources, run_protocol
from xmcbench.runner.execution import execute
from xmcbench.runner.place import Limits, Place
from xmcbench.runner.plan import plan_again
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.plugins.registry import Registry

#: The file of the canary of ranks and metrics.
PROTOCOL = "protocol"
PROTOCOL_NAMES = {RANKS, METRICS}
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

    def __str__(self) -> str:
        if self.problem:
            return f"not confirmed: {self.problem}"
        seen = f"{100 * self.same_ranks:.2f}% of the ranks are equal, figures differ by at most "
        seen += f"{100 * self.largest_change:.3f} points"
        return f"confirmed: {seen}" if self.is_equal else f"not confirmed: {seen}; run it again with --refresh"


@dataclass(frozen=True)
class CanaryVerdict:
    """The outcome of the canaries of a method. compared: their number. problems: what differs, or could not run."""

    name: str
    compared: int
    problems: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether all canaries ran and gave the stored outcomes, within their tolerance."""
        return self.compared > 0 and not self.problems

    def __str__(self) -> str:
        if self.is_equal:
            return f"confirmed: equal on {counted(self.compared, 'canary', 'canaries')}"
        return f"not confirmed: {'; '.join(self.problems) or 'it has no canaries'}"


def changed_methods(registry: Registry, runs: Path) -> dict[str, str]:
    """Return name -> source of today's code, where that is not known to give the stored outcomes of its canaries.

    Names are those of methods with canaries, and of the code that makes ranks and figures. Raises StorageError.
    """
    equivalence = read_equivalence(runs)
    stored = {name: Stored.read(stored_file(name)).source_sha256 for name in {one.method for one in canaries()}}
    stored |= StoredProtocol.read(stored_file(PROTOCOL)).sources
    today = {**registry.sources(stored.keys() - PROTOCOL_NAMES), **protocol_sources()}
    return {
        name: today[name]
        for name, source in sorted(stored.items())
        if source not in equal_sources(equivalence, name, today[name])
    }


def run_canaries(sources: Mapping[str, str], runs: Path, jobs: int = 2) -> list[CanaryVerdict]:
    """Run the canaries of these names, and add the sources that gave the stored outcomes to the file of a runs folder.

    sources: as ``changed_methods`` returns them. jobs: processes at a time. Raises StorageError.
    """
    verdicts = []
    if protocol := PROTOCOL_NAMES & sources.keys():
        stored = StoredProtocol.read(stored_file(PROTOCOL))
        problems = compare_protocol(stored.outcome, run_protocol())
        for name in sorted(protocol):
            verdicts.append((CanaryVerdict(name, 1, tuple(problems[name])), stored.sources[name]))
    methods = sources.keys() - PROTOCOL_NAMES
    for name, outcomes in run_all(methods, jobs).items() if methods else ():
        of_method = Stored.read(stored_file(name))
        differing = [f"{found.canary}: {found.what}" for found in compare(of_method.outcomes, outcomes)]
        skipped = [f"{place}: skipped: {each.reason}" for place, each in outcomes.items() if each.status == "skipped"]
        verdicts.append((CanaryVerdict(name, len(outcomes), (*differing, *skipped)), of_method.source_sha256))
    for verdict, before in verdicts:
        if verdict.is_equal:
            record_evidence(runs, verdict.name, before, sources[verdict.name], "canaries", verdict.compared, 1.0, 0.0)
    return [verdict for verdict, _ in verdicts]


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
