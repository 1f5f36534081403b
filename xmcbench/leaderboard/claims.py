"""The page of claims: what a publication says about its methods, and what the measured rows say.

A claim is that one published figure is above another: of two methods, of two settings of one method, or of two rows of
the ablation. It is tested preset by preset on each measured dataset, with the rows that a preset gives unchanged.
Differences are taken seed by seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from xmcbench.leaderboard import ablation, captions
from xmcbench.leaderboard.blocks import Block, Heading, Page, citations
from xmcbench.leaderboard.groups import for_tuning, group_by, group_rows
from xmcbench.leaderboard.names import Facts, slug
from xmcbench.leaderboard.published import Ablation, Claim, Side, Source
from xmcbench.leaderboard.sections import Context
from xmcbench.leaderboard.tables import Table, text_table, without_switches
from xmcbench.metrics.ties import p_value
from xmcbench.records import Record, Staleness

NAME = "claims"
#: The metrics of the page.
METRICS = ("P@1", "R@100")


@dataclass(frozen=True)
class _Sides:
    """The records of both sides of a claim on a dataset, seed by seed, and the marks of the two rows."""

    pairs: Sequence[tuple[Record, Record]]
    marks: tuple[str, ...]


def page(datasets: Mapping[str, Sequence[Record]], context: Context) -> Page | None:
    """Return the page: per preset and metric, a table with a line per claim and a column per dataset.

    datasets: name -> records; those for tuning (``-dev``) are left out. None if no claim can be tested.
    """
    done = {
        name: found
        for name in sorted(datasets)
        if not for_tuning(name) and (found := [record for record in datasets[name] if record.ok])
    }
    blocks: list[Block] = []
    for number, source in enumerate(context.printed, 1):
        presets = {name: _shared_presets(records, source.claims) for name, records in done.items()}
        counts = Counter(preset for found in presets.values() for preset in found)
        for preset in sorted(counts, key=lambda preset: (-counts[preset], preset)):
            having = {name: done[name] for name in done if preset in presets[name]}
            columns = [_find_sides(records, source, preset, context.staleness) for records in having.values()]
            if any(map(any, columns)):
                name = f"{slug(preset)}-{number}"
                tables = [_table(name, having, columns, source, preset, metric, context) for metric in METRICS]
                blocks += [Heading(2, f"Preset {preset}" if preset else "Rows without presets"), *tables]
    if not blocks:
        return None
    explained = (Heading(2, "How to read the tables"), captions.CLAIMS)
    cited = citations(context.printed, attrgetter("claims"))
    return Page(NAME, "The papers' claims, tested", (*blocks, *explained, *cited))


def _table(
    name: str,
    datasets: Iterable[str],
    columns: Iterable[Sequence[_Sides | None]],
    source: Source,
    preset: str,
    metric: str,
    context: Context,
) -> Table:
    """columns: dataset by dataset, the sides of the source's claims."""
    lines: list[tuple[str, Sequence[str], int]] = []
    notes: dict[str, tuple[str, ...]] = {}
    for claim, *found in zip(source.claims, *columns, strict=True):
        if any(found):
            printed = _differences(claim, source, metric)
            ends = dict.fromkeys(map(_with_sign, (min(printed), max(printed)))) if printed else ()
            figures = [_test(own, metric, context) if own else "" for own in found]
            lines.append((claim.text, [" to ".join(ends), *figures], 0))
            notes[claim.text] = tuple(dict.fromkeys(mark for own in found if own for mark in own.marks))
    heads = (f"{metric} published", *datasets)
    caption = captions.claims(source, metric, preset)
    return text_table(f"{name}-{slug(metric)}", caption, "Claim", heads, lines, notes=notes)


def _shared_presets(records: Iterable[Record], claims: Iterable[Claim]) -> list[str]:
    """The presets that two of the methods have in common; without any, those of one, beside rows without presets."""
    methods = {side.method for claim in claims for side in (claim.better, claim.worse)}
    found = group_by((record for record in records if record.method.title in methods), lambda own: Facts.of(own).preset)
    beside = found.pop("", [])
    shared = [preset for preset, own in found.items() if len({record.method.title for record in own}) > 1]
    return sorted(shared or (found if beside else ()))


def _find_sides(records: Sequence[Record], source: Source, preset: str, staleness: Staleness) -> list[_Sides | None]:
    """Return the rows of each claim on a dataset; None where they are not there, or not of the same preset."""
    sides = dict.fromkeys(side for claim in source.claims for side in (claim.better, claim.worse))
    rows = {side: _row(side, records, source, preset, staleness) for side in sides}
    found: list[_Sides | None] = []
    for claim in source.claims:
        better, worse = rows[claim.better], rows[claim.worse]
        pairs = _pairs(better, worse)
        if pairs and claim.better.row and claim.worse.row and source.ablation:
            first, second = (ablation.drop_switches(side[0], source.ablation) for side in (better, worse))
            pairs = pairs if first == second else []  # a preset may have changed between two rows of the ablation
        found.append(_Sides(pairs, (*staleness.problems(better), *staleness.problems(worse))) if pairs else None)
    return found


def _test(sides: _Sides, metric: str, context: Context) -> str:
    """Return the mean of the differences over seeds in points, and p of the paired test if there are ranks.

    A mark follows where the test is of one run that a seed would change.
    """
    points = fmean(100 * (_value(first, metric) - _value(second, metric)) for first, second in sides.pairs)
    # A row that no seed changes has one run.
    first, second = (
        context.contender([*{record.key: record for record in side}.values()])
        for side in zip(*sides.pairs, strict=True)
    )
    if first is None or second is None:
        return _with_sign(points)
    p = p_value(first, second, metric)
    is_of_one_run = any(len(row.runs) == 1 and not row.deterministic for row in (first, second))
    mark = captions.ONE_RUN if is_of_one_run else ""
    return f"{_with_sign(points)} ({'p < 0.001' if p < 0.001 else f'p {p:.3f}'}){mark}"


def _row(side: Side, records: Sequence[Record], source: Source, preset: str, staleness: Staleness) -> list[Record]:
    """The records of one side of a claim, one per seed; none if the board does not have it."""
    if side.row is not None and source.ablation:
        inside = [record for record in records if record.cell.setting == source.ablation.setting]
        rows = [record for record in inside if _is_row(record, side.row, source.ablation, staleness)]
        own = [record for record in rows if Facts.of(record).preset == preset]
    else:
        inside = [record for record in records if record.cell.setting == side.setting]
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


def _with_sign(points: float) -> str:
    """A difference in points; what rounds to zero has no minus sign."""
    return f"{round(points, 2) + 0.0:+.2f}"
