"""Rows by group of labels: seen and unseen, or head, middle and tail, for a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xmcbench.leaderboard.plot import Marked, WithoutNotes
from xmcbench.leaderboard.rows import Estimate, Row
from xmcbench.metrics import protocol
from xmcbench.output import escaping
from xmcbench.setting import Setting

#: The metrics that are drawn.
METRICS = ("P@1", "R@100")
#: A single row is in the table, and needs no drawing.
_FEWEST = 2


@dataclass(frozen=True)
class GroupLine(Marked):
    """A row: group -> metric -> figure. marks: as of ``Row``."""

    name: str
    figures: Mapping[str, Mapping[str, Estimate]]
    seeds: tuple[int, ...]
    marks: tuple[str, ...]


@dataclass(frozen=True)
class GroupFigure(WithoutNotes):
    """The rows of a setting by group of labels, in the order of the page. ``stem``: the name of its files."""

    dataset: str
    setting: Setting
    groups: tuple[str, ...]
    filter: str
    stem: str
    lines: tuple[GroupLine, ...]

    @property
    def short(self) -> str:
        """A short title for a row of drawings."""
        return f"{', '.join(self.groups[:-1])} and {self.groups[-1]} labels"

    @property
    def title(self) -> str:
        """The title of the figure."""
        return f"{self.short[:1].upper()}{self.short[1:]} on {self.dataset}, {self.setting.title}"


def group_figure(
    rows: Sequence[Row], groups: Sequence[str], dataset: str, setting: Setting, filter_name: str, stem: str
) -> GroupFigure | None:
    """The figure of rows that have all ``groups``; None for fewer than two of them."""
    lines = tuple(
        GroupLine(row.name, {group: row.views[group] for group in groups}, row.seeds, row.marks)
        for row in rows
        if all(group in row.views for group in groups)
    )
    return GroupFigure(dataset, setting, tuple(groups), filter_name, stem, lines) if len(lines) >= _FEWEST else None


def as_csv(made: GroupFigure) -> str:
    """One line per row, group and metric, in percent."""
    head = ("dataset", "setting", "group", "method", "metric")
    lines = [[*head, "value", "half_width", "seeds", "filter", "protocol", "marks"]]
    for each in made.lines:
        for group in made.groups:
            for metric in METRICS:
                found = each.figures[group][metric]
                what = [made.dataset, made.setting.slug, group, each.name, metric]
                values = [f"{100 * found.value:.4f}", f"{100 * found.half_width:.4f}"]
                how = [" ".join(map(str, each.seeds)), made.filter, str(protocol.VERSION), " ".join(each.marks)]
                lines.append([*what, *values, *how])
    return escaping.csv_file(lines)
