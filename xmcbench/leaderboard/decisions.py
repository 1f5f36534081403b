"""Pages of datasets for choosing hyperparameters (``-dev``): a table for each method, with its choices side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmcbench.leaderboard import captions
from xmcbench.leaderboard.blocks import Block, Heading, without_a_result
from xmcbench.leaderboard.rows import Row, rows, slug
from xmcbench.leaderboard.sections import Context
from xmcbench.leaderboard.tables import metric_table
from xmcbench.records import Record
from xmcbench.setting import Setting

#: The metrics by which values are chosen.
_CHOSEN_BY = ("P@1", "P@5", "R@100")


def decisions(context: Context, dataset: str, complete: Mapping[Setting, Sequence[Record]]) -> list[Block]:
    """The blocks of a page: for each setting, a table for each method with several rows, and one for the others."""
    found: list[Block] = []
    for setting, records in complete.items():
        filter_name = records[0].protocol.filter
        made = rows(records, filter_name, context.staleness)
        found.append(Heading(2, setting.title.capitalize(), setting.slug))
        by_method: dict[str, list[Row]] = {}
        for row in sorted((row for row in made if row.figures), key=lambda row: row.facts.title):
            by_method.setdefault(row.facts.title, []).append(row)
        single = [own[0] for own in by_method.values() if len(own) == 1]
        for title, own in by_method.items():
            if len(own) > 1:
                own = sorted(own, key=lambda row: -row.figures["P@1"].value)  # noqa: PLW2901 - the same rows
                table = metric_table(
                    own, _CHOSEN_BY, f"{setting.slug}-{slug(title)}", ties=context.ties(own, _CHOSEN_BY)
                )
                found += [Heading(3, title), table]
        if single:
            found += [
                Heading(3, "Methods with one row"),
                metric_table(single, _CHOSEN_BY, f"{setting.slug}-single", ties=context.ties(single, _CHOSEN_BY)),
            ]
        found += [captions.decisions(dataset, setting, records, filter_name), *without_a_result(made)]
    return found
