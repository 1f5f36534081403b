"""From records to the rows of a table: one row per method and variant, with all its seeds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from statistics import fmean, stdev
from typing import TypeVar

from xmcbench.leaderboard import provenance
from xmcbench.metrics.seeds import half_width
from xmcbench.output.quantities import duration, format_count
from xmcbench.records import Record, Staleness
from xmcbench.records.record import Figures, Measured
from xmcbench.setting import Setting
from xmcbench.storage.canonical import canonical_json

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

#: A SHA-1 or SHA-256: the content of a file that a parameter names, the commit of a model.
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
#: Share of test instances without a prediction from which a row says so.
MANY_SILENT = 0.01
#: A part of a variant that is a preset's name ("small"), and one that is a budget ("60 steps of 32").
_PRESET, _BUDGET = re.compile(r"[a-z][a-z0-9-]*"), re.compile(r"\d")

#: The ending of the names of datasets for tuning.
_FOR_TUNING = re.compile(r"-dev(-[\d.e-]+)?(\+limit\d+)?$")


@dataclass(frozen=True)
class Facts:
    """The parts of a row's name, each with its own column.

    preset: empty for the default parameters. encoder: the model that the row starts from, or the methods that it
    combines. training: the budget. changes: parameters that are not those of the preset.
    """

    title: str
    preset: str = ""
    encoder: str = ""
    training: str = ""
    changes: str = ""

    @property
    def short(self) -> str:
        """The title, with preset and changed parameters."""
        told = ", ".join(filter(None, [self.preset, self.changes]))
        return f"{self.title} ({told})" if told else self.title

    @classmethod
    def of(cls, record: Record) -> Facts:
        """The facts of a record's row, from the variant that the record holds."""
        found: dict[str, list[str]] = {}
        encoders = {model.name for model in provenance.models(record)}
        for place, part in enumerate(filter(None, record.method.variant.split(", "))):
            if "=" in part:
                kind = "changes"
            elif part in encoders:
                kind = "encoder"
            elif _BUDGET.match(part):
                kind = "training"
            elif not place and _PRESET.fullmatch(part):
                kind = "preset"
            else:
                kind = "encoder"
            found.setdefault(kind, []).append(part)
        return cls(record.method.title, **{kind: ", ".join(parts) for kind, parts in found.items()})


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
    its name. records: those with a result, by seed. filter: that of the figures.
    """

    name: str
    parameters: Mapping[str, object]
    seeds: tuple[int, ...]
    figures: Mapping[str, Estimate]
    costs: Mapping[str, Cost]
    problems: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    facts: Facts = Facts("")
    records: tuple[Record, ...] = ()
    filter: str = "none"

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


def for_tuning(dataset: str) -> bool:
    """Return whether a dataset is for tuning, by its name: rows tuned there are not compared there.

    ``--dev 0.1`` makes names such as docs-dev-0.1.
    """
    return _FOR_TUNING.search(dataset.casefold()) is not None


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


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their keys, which are in the order of their first items."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_dataset(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records by the name of their dataset."""
    return group_by(records, attrgetter("cell.dataset"))


def group_rows(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records by method and parameters, each group by seed."""
    groups = group_by(records, _row_of)
    return {key: sorted(groups[key], key=lambda record: record.cell.seed) for key in sorted(groups)}


def _row_of(record: Record) -> str:
    return canonical_json([record.cell.method, record.cell.parameters])


def borrow(zero_shot: Iterable[Record], inside: Sequence[Record]) -> list[Record]:
    """The zero-shot results that also belong in another setting of their dataset: those of methods that ignore pairs.

    inside: the records of that setting. A method that has a record there keeps it, and without any result there nothing
    is borrowed.
    """
    if not any(record.ok for record in inside):
        return []
    there = set(map(_row_of, inside))
    unused = [record for record in zero_shot if record.ok and record.method.supervision == "unused"]
    return [record for record in unused if _row_of(record) not in there]


def slug(text: str) -> str:
    """The text as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:40].strip("-.") or "x"


