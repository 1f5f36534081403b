"""The page of claims: what a publication says about its methods, and what the measured rows say.

A claim is that one published figure is above another: of two methods, of two settings of one method, or of two rows of
the ablation. It is tested on each measured dataset, preset by preset, with the rows that a preset gives unchanged.
Differences are taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from xmcbench.leaderboard import ablation, captions
from xmcbench.leaderboard.blocks import Block, Heading, Page, citations
from xmcbench.leaderboard.published import Ablation, Claim, Side, Source
from xmcbench.leaderboard.rows import Facts, for_tuning, group_rows
from xmcbench.leaderboard.tables import Table, text_table, without_switches
from xmcbench.records import Record, Staleness

NAME = "claims"
#: The metrics of the page.
METRICS = ("P@1", "R@100")


@dataclass(frozen=True)
class _Tried:
    """A claim on one dataset. differences: preset -> metric -> difference in percent, seed by seed."""

    claim: Claim
    differences: Mapping[str, Mapping[str, Sequence[float]]]
    marks: tuple[str, ...]


def page(datasets: Mapping[str, Sequence[Record]], printed: Sequence[Source], staleness: Staleness) -> Page | None:
    """The page; None if no claim can be tested. ``datasets``: name -> records.

    Datasets for tuning (``-dev``) are left out.
    """
    blocks: list[Block] = []
    for name in sorted(datasets):
        done = [record for record in datasets[name] if record.ok and not for_tuning(name)]
        tables = (
            _table(f"{name.lower()}-{number}", done, source, staleness) for number, source in enumerate(printed, 1)
        )
        if found := [table for table in tables if table]:
            blocks += [Heading(2, name), *found]
    if not blocks:
        return None
    explained = (Heading(2, "How to read the tables"), captions.CLAIMS)
    return Page(NAME, "The papers' claims, tested", (*blocks, *explained, *citations(printed, attrgetter("claims"))))


def _table(name: str, records: Sequence[Record], source: Source, staleness: Staleness) -> Table | None:
    presets = _shared_presets(records, source.claims)
    tested = [_test(claim, records, source, presets, staleness) for claim in source.claims]
    tested = [test for test in tested if test.differences]
    if not tested:
        return None
    presets = [preset for preset in presets if any(preset in test.differences for test in tested)]
    heads = [f"{metric} {kind}" for metric in METRICS for kind in ("published", *presets)]
    lines = []
    for test in tested:
        texts = []
        for metric in METRICS:
            texts.append(_range(_differences(test.claim, source, metric)))
            texts += [_mean(test.differences.get(preset, {}).get(metric, ())) for preset in presets]
        lines.append((test.claim.text, texts, 0))
    notes = {test.claim.text: test.marks for test in tested}
    caption = captions.claims(records[0].cell.dataset, source, records[0].protocol.filter)
    return text_table(name, caption, "Claim", heads, lines, notes=notes)


def _shared_presets(records: Iterable[Record], claims: Iterable[Claim]) -> list[str]:
    """The presets that two of the methods have in common; without any, those of one, beside rows without presets."""
    methods = {side.method for claim in claims for side in (claim.better, claim.worse)}
    found: dict[str, set[str]] = {}
    for record in records:
        preset = Facts.of(record).preset
        if record.method.title in methods:
            found.setdefault(preset, set()).add(record.method.title)
    beside = found.pop("", set())
    shared = [preset for preset, titles in found.items() if len(titles) > 1]
    return sorted(shared or (found if beside else ()))


def _test(
    claim: Claim, records: Sequence[Record], source: Source, presets: Iterable[str], staleness: Staleness
) -> _Tried:
    differences: dict[str, dict[str, list[float]]] = {}
    marks: list[str] = []
    for preset in presets:
        better, worse = (_row(side, records, source, preset, staleness) for side in (claim.better, claim.worse))
        if claim.better.row and claim.worse.row and _others(better, source) != _others(worse, source):
            continue  # the preset has changed between the two
        if pairs := _pairs(better, worse):
            differences[preset] = {
                metric: [100 * (_value(first, metric) - _value(second, metric)) for first, second in pairs]
                for metric in METRICS
            }
            marks += [*staleness.problems(better), *staleness.problems(worse)]
    return _Tried(claim, differences, tuple(dict.fromkeys(marks)))


def _row(side: Side, records: Sequence[Record], source: Source, preset: str, staleness: Staleness) -> list[Record]:
    """The records of one side of a claim, one per seed; none if the board does not have it."""
    inside = [record for record in records if record.cell.setting == side.setting]
    if side.row is not None and source.ablation:
        rows = [record for record in inside if _is_row(record, side.row, source.ablation, staleness)]
        own = [record for record in rows if Facts.of(record).preset == preset]
    else:
        whole, _ = ablation.split_ablated(inside, [source])
        named = [record for record in whole if record.method.title == side.method]
        unchanged = [record for record in named if _is_unchanged(record, record.method.variant, staleness)]
        own = [record for record in unchanged if Facts.of(record).preset == preset]
        own = own or [record for record in unchanged if not Facts.of(record).preset]  # a method without presets
    # A preset may have changed between two runs: its rows by today's code come first, then those with more seeds.
    return min(group_rows(own).values(), key=lambda group: (len(staleness.problems(group)), -len(group)), default=[])


def _is_row(record: Record, row: str, printed: Ablation, staleness: Staleness) -> bool:
    """Return whether it is this row of the ablation, with all other parameters as a preset has them."""
    variant = without_switches(record.method.variant, printed.switches)
    return (
        record.method.title == printed.method
        and _is_unchanged(record, variant, staleness, printed.switches)
        and ablation.index(record.cell.parameters, printed) == row
    )


def _is_unchanged(record: Record, variant: str, staleness: Staleness, ignored: Collection[str] = ()) -> bool:
    """Return whether its parameters are those of its preset, except for the ignored ones.

    The variant names changed parameters, but not those that it describes: a row with another number of steps looks like
    one of the preset. Only the preset tells.
    """
    return "=" not in variant and not staleness.has_changed(record, Facts.of(record).preset, ignored)


def _others(group: Sequence[Record], source: Source) -> dict[str, object]:
    """The parameters of a row of the ablation that are not components."""
    switches = source.ablation.switches if source.ablation else {}
    found = group[0].cell.parameters if group else {}
    return {name: value for name, value in found.items() if name not in switches}


def _pairs(better: Sequence[Record], worse: Sequence[Record]) -> list[tuple[Record, Record]]:
    """The records of both sides by seed. A record that no seed would change goes with every seed."""
    if len(worse) == 1 and worse[0].seedless:
        return [(record, worse[0]) for record in better]
    if len(better) == 1 and better[0].seedless:
        return [(better[0], record) for record in worse]
    by_seed = {record.cell.seed: record for record in worse}
    return [(record, by_seed[record.cell.seed]) for record in better if record.cell.seed in by_seed]


def _value(record: Record, metric: str) -> float:
    return record.metrics[record.protocol.filter].values[metric]


def _differences(claim: Claim, source: Source, metric: str) -> list[float]:
    """The published differences, one per dataset for which both sides have the metric."""
    better, worse = source.figures(claim.better), source.figures(claim.worse)
    both = [(better[name], worse[name]) for name in better if name in worse]
    return [float(first[metric]) - float(second[metric]) for first, second in both if {metric} <= first.keys() & second]


def _range(differences: Sequence[float]) -> str:
    if not differences:
        return ""
    return " to ".join(dict.fromkeys(map(_with_sign, (min(differences), max(differences)))))


def _mean(differences: Sequence[float]) -> str:
    if not differences:
        return ""
    above = sum(difference > 0 for difference in differences)
    return f"{_with_sign(fmean(differences))} ({above} of {len(differences)})"


def _with_sign(points: float) -> str:
    """A difference in points; what rounds to zero has no minus sign."""
    return f"{round(points, 2) + 0.0:+.2f}"
