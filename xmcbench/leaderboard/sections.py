"""The tables of one setting of a dataset, in the order of the paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xmcbench.leaderboard import captions
from xmcbench.leaderboard.blocks import Block, Differences, Heading, without_a_result
from xmcbench.leaderboard.groups import borrow, group_by, group_rows
from xmcbench.leaderboard.names import free_name, names, short_names, slug
from xmcbench.leaderboard.provenance import kinds, models, newer
from xmcbench.leaderboard.published import MAIN, Source
from xmcbench.leaderboard.rows import Row, best_first, of_presets, rows
from xmcbench.leaderboard.tables import (
    SECOND,
    Column,
    Table,
    TableCell,
    TableLine,
    Ties,
    cost_table,
    group_table,
    metric_table,
    text_table,
)
from xmcbench.metrics.evaluation import Scores
from xmcbench.metrics.flips import Verdict
from xmcbench.metrics.ties import Contender, difference, find_ties
from xmcbench.records import Record, Staleness
from xmcbench.records.packed import LINES
from xmcbench.setting import Setting

#: The metrics of the first table of a dataset, and of tables of many rows.
FEW = ("P@1", "P@5", "R@10", "R@100")
#: The metrics by which hyperparameters are chosen.
_CHOSEN_BY = ("P@1", "P@5", "R@100")
_PAIRS = {"required": "needs pairs", "optional": "uses pairs if there are any", "unused": "ignores pairs"}
_OF_MODELS = ("model", "source", "parameters", "width", "outside training data, according to its card", "license")


@dataclass(frozen=True)
class Context:
    """The context of all sections of a board.

    printed: published figures. staleness: today's code, by which stale rows are marked. runs: the folder of the
    records, for commands that are printed; empty for the default of these. scores: the evaluation of a record, for
    tests of rows; None leaves ties out. dates: dataset -> the day of its test data, as 2026-11-21; rows with a model
    that is newer are marked.
    """

    printed: tuple[Source, ...]
    staleness: Staleness
    runs: str = ""
    scores: Callable[[Record], Scores | None] | None = None
    dates: Mapping[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, ...], Contender | None] = field(default_factory=dict, init=False, repr=False)

    def ties(self, shown: Sequence[Row], metrics: Iterable[str]) -> Ties:
        """Return the rows that are statistically tied with the best one, metric by metric; none without ranks."""
        return find_ties(self._contenders(shown), _shared(shown, metrics))

    def can_test(self, shown: Sequence[Row]) -> bool:
        """Return whether all rows have ranks, without which none is tested."""
        return bool(self._contenders(shown))

    def differences(self, shown: Sequence[Row], metrics: Iterable[str]) -> list[Block]:
        """Return the differences of all pairs of rows; none without ranks or with fewer than two rows."""
        contenders = [*self._contenders(shown).values()]
        known = _shared(shown, metrics)

        def tests(first: int, second: int) -> list[tuple[float, Verdict]]:
            return [difference(contenders[first], contenders[second], metric) for metric in known]

        return [Differences(tuple(short_names(shown)), known, tests)] if len(contenders) > 1 else []

    def contender(self, records: Sequence[Record]) -> Contender | None:
        """Return the runs of a row with their evaluations; None where one is missing."""
        keys = tuple(record.key for record in records)
        if keys not in self._known:
            runs = [found for record in records if self.scores and (found := self.scores(record)) is not None]
            subsets = [record.drawn_pairs for record in records]
            is_whole = runs and len(runs) == len(records)
            self._known[keys] = Contender(runs, subsets, records[0].seedless) if is_whole else None
        return self._known[keys]

    def _contenders(self, shown: Sequence[Row]) -> dict[str, Contender]:
        """Return the rows with their evaluations; none where one is missing, which might be the best row."""
        found = {row.name: self.contender(row.records) for row in shown}
        contenders = {name: contender for name, contender in found.items() if contender is not None}
        return contenders if len(contenders) == len(found) else {}


@dataclass(frozen=True)
class Measured:
    """The results of one setting of a dataset.

    records: those of the setting. borrowed: zero-shot results of methods that ignore pairs. rows: of both, best P@1
    first.
    """

    dataset: str
    setting: Setting
    records: Sequence[Record]
    borrowed: Sequence[Record]
    rows: Sequence[Row]
    filter: str

    @classmethod
    def of(
        cls, context: Context, dataset: str, setting: Setting, records: Sequence[Record], zero_shot: Sequence[Record]
    ) -> Measured:
        """The results of a setting, with those of the zero-shot setting that belong there too."""
        borrowed = borrow(zero_shot, records) if setting.kind != "ez" else []
        filter_name = records[0].protocol.filter if records else "none"
        own, other = (rows(part, filter_name, context.staleness) for part in (records, borrowed))
        other = [replace(row, marks=(captions.BORROWED, *row.marks), costs={}) for row in other]
        date = context.dates.get(dataset, "")
        marked = [
            replace(row, marks=(*row.marks, *newer(row.records[0], date))) if row.records else row
            for row in (*own, *other)
        ]
        return cls(dataset, setting, records, borrowed, sorted(marked, key=best_first), filter_name)

    @property
    def standard(self) -> list[Row]:
        """The rows with the parameters of a preset, unchanged; all rows where there is none."""
        return of_presets(row for row in self.rows if row.figures)

    @property
    def changed(self) -> list[Row]:
        """The rows with changed parameters."""
        standard = {row.name for row in self.standard}
        return [row for row in self.rows if row.figures and row.name not in standard]


def main_table(context: Context, measured: Measured, metrics: Sequence[str], name: str) -> Table | None:
    """The main table: rows of unchanged presets and published rows; None without either."""
    dataset, setting, shown = measured.dataset, measured.setting, measured.standard
    published = [
        (number, source, row)
        for number, source in enumerate(context.printed, 1)
        for row in source.rows
        if (row.dataset, row.setting) == (dataset, setting)
    ]
    if not published and not shown:
        return None
    notes = {
        metric: note for _, source, row in published for metric, note in source.column_notes.get(row.table, {}).items()
    }
    cited = [(source, row) for _, source, row in published]
    caption = captions.main(dataset, setting, measured.records, measured.filter, cited, context.can_test(shown))
    numbered, ties = [(number, row) for number, _, row in published], context.ties(shown, metrics)
    return metric_table(shown, metrics if shown else MAIN, name, caption, numbered, notes, ties)


def details(context: Context, measured: Measured, remark: str = "", page: str = "") -> list[Block]:
    """The other tables of a setting. remark: that of the dataset's ``page``."""
    dataset, setting, shown = measured.dataset, measured.setting, measured.standard
    found: list[Block] = []
    if explained := _with_a_remark(measured.rows, remark):
        found.append(captions.remark_link(explained, page))
    if shown:
        caption, ties = captions.second(dataset, setting, measured.filter), context.ties(shown, SECOND)
        found += [
            Heading(2, "nDCG and propensity-scored precision"),
            metric_table(shown, SECOND, f"{setting.slug}-ndcg-psp", caption, ties=ties, with_facts=False),
        ]
        for groups in (("seen", "unseen"), ("head", "middle", "tail")):
            if setting.kind != "ez" or "unseen" not in groups:  # in the zero-shot setting every label is unseen
                caption = captions.groups(dataset, setting, measured.records, measured.filter, groups)
                found += _groups(shown, groups, setting, caption)
        found += _costs(shown, dataset, setting)
        if changed := measured.changed:
            caption = captions.changes(dataset, setting, measured.filter)
            found += [
                Heading(2, "Rows with other parameters"),
                metric_table(changed, FEW, f"{setting.slug}-changed", caption),
            ]
        records = [*measured.records, *measured.borrowed]
        found += _models(records, setting, captions.models(dataset, setting))
        found += [
            Heading(2, "Rows and records"),
            _provenance(records, f"{setting.slug}-rows", captions.provenance(dataset, setting), context),
        ]
    return [*found, *without_a_result(measured.rows)]


