"""From records to the rows of a table: one row per method and variant, with all its seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import fmean, stdev

from xmcbench.leaderboard import provenance
from xmcbench.leaderboard.groups import group_by, group_rows
from xmcbench.leaderboard.names import Facts, names
from xmcbench.metrics.seeds import half_width
from xmcbench.output.quantities import duration, format_count
from xmcbench.records import Record, Staleness
from xmcbench.records.record import Figures, Measured

#: Share of test instances without a prediction from which a row says so.
MANY_SILENT = 0.01


@dataclass(frozen=True)
class Estimate:
    """One metric of one row, as fractions: the values of its seeds, and the half-widths of their intervals."""

    values: tuple[float, ...]
    half_widths: tuple[float, ...]

    @cached_property
    def value(self) -> float:
        """The mean over seeds."""
        return fmean(self.values)

    @cached_property  # a page shows few of the figures of a record, and this one takes a while
    def half_width(self) -> float:
        """The half-width of the 95% interval over test instances and seeds.

        Over instances only with one seed, which says nothing about others.
        """
        return _half_width(self.values, self.half_widths)

    @property
    def seed_sd(self) -> float | None:
        """The standard deviation over seeds; None for one seed."""
        return stdev(self.values) if len(self.values) > 1 else None


_half_width = lru_cache(maxsize=16_384)(half_width)  # several tables have a row


@dataclass(frozen=True)
class Cost:
    """The cost of a row on one class of machine: means over seeds, maximum of memory.

    fit_s: seconds before predictions (load excluded). reused_s: seconds that reused artifacts took when they were
    made, not part of fit_s. peak_gpu_bytes: None if no GPU was used.
    """

    fit_s: float
    reused_s: float
    predict_ms: float
    peak_memory_bytes: int
    peak_gpu_bytes: int | None


@dataclass(frozen=True)
class Row:
    """A method and variant under one setting of one dataset.

    costs: class of machine -> cost. problems: one entry per seed that has no result, "seed 1: failed: reason". marks:
    notes on the figures, such as that they are stale. kinds: those by which a reader may filter. facts: the parts of
    its name. records: those with a result, by seed. filter: that of the figures. has_other_values: whether its
    parameters are not those that its preset has today, such as another budget.
    """

    name: str
    parameters: Mapping[str, object]
    seeds: tuple[int, ...]
    figures: Mapping[str, Estimate]
    costs: Mapping[str, Cost]
    problems: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    facts: Facts = field(default_factory=lambda: Facts(""))
    records: tuple[Record, ...] = ()
    filter: str = "none"
    has_other_values: bool = False

    @property
    def short_name(self) -> str:
        """The title with preset and changed parameters; the whole name where these do not show that values changed."""
        return self.name if self.has_other_values else self.facts.short

    @cached_property  # one table has them, and most of a page's rows are in others
    def views(self) -> dict[str, Mapping[str, Estimate]]:
        """Group of labels -> its figures, of the groups that every seed has."""
        scores = [record.metrics[self.filter].views for record in self.records]
        shared = set.intersection(*map(set, scores)) if scores else set()
        return {view: _figures([views[view] for views in scores]) for view in sorted(shared)}

    @property
    def key(self) -> str:
        """The key of the first record; empty without one."""
        return self.records[0].key if self.records else ""


def rows(records: Iterable[Record], filter_name: str, staleness: Staleness | None = None) -> list[Row]:
    """The rows of records of one dataset and setting, best P@1 first; rows without a result come last.

    Each variant of a method is a row. staleness: today's code, by which stale rows are marked.
    """
    groups = group_rows(records)
    made = [_row(name, groups[key], filter_name, staleness or Staleness()) for key, name in names(groups).items()]
    return sorted(made, key=best_first)


def best_first(row: Row) -> tuple[float, str]:
    """Return the key by which rows are sorted: the best P@1 first, rows without a result last."""
    return -row.figures["P@1"].value if row.figures else 1.0, row.name


def machine_class(record: Record) -> str:
    """The class of machine that times and memory of a record belong to, with threads and neighbors if they are noted.

    All cores and no other cell beside it is what goes without saying. Old records do not have the threads.
    """
    hardware, compute = record.environment.hardware, record.environment.compute
    threads, neighbors = compute.threads if compute else None, record.measured.neighbors
    said = [hardware.kind]
    if threads is None:
        said.append("threads not recorded")
    elif threads != hardware.cores:
        said.append(f"{format_count(threads, 'thread')} per cell")
    if neighbors:
        said.append(f"beside {format_count(neighbors, 'other cell')}")
    return ", ".join(said)


def without_common(machines: Sequence[str]) -> list[str]:
    """Classes of machines without what all of them begin with; what is then empty is measured alone."""
    fields = [machine.split(", ") for machine in machines]
    common = 0
    while len({tuple(parts[: common + 1]) for parts in fields}) == 1 and common < max(map(len, fields)):
        common += 1
    return [", ".join(parts[common:]) or "alone" for parts in fields]


def silence(done: Sequence[Record]) -> tuple[str, ...]:
    """A note where the method predicts nothing for many test instances; records may not say for how many."""
    shares = [
        record.predictions.empty / record.counts["test"]
        for record in done
        if record.predictions and record.predictions.empty is not None
    ]
    share = fmean(shares) if shares else 0.0
    return (f"no prediction for {100 * share:.1f}% of the test instances",) if share >= MANY_SILENT else ()


def judging(done: Sequence[Record]) -> tuple[str, ...]:
    """A note on the answers of a language model: its name, which of them came from before, and what the rest cost.

    It sums over seeds. A record whose method names a ``judge`` in its note ``judgments`` has it.
    """
    notes = [note for record in done if isinstance(note := record.notes.get("judgments"), Mapping) and "judge" in note]
    if not notes:
        return ()

    def total(*names: str) -> float:
        numbers = (note.get(name) for note in notes for name in names)
        return sum(number for number in numbers if isinstance(number, int | float))

    judges = ", ".join(sorted({str(note["judge"]) for note in notes}))
    asked, kept, seconds = map(total, ("asked", "kept", "seconds"))
    tokens = total("prompt_tokens", "completion_tokens")
    spent = f", {tokens:,.0f} tokens" if tokens else ""
    share = kept / max(1, asked + kept)
    return (
        f"judged by {judges}: {asked + kept:,.0f} answers, {share:.0%} kept from before, {duration(seconds)}{spent}",
    )


def of_presets(shown: Iterable[Row]) -> list[Row]:
    """Return the rows with the parameters of a preset; all rows where there is none.

    Of the rows of one preset that only differ in their budget, and of rows of one name, that with the values that the
    preset has today is returned.
    """
    found = [*shown]
    found = [row for row in found if not row.facts.changes] or found
    own = {row.name: row.facts for row in found if not row.has_other_values}
    taken = {(facts.title, facts.preset, facts.encoder) for facts in own.values()}
    return [
        row for row in found if row.name in own or (row.facts.title, row.facts.preset, row.facts.encoder) not in taken
    ]


def _row(name: str, group: Sequence[Record], filter_name: str, staleness: Staleness) -> Row:
    done = [record for record in group if record.ok]
    machines = group_by(done, machine_class)
    facts = _facts(name, group[0])
    return Row(
        name=name,
        parameters=group[0].cell.parameters,
        seeds=tuple(record.cell.seed for record in done),
        figures=_figures([record.metrics[filter_name] for record in done]),
        costs={machine: _cost([record.measured for record in machines[machine]]) for machine in sorted(machines)},
        problems=tuple(
            f"seed {record.cell.seed}: {record.status}: {record.reason}" for record in group if not record.ok
        ),
        marks=(*staleness.problems(done), *silence(done), *judging(done)),
        kinds=provenance.kinds((done or group)[0]),
        facts=facts,
        records=tuple(done),
        filter=filter_name,
        has_other_values=staleness.has_changed(group[0], facts.preset),
    )


def rename(row: Row, name: str) -> Row:
    """Return the row under a name that tells it apart from others."""
    return replace(row, name=name, facts=_facts(name, row.records[0]))


def _facts(name: str, record: Record) -> Facts:
    return replace(Facts.of(record), apart=name.removeprefix(record.name).removeprefix(", "))


def _figures(scores: Sequence[Figures]) -> dict[str, Estimate]:
    if not scores:
        return {}
    return {
        name: Estimate(
            tuple(score.values[name] for score in scores),
            tuple((score.intervals[name][1] - score.intervals[name][0]) / 2 for score in scores),
        )
        for name in scores[0].values
    }


def _cost(measured: Sequence[Measured]) -> Cost:
    gpu = [run.peak_gpu_memory_bytes for run in measured if run.peak_gpu_memory_bytes is not None]
    return Cost(
        fit_s=fmean(run.wall_s.get("fit", 0.0) + run.wall_s.get("pretrain", 0.0) for run in measured),
        reused_s=fmean(run.reused_s for run in measured),
        predict_ms=fmean(run.predict_ms_per_instance or 0.0 for run in measured),
        peak_memory_bytes=max(run.peak_memory_bytes for run in measured),
        peak_gpu_bytes=max(gpu, default=None),
    )
