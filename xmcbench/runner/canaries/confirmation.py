"""Evidence that changed code gives the same results: by canaries, or by running whole cells again.

A change of code that changes no result, such as a renamed variable, makes every row of a method stale. Its canaries
take seconds, and show whether it still gives the stored outcomes. With ``--full``, one cell is run per method,
parameters, dataset and kind of supervision (without pairs, or with pairs), from scratch, and its ranks are compared
with the stored ranks. These cells share artifacts with each other, and none with the stored results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from xmcbench.environment import Compute, hardware
from xmcbench.errors import MethodError
from xmcbench.output.quantities import format_count
from xmcbench.records import Record, Staleness, Store
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
from xmcbench.runner.canaries.cells import canaries, canary_folder
from xmcbench.runner.canaries.outcomes import OUTCOMES, compare, read_outcomes
from xmcbench.runner.canaries.protocol import (
    PROTOCOL,
    StoredProtocol,
    compare_protocol,
    protocol_sources,
    run_protocol,
)
from xmcbench.runner.canaries.run import run_all
from xmcbench.runner.execution import execute
from xmcbench.runner.plan import plan_again
from xmcbench.runner.target import Limits, Target
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.plugins.registry import Registry

PROTOCOL_NAMES = {RANKS, METRICS}
#: Tolerance for rounding on another machine: the share of true pairs whose rank changes, and the change of any figure
#: of the default filter, as a fraction (0.0005 is 0.05 points).
MOST_OTHER_RANKS, LARGEST_CHANGE = 0.001, 0.0005


@dataclass(frozen=True)
class Group:
    """Records that the rerun of one cell covers. The first is run: the cheapest from this class of machine."""

    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        """The group in one line."""
        record = self.records[0]
        pairs = "without pairs" if record.cell.setting.kind == "ez" else "with pairs"
        return f"{record.name} on {record.cell.dataset}, {pairs}: {format_count(len(self.records), 'record')}"


@dataclass(frozen=True)
class Verdict:
    """The comparison of today's results of a method with stored ones.

    before: source of the stored results. source: of today's code. outcome: how equal they are, or how they differ.
    """

    method: str
    before: str | None
    source: str
    is_equal: bool
    outcome: str

    def __str__(self) -> str:
        return f"{'confirmed' if self.is_equal else 'not confirmed'}: {self.outcome}"


def find_changed(registry: Registry, runs: Path) -> dict[str, str]:
    """Return name -> source of code that is not known to give the stored outcomes. Raises StorageError."""
    equivalence = read_equivalence(runs)
    methods = {canary.method for canary in canaries()}
    outcomes = read_outcomes(canary_folder() / OUTCOMES, methods)
    stored = {name: outcomes[name].source_sha256 for name in methods}
    stored |= StoredProtocol.read(canary_folder() / PROTOCOL).sources
    today = {**{name: registry.sources[name] for name in stored.keys() - PROTOCOL_NAMES}, **protocol_sources()}
    return {
        name: today[name]
        for name, source in sorted(stored.items())
        if source not in equal_sources(equivalence, name, today[name])
    }


def run_canaries(sources: Mapping[str, str], jobs: int = 2) -> list[Verdict]:
    """Run the canaries of these names and compare them with the stored outcomes.

    sources: as ``find_changed`` returns them. jobs: processes at a time. Raises StorageError.
    """
    verdicts = []

    def judge(name: str, before: str, compared: int, problems: Sequence[str]) -> None:
        outcome = "; ".join(problems) or f"equal on {format_count(compared, 'canary', 'canaries')}"
        verdicts.append(Verdict(name, before, sources[name], not problems, outcome))

    if protocol := PROTOCOL_NAMES & sources.keys():
        stored = StoredProtocol.read(canary_folder() / PROTOCOL)
        problems = compare_protocol(stored.outcome, run_protocol())
        for name in sorted(protocol):
            judge(name, stored.sources[name], 1, problems[name])
    methods = sources.keys() - PROTOCOL_NAMES
    stored_outcomes = read_outcomes(canary_folder() / OUTCOMES, methods)
    for name, outcomes in run_all(methods, jobs).items() if methods else ():
        of_method = stored_outcomes[name]
        differing = [f"{found.canary}: {found.what}" for found in compare(of_method.outcomes, outcomes)]
        skipped = [f"{canary}: skipped: {new.reason}" for canary, new in outcomes.items() if new.status == "skipped"]
        judge(name, of_method.source_sha256, len(outcomes), [*differing, *skipped])
    return verdicts


def groups(records: Iterable[Record], staleness: Staleness) -> list[Group]:
    """Return the records with figures whose source is stale, grouped by the rerun that covers them."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.ok and staleness.has_stale_source(record):
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

    dataset: its name or folder. fresh: the runs folder in which it runs, empty except for other groups. Raises as
    planning the cell does, and StorageError if the stored ranks are missing.
    """
    before = group.records[0]
    planned = plan_again(before, dataset, registry, fresh)
    compute = before.environment.compute or Compute()
    (after,) = execute(planned, Target(fresh, limits or Limits(), compute))
    verdict = partial(Verdict, before.cell.method, before.method.source_sha256, after.method.source_sha256)
    if not after.ok:
        return verdict(False, f"{after.status}: {after.reason}")
    truth = fresh.truth(after)
    if len({record.ranks.truth_sha256 for record in (before, after) if record.ranks}) > 1:
        raise MethodError(f"{before.name} was scored against other true pairs", "run it again")
    old, new = store.ranks(before, truth).by_filter, fresh.ranks(after, truth).by_filter
    same = min(float(np.mean(old[name] == new[name])) for name in new)
    values = [record.metrics[before.protocol.filter].values for record in (before, after)]
    change = max(abs(values[0][name] - values[1][name]) for name in values[1])
    found = f"{100 * same:.2f}% of the ranks are equal, figures differ by at most {100 * change:.3f} points"
    is_equal = same >= 1 - MOST_OTHER_RANKS and change <= LARGEST_CHANGE
    return verdict(is_equal, found if is_equal else f"{found}; run it again with --refresh")


def record_evidence(verdicts: Iterable[Verdict], kind: Literal["canaries", "reruns"], runs: Path) -> None:
    """Add the sources whose comparisons were all equal to ``equivalent.json`` of a runs folder. Raises StorageError."""
    by_source: dict[tuple[str, str | None], list[Verdict]] = {}
    for verdict in verdicts:
        by_source.setdefault((verdict.method, verdict.before), []).append(verdict)
    equivalence, today = read_file(runs / FILE), datetime.now(UTC).date().isoformat()
    for (method, before), compared in by_source.items():
        if all(verdict.is_equal for verdict in compared):
            outcome = "; ".join(dict.fromkeys(verdict.outcome for verdict in compared))
            for source in {verdict.source for verdict in compared}:
                evidence = Evidence(source=source, kind=kind, date=today, processor=hardware().kind, outcome=outcome)
                equivalence = with_evidence(equivalence, method, before, evidence)
                write_file(runs / FILE, equivalence)
