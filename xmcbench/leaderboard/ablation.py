"""The page of ablations: the published ones, and the measured rows that set the same switches.

Measured rows are in one table if they differ in nothing but the switches. Rows with all components on are only shown
beside rows without some. Rows are compared on the seeds that all of them have, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from xmcbench.leaderboard import captions
from xmcbench.leaderboard.blocks import Block, Figures, Heading, Page, citations, without_a_result
from xmcbench.leaderboard.groups import by_setting, group_by, group_rows
from xmcbench.leaderboard.losses import loss_charts
from xmcbench.leaderboard.names import shared_name, slug, tell_apart
from xmcbench.leaderboard.published import MAIN, Ablation, Source
from xmcbench.leaderboard.rows import rows
from xmcbench.leaderboard.tables import ablation_table, text_table, without_switches
from xmcbench.records import Record, Staleness
from xmcbench.storage.canonical import sha256_json

#: The number of a row that has not been published.
NO_INDEX = "-"

Records = Sequence[Record]


def page(datasets: Mapping[str, Records], printed: Sequence[Source], staleness: Staleness) -> Page | None:
    """The page; None if no source has an ablation. ``datasets``: name -> records."""
    blocks: list[Block] = []
    for number, source in enumerate(printed, 1):
        ablation = source.ablation
        if ablation is None:
            continue
        heads = [head for head, _ in ablation.switches.values()]
        lines = [
            (index, [*switched.values(), *(figures[metric] for metric in MAIN)], number)
            for index, switched, figures in ablation.rows
        ]
        caption = captions.ablation(ablation, source)
        blocks.append(Heading(2, f"{ablation.dataset}, published"))
        blocks.append(text_table("published", caption, "Row", [*heads, *MAIN], lines, ranked=MAIN))
        for name in sorted(datasets):
            switched_records = [record for record in datasets[name] if _has(record, ablation.switches)]
            for setting, records in by_setting(switched_records).items():
                if groups := _groups(records, ablation):
                    blocks.append(Heading(2, f"{name}, {setting.title}, measured"))
                    blocks += [block for group in groups for block in _blocks_of(group, ablation, staleness)]
    return Page("ablation", "Ablation", (*blocks, *citations(printed, attrgetter("ablation")))) if blocks else None


def split_ablated(records: Records, printed: Iterable[Source]) -> tuple[Records, Records]:
    """The records of whole methods, and those of a method with a component switched off."""
    switches = [source.ablation.switches for source in printed if source.ablation]
    whole: list[Record] = []
    partial: list[Record] = []
    for record in records:
        on = [record.cell.parameters[switch] for names in switches if _has(record, names) for switch in names]
        (whole if all(on) else partial).append(record)
    return whole, partial


def _groups(records: Records, ablation: Ablation) -> list[tuple[str, str, Records]]:
    """(name, stem, records) that differ in the switches alone, by name; at least one has a component off.

    The name is what the names of all rows have in common, the stem names their files.
    """
    groups = group_by(records, lambda record: sha256_json([record.cell.method, drop_switches(record, ablation)]))
    kept: dict[str, Records] = {}
    named = {}
    for key, group in sorted(groups.items()):
        if all(all(_switches_of(record.cell.parameters, ablation)) for record in group):
            continue
        cell = group[0].cell
        stem = f"{cell.dataset.lower()}-{cell.setting.slug}-{slug(cell.method)}-{key[:6]}"
        # The budget is not that of all rows, and a row set up by hand is named after its parameters too.
        variants = [without_switches(f"({record.method.variant})", ablation.switches)[1:-1] for record in group]
        kept[stem], named[stem] = group, shared_name(group[0].method.title, variants)
    names = tell_apart(named, {stem: drop_switches(group[0], ablation) for stem, group in kept.items()})
    return sorted(((names[stem], stem, group) for stem, group in kept.items()), key=lambda group: group[:2])


def drop_switches(record: Record, ablation: Ablation) -> dict[str, object]:
    """Return the parameters of a record that are not switches."""
    return {name: value for name, value in record.cell.parameters.items() if name not in ablation.switches}


def _blocks_of(group: tuple[str, str, Records], ablation: Ablation, staleness: Staleness) -> Iterator[Block]:
    """Heading, table and loss curves of one group; rows in the published order, then the others."""
    name, stem, records = group
    records, left_out = _shared_seeds(records)
    filter_name = records[0].protocol.filter
    made = sorted(rows(records, filter_name, staleness), key=lambda row: _order(row.parameters, ablation))
    yield Heading(3, name)
    if any(row.figures for row in made):
        caption = captions.rows_of_ablation(name, records, filter_name, ablation) + left_out
        yield ablation_table(made, ablation.switches, lambda row: index(row.parameters, ablation), stem, caption)
    drawn = loss_charts(records, f"ablation-{stem}", lambda record: _label(record.cell.parameters, ablation))
    if first := next(drawn, None):
        yield Figures((first,))
    yield from without_a_result(made)


def _shared_seeds(records: Records) -> tuple[Records, str]:
    """The records of the seeds that every row has, and a sentence on those left out; all of them if no seed is
    shared."""
    seeds = [{record.cell.seed for record in group} for group in group_rows(records).values()]
    shared = set.intersection(*seeds)
    others = set.union(*seeds) - shared
    if not shared or not others:
        return records, ""
    kept = [record for record in records if record.cell.seed in shared]
    return kept, f" Seeds that not every row has ({', '.join(map(str, sorted(others)))}) are left out."


def _order(parameters: Mapping[str, object], ablation: Ablation) -> tuple[int, tuple[bool, ...]]:
    indices = [index for index, _, _ in ablation.rows]
    own = index(parameters, ablation)
    return indices.index(own) if own in indices else len(indices), _switches_of(parameters, ablation)


def index(parameters: Mapping[str, object], ablation: Ablation) -> str:
    """The number of the published row with the same switches; ``NO_INDEX`` if there is none."""
    own = ["yes" if on else "no" for on in _switches_of(parameters, ablation)]
    return next((index for index, switched, _ in ablation.rows if [*switched.values()] == own), NO_INDEX)


def _label(parameters: Mapping[str, object], ablation: Ablation) -> str:
    """A short name of a row for a legend, without line breaks: "4 (MAC, LR)"; without a number "MAC, E"."""
    heads = [head for head, _ in ablation.switches.values()]
    on = ", ".join(head for head, own in zip(heads, _switches_of(parameters, ablation), strict=True) if own) or "none"
    number = index(parameters, ablation)
    return (on if number == NO_INDEX else f"{number} ({on})").replace(" ", "\N{NO-BREAK SPACE}")


def _switches_of(parameters: Mapping[str, object], ablation: Ablation) -> tuple[bool, ...]:
    return tuple(bool(parameters[switch]) for switch in ablation.switches)


def _has(record: Record, switches: Iterable[str]) -> bool:
    parameters = record.cell.parameters
    return all(isinstance(parameters.get(switch), bool) for switch in switches)
