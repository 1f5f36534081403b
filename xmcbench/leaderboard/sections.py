"""The section of a dataset's page on one setting: its tables and figures, in the order of the paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xmcbench.leaderboard import captions
from xmcbench.leaderboard.blocks import Block, Heading, without_a_result
from xmcbench.leaderboard.provenance import kinds, models
from xmcbench.leaderboard.published import MAIN, Source
from xmcbench.leaderboard.rows import Cost, Row, borrow, group_rows, names, rows
from xmcbench.leaderboard.tables import SECOND, Table, cost_table, group_table, metric_table, text_table
from xmcbench.records import Record, Standing
from xmcbench.setting import Setting

_PAIRS = {"required": "needs pairs", "optional": "uses pairs if there are any", "unused": "ignores pairs"}
_HEADS = (
    "pairs",
    "model",
    "parameters",
    "width",
    "outside training data, according to the model card",
    "license",
    "state",
    "reproduce",
)


@dataclass(frozen=True)
class Context:
    """The context of all sections of a board.

    printed: published figures. standing: today's code, by which stale rows are marked. runs: the folder of the records,
    for commands that are printed; empty for the default of these.
    """

    printed: tuple[Source, ...]
    standing: Standing
    runs: str = ""


def section(
    context: Context,
    dataset: str,
    setting: Setting,
    records: Sequence[Record],
    zero_shot: Sequence[Record] = (),
    remark: str = "",
) -> list[Block]:
    """The blocks of a section; none without records and published rows.

    zero_shot: results of the zero-shot setting, of which those of methods that ignore pairs belong here too. remark:
    that of the page.
    """
    published = [
        (number, row)
        for number, source in enumerate(context.printed, 1)
        for row in source.rows
        if (row.dataset, row.setting) == (dataset, setting)
    ]
    if not records and not published:
        return []
    borrowed = borrow(zero_shot, records) if setting.kind != "ez" else []
    filter_name = records[0].protocol.filter if records else "none"
    made = _with_borrowed(rows(records, filter_name, context.standing), rows(borrowed, filter_name, context.standing))
    notes = {
        metric: note
        for number, row in published
        for metric, note in context.printed[number - 1].column_notes.get(row.table, {}).items()
    }
    about = captions.main(
        dataset, setting, records, filter_name, [(context.printed[n - 1], row) for n, row in published]
    )
    noted = [replace(row, marks=(*row.marks, *row.origins)) for row in made]
    found: list[Block] = []
    if published or any(row.figures for row in made):
        found.append(metric_table(noted, MAIN, setting.slug, about, published, notes))
    if explained := _with_a_remark(made, remark):
        found.append(captions.remark_link(explained))
    if any(row.figures for row in made):
        caption = captions.second(dataset, setting, filter_name)
        found.append(metric_table(made, SECOND, f"{setting.slug}-ndcg-psp", caption))
        for groups in (("seen", "unseen"), ("head", "middle", "tail")):
            if setting.kind != "ez" or "unseen" not in groups:  # in the zero-shot setting every label is unseen
                caption = captions.groups(dataset, setting, records, filter_name, groups)
                found += _groups(made, groups, setting, caption)
        found += _costs(made, dataset, setting)
        about = captions.provenance(dataset, setting)
        found += [
            Heading(3, "What the rows are made of"),
            _provenance([*records, *borrowed], f"{setting.slug}-rows", about, context),
        ]
    return [*found, *without_a_result(made)]


def _with_a_remark(made: Iterable[Row], remark: str) -> list[str]:
    """The titles of methods in a table with which a paragraph of the remark begins."""
    paragraphs = re.split(r"\n\s*\n", remark)
    titles = sorted({row.title for row in made if row.figures})
    return [
        title
        for title in titles
        if any(re.match(rf"{re.escape(title)}(?!\w)", paragraph.lstrip()) for paragraph in paragraphs)
    ]


def _with_borrowed(own: Sequence[Row], borrowed: Sequence[Row]) -> list[Row]:
    """The rows of a setting and those of the zero-shot one, which a note tells apart; best P@1 first."""
    noted = [replace(row, marks=(captions.BORROWED, *row.marks), costs={}) for row in borrowed]
    return sorted([*own, *noted], key=lambda row: (-row.figures["P@1"].value if row.figures else 1.0, row.name))


def _groups(made: Sequence[Row], groups: Sequence[str], setting: Setting, caption: str) -> list[Block]:
    if not any(all(group in row.views for group in groups) for row in made):
        return []
    shown = _with_subsets(made) if "seen" in groups else made
    heading = Heading(3, f"By label: {', '.join(groups)}")
    return [heading, group_table(shown, groups, f"{setting.slug}-{groups[0]}", caption)]


def _with_subsets(made: Sequence[Row]) -> list[Row]:
    """Rows with a note where they lack subsets of others, as is so for one that ignores them and is run once.

    A row without a result has no seeds, and no note.
    """
    seeds = {seed for row in made for seed in row.seeds}
    return [
        replace(row, marks=(*row.marks, captions.subsets(row.seeds))) if row.seeds and {*row.seeds} != seeds else row
        for row in made
    ]


def _costs(made: Sequence[Row], dataset: str, setting: Setting) -> list[Block]:
    """One table per class of machine: times from different machines are not comparable."""
    machines: dict[str, list[tuple[Row, Cost]]] = {}
    for row in made:
        for machine, cost in row.costs.items():
            machines.setdefault(machine, []).append((row, cost))
    found: list[Block] = [Heading(3, "Time and memory")]
    for number, machine in enumerate(sorted(machines), 1):
        name = f"{setting.slug}-efficiency" + (f"-{number}" if number > 1 else "")
        found.append(cost_table(machines[machine], name, captions.efficiency(dataset, setting, machine)))
    return found


def _provenance(records: Iterable[Record], name: str, caption: str, context: Context) -> Table:
    """A line for each row that has a result, by name; the command is that of its first seed."""
    done = [record for record in records if record.ok]
    groups = group_rows(done)
    lines, sorts = [], {}
    for key, called in sorted(names(groups).items(), key=lambda named: named[1]):
        group = groups[key]
        first, used = group[0], models(group[0])
        stale = context.standing.problems(group)
        lines.append(
            (
                called,
                [
                    _PAIRS[first.method.supervision],
                    "; ".join(f"{model.name} ({model.source})" for model in used),
                    "; ".join(f"{model.parameters:,}" for model in used if model.parameters is not None),
                    "; ".join(f"{model.width:,}" for model in used if model.width is not None),
                    "; ".join(model.shown_data for model in used if model.outside),
                    "; ".join(model.shown_license for model in used if model.outside),
                    "; ".join(stale or dict.fromkeys(map(context.standing.evidence, group))),
                    first.reproduction(context.runs),
                ],
                0,
            )
        )
        sorts[called] = kinds(first)
    return text_table(name, caption, "Method", _HEADS, lines, kinds=sorts)
