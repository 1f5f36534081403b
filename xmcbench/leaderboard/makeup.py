"""The table of what each row is made of, so that a reader need not ask."""

from __future__ import annotations

from collections.abc import Iterable

from xmcbench.leaderboard.provenance import kinds, models
from xmcbench.leaderboard.rows import grouped, names
from xmcbench.leaderboard.tables import Table, text_table
from xmcbench.records import Record, Standing

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


def table(records: Iterable[Record], name: str, caption: str, standing: Standing, runs: str = "") -> Table:
    """A line for each row that has a result, by name; the command is that of its first seed.

    runs: the folder of the records, if it is not the default of the command.
    """
    done = [record for record in records if record.ok]
    groups = grouped(done)
    lines, sorts = [], {}
    for key, called in sorted(names(groups).items(), key=lambda each: each[1]):
        group = groups[key]
        first, used = group[0], models(group[0])
        stale = standing.problems(group)
        lines.append(
            (
                called,
                [
                    _PAIRS[first.method.supervision],
                    "; ".join(f"{each.name} ({each.source})" for each in used),
                    "; ".join(f"{each.parameters:,}" for each in used if each.parameters is not None),
                    "; ".join(f"{each.width:,}" for each in used if each.width is not None),
                    "; ".join(each.shown_data for each in used if each.outside),
                    "; ".join(each.shown_license for each in used if each.outside),
                    "; ".join(stale or dict.fromkeys(map(standing.evidence, group))),
                    first.reproduction(runs),
                ],
                0,
            )
        )
        sorts[called] = kinds(first)
    return text_table(name, caption, "Method", _HEADS, lines, kinds=sorts)