def decisions(context: Context, dataset: str, complete: Mapping[Setting, Sequence[Record]]) -> list[Block]:
    """Return the blocks of a dataset for choosing hyperparameters (``-dev``), with the choices side by side.

    A setting has a table per method with several rows, and one for the other methods.
    """
    found: list[Block] = []
    for setting, records in complete.items():
        filter_name = records[0].protocol.filter
        made = rows(records, filter_name, context.staleness)
        found.append(Heading(2, setting.title.capitalize(), setting.slug))
        by_method = sorted(group_by((row for row in made if row.figures), lambda row: row.facts.title).items())
        taken = {"single"}
        parts = [(title, free_name(slug(title), taken), own) for title, own in by_method if len(own) > 1]
        if single := [own[0] for _, own in by_method if len(own) == 1]:
            parts.append(("Methods with one row", "single", single))
        for title, name, own in parts:
            table = metric_table(own, _CHOSEN_BY, f"{setting.slug}-{name}", ties=context.ties(own, _CHOSEN_BY))
            found += [Heading(3, title), table]
        if parts:
            are_tested = all(context.can_test(own) for _, _, own in parts)
            found.append(captions.decisions(dataset, setting, records, filter_name, are_tested))
        found += without_a_result(made)
    return found


def _shared(shown: Sequence[Row], metrics: Iterable[str]) -> tuple[str, ...]:
    return tuple(metric for metric in metrics if all(metric in row.figures for row in shown))