def by_setting(records: Iterable[Record]) -> dict[Setting, list[Record]]:
    """Return the records by setting, in the order of a page."""
    groups: dict[Setting, list[Record]] = group_by(records, attrgetter("cell.setting"))
    return {setting: groups[setting] for setting in sorted(groups, key=order)}


def order(setting: Setting) -> tuple[int, str, float]:
    """The position of a setting on a page: from no pairs to all."""
    return ("ez", "fs", "full").index(setting.kind), setting.by or "", setting.ratio or 0.0


def names(groups: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    """The name of every group of records; groups of one name are told apart by the parameters in which they differ.

    Names coincide if a preset changed between two runs, or if two methods have the same title.
    """
    firsts = {key: group[0] for key, group in groups.items()}
    parameters = {key: {"method": first.cell.method, **first.cell.parameters} for key, first in firsts.items()}
    return tell_apart({key: first.name for key, first in firsts.items()}, parameters)


def tell_apart(names: Mapping[str, str], parameters: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the names by their keys; after equal ones stand the parameters in which they differ."""
    found: dict[str, str] = {}
    for name, keys in group_by(names, names.__getitem__).items():
        differences = apart([parameters[key] for key in keys])
        found |= {key: name + difference for key, difference in zip(keys, differences, strict=True)}
    return found


def short_names(rows: Sequence[Row]) -> list[str]:
    """Return titles with preset and changed parameters; the whole name where several rows would look alike."""
    short = [row.facts.short for row in rows]
    counts = Counter(short)
    return [name if counts[name] == 1 else row.name for name, row in zip(short, rows, strict=True)]


def shared_name(title: str, variants: Sequence[str]) -> str:
    """A name for several rows of a method: its title, and the parts of a variant that all of them have."""
    parts = [variant.split(", ") for variant in variants]
    shared = [part for part in dict.fromkeys(parts[0]) if part and all(part in own for own in parts)]
    return f"{title} ({', '.join(shared)})" if shared else title


def apart(parameters: Sequence[Mapping[str, object]]) -> list[str]:
    """Return ", name=value" of every parameter in which they are not all equal; digests by their first 12 digits."""
    if len(parameters) == 1:
        return [""]
    differing = [
        name
        for name in sorted(set().union(*parameters))
        if len({canonical_json([own[name]] if name in own else []) for own in parameters}) > 1
    ]
    return ["".join(f", {name}={_short(own[name])}" for name in differing if name in own) for own in parameters]


def _short(value: object) -> str:
    return _DIGEST.sub(r"\1", str(value))


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


def of_presets(shown: Iterable[Row], staleness: Staleness) -> list[Row]:
    """Return the rows with the parameters of a preset; all rows where there is none.

    Of the rows of one preset that only differ in their budget, that with the preset's own budget is returned.
    """
    found = [*shown]
    found = [row for row in found if not row.facts.changes] or found
    own = {row.name: row.facts for row in found if not _has_other_budget(row, staleness)}
    taken = {(facts.title, facts.preset, facts.encoder) for facts in own.values()}
    return [
        row for row in found if row.name in own or (row.facts.title, row.facts.preset, row.facts.encoder) not in taken
    ]


def _has_other_budget(row: Row, staleness: Staleness) -> bool:
    return bool(row.records) and staleness.has_changed(row.records[0], row.facts.preset)


def _row(name: str, group: Sequence[Record], filter_name: str, staleness: Staleness) -> Row:
    done = [record for record in group if record.ok]
    machines = group_by(done, machine_class)
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
        facts=_facts(name, group[0]),
        records=tuple(done),
        filter=filter_name,
    )


def _facts(name: str, record: Record) -> Facts:
    """The facts of a row; what tells it apart from rows of the same name counts as a change."""
    facts, more = Facts.of(record), name.removeprefix(record.name).removeprefix(", ")
    return replace(facts, changes=", ".join(filter(None, [facts.changes, more]))) if more else facts


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