def _with_a_remark(made: Iterable[Row], remark: str) -> list[str]:
    """The titles of methods in a table with which a paragraph of the remark begins."""
    paragraphs = re.split(r"\n\s*\n", remark)
    titles = sorted({row.facts.title for row in made if row.figures})
    return [
        title
        for title in titles
        if any(re.match(rf"{re.escape(title)}(?!\w)", paragraph.lstrip()) for paragraph in paragraphs)
    ]


def _groups(made: Sequence[Row], groups: Sequence[str], setting: Setting, caption: str) -> list[Block]:
    if not any(all(group in row.views for group in groups) for row in made):
        return []
    seeds = {seed for row in made for seed in row.seeds}
    if "seen" in groups:  # a row may lack subsets that others have, such as one that ignores them and is run once
        made = [
            row if {*row.seeds} == seeds else replace(row, marks=(*row.marks, captions.subsets(row.seeds)))
            for row in made
        ]
    heading = Heading(2, f"By label: {', '.join(groups)}")
    return [heading, group_table(made, groups, f"{setting.slug}-{groups[0]}", caption)]


def _costs(made: Sequence[Row], dataset: str, setting: Setting) -> list[Block]:
    """One table per class of machine: times from different machines are not comparable."""
    machines = sorted({machine for row in made for machine in row.costs})
    found: list[Block] = [Heading(2, "Time and memory")] if machines else []
    for number, machine in enumerate(machines, 1):
        name = f"{setting.slug}-efficiency" + (f"-{number}" if number > 1 else "")
        costs = [(row, row.costs[machine]) for row in made if machine in row.costs]
        found.append(cost_table(costs, name, captions.efficiency(dataset, setting, machine)))
    return found


def _models(records: Iterable[Record], setting: Setting, caption: str) -> list[Block]:
    """A line per model that rows start from; none where no row does."""
    found = dict.fromkeys(model for record in records if record.ok for model in models(record))
    lines = []
    for model in found:
        sizes = [f"{size:,}" if size is not None else "" for size in (model.parameters, model.width)]
        outside = [model.shown_data, model.shown_license] if model.outside else ["", ""]
        lines.append((model.name, [model.source, *sizes, *outside], 0))
    if not lines:
        return []
    table = text_table(f"{setting.slug}-models", caption, _OF_MODELS[0], _OF_MODELS[1:], lines, words=_OF_MODELS)
    return [Heading(2, "Models that rows start from"), table]


def _provenance(records: Iterable[Record], name: str, caption: str, context: Context) -> Table:
    """A line per row that has a result, by name; the command is that of its first seed."""
    groups = group_rows(record for record in records if record.ok)
    lines = []
    for key, called in sorted(names(groups).items(), key=lambda named: named[1]):
        group = groups[key]
        first, stale = group[0], context.staleness.problems(group)
        cells = (
            TableCell(_PAIRS[first.method.supervision]),
            TableCell("; ".join(stale or dict.fromkeys(map(context.staleness.evidence, group)))),
            TableCell(first.reproduction(context.runs)),
            TableCell(
                ", ".join(record.key[:12] for record in group), file=f"{first.cell.path.parent.as_posix()}{LINES}"
            ),
        )
        lines.append(TableLine(called, cells, kinds=kinds(first), record=first.key, is_record=True))
    heads = ("pairs", "state", "reproduce", "record of each seed")
    return Table(name, caption, "Method", tuple(Column("", head, is_text=True) for head in heads), tuple(lines))
