"""Rows as tables. A table holds its cells as text, in percent, and as numbers; ``markup`` formats them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal

from xmcbench.leaderboard.groups import group_by
from xmcbench.leaderboard.names import short_names
from xmcbench.leaderboard.published import MAIN, PublishedRow
from xmcbench.leaderboard.rows import Cost, Estimate, Row

#: The columns of a second table, and of each group of labels.
SECOND = ("nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
OF_GROUPS = ("P@1", "P@5", "R@100")
#: The marks of figures: the best of a column, and those that a paired test does not separate from it.
BEST, TIED = "best", "tied"
#: The facts of a row that are columns, with their heads.
_FACTS = {"preset": "preset", "encoder": "encoder or parts", "training": "training", "others": "other parameters"}
#: The heads of those that a narrow screen leaves out.
MINOR = (_FACTS["encoder"], _FACTS["training"])

#: Metric -> the names of the rows that are statistically tied with the best one.
Ties = Mapping[str, Set[str]]


@dataclass(frozen=True)
class TableCell:
    """One cell: its text, the half-width of its interval, its rank in the column, its notes.

    rank: ``best``, ``tied`` with the best, or empty. value, half_width: of a metric, as fractions. file: of records,
    below their folder, to which a site links the text.
    """

    text: str = ""
    spread: str = ""
    rank: str = ""
    notes: tuple[str, ...] = ()
    value: float | None = None
    half_width: float | None = None
    file: str = ""


@dataclass(frozen=True)
class TableLine:
    """One row; ``source`` is the number of its publication, 0 for a measured row; ``notes`` are about all of its
    figures; ``kinds`` are those by which a reader may filter (``xmcbench.leaderboard.provenance``).

    name: the whole name. short: the text of the first column where that is shorter. record: the key of the row's first
    record. is_record: the line is about that record, and those of other tables lead to it on a site.
    """

    name: str
    cells: tuple[TableCell, ...]
    source: int = 0
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    short: str = ""
    record: str = ""
    is_record: bool = False

    @property
    def shown(self) -> str:
        """The text of the first column."""
        return self.short or self.name


@dataclass(frozen=True)
class Column:
    """The head of a column: its group ("P", "seen", or none) and its own label ("@1", "P@5").

    is_text: of words, on the left.
    """

    group: str
    label: str
    notes: tuple[str, ...] = ()
    is_text: bool = False

    @property
    def text(self) -> str:
        """Group and label in one line."""
        return f"{self.group} {self.label}".strip() if not self.label.startswith("@") else self.group + self.label


@dataclass(frozen=True)
class Table:
    """A table: ``name`` names its files; the first column, of names, is headed ``head``."""

    name: str
    caption: str
    head: str
    columns: tuple[Column, ...]
    lines: tuple[TableLine, ...]


def metric_table(
    rows: Sequence[Row],
    metrics: Sequence[str],
    name: str = "",
    caption: str = "",
    published: Sequence[tuple[int, PublishedRow]] = (),
    column_notes: Mapping[str, tuple[str, ...]] | None = None,
    ties: Ties | None = None,
    with_facts: bool = True,
) -> Table:
    """Metrics of measured rows, then of published ones with the number of their source.

    Published rows are marked separately. ties: default none. with_facts: give preset, encoder and the like their own
    columns; otherwise rows have their short names.
    """
    rows = [row for row in rows if row.figures]
    # Without propensities there is no PSP, and a publication need not print everything.
    if rows:
        metrics = [metric for metric in metrics if all(metric in row.figures for row in rows)]
    else:
        metrics = [metric for metric in metrics if any(metric in row.figures for _, row in published)]
    several_seeds = any(len(row.seeds) > 1 for row in rows)
    facts = [name for name in _FACTS if with_facts and any(getattr(row.facts, name) for row in rows)]
    titles = [row.facts.title for row in rows] if with_facts else short_names(rows)
    measured = _cells([[row.figures[metric] for metric in metrics] for row in rows])
    lines = []
    for row, title, figures in zip(rows, titles, measured, strict=True):
        tied = [row.name in (ties or {}).get(metric, ()) for metric in metrics]
        cells = [TableCell(getattr(row.facts, name)) for name in facts]
        cells += [
            replace(cell, rank=TIED) if is_tied and not cell.rank else cell
            for cell, is_tied in zip(figures, tied, strict=True)
        ]
        lines.append(_line(row, title, [*cells, _seeds(row)] if several_seeds else cells))
    printed = sorted(published, key=lambda numbered: (-float(numbered[1].figures[metrics[0]]), numbered[1].method))
    ranks = [_best_as_printed([(number, row.figures.get(metric, "")) for number, row in printed]) for metric in metrics]
    for position, (number, cited) in enumerate(printed):
        cells = [TableCell()] * len(facts)
        for metric, column in zip(metrics, ranks, strict=True):
            figure, rank, notes = cited.figures.get(metric), column[position], cited.notes.get(metric, ())
            cells.append(TableCell(figure, "", rank, notes, float(Decimal(figure) / 100)) if figure else TableCell())
        cells += [TableCell()] if several_seeds else []
        lines.append(TableLine(cited.method, tuple(cells), number))
    columns = [Column("", _FACTS[name], is_text=True) for name in facts]
    columns += [_column(metric, (column_notes or {}).get(metric, ())) for metric in metrics]
    columns += [Column("", "seeds (sd of P@1)")] if several_seeds else []
    return Table(name, caption, "Method", tuple(columns), tuple(lines))


def _line(row: Row, short: str, cells: Iterable[TableCell]) -> TableLine:
    return TableLine(row.name, tuple(cells), notes=row.marks, kinds=row.kinds, short=short, record=row.key)


def ablation_table(
    rows: Sequence[Row],
    switches: Mapping[str, tuple[str, str]],
    index: Callable[[Row], str],
    name: str,
    caption: str,
) -> Table:
    """Measured rows with a column per switch, in the order of the rows.

    ``switches``: parameter -> (head of its column, meaning); ``index``: row name -> text shown instead.
    """
    table = metric_table(rows, MAIN, name, caption, with_facts=False)
    done = [row for row in rows if row.figures]
    lines = [
        replace(
            line,
            name=index(row),
            short="",
            cells=(*(TableCell("yes" if row.parameters[switch] else "no") for switch in switches), *line.cells),
        )
        for row, line in zip(done, table.lines, strict=True)
    ]
    heads = [Column("", head) for head, _ in switches.values()]
    return replace(table, head="Row", columns=(*heads, *table.columns), lines=tuple(lines))


def without_switches(name: str, switches: Iterable[str]) -> str:
    """A row's name without the changes of its preset that are the switches."""
    for switch in switches:
        name = re.sub(rf"(, |(?<=\()){switch}=(True|False)", "", name)
    return name.replace("(, ", "(").removesuffix(" ()")


def group_table(rows: Sequence[Row], groups: Sequence[str], name: str, caption: str) -> Table:
    """Some metrics of each group of labels (see ``xmcbench.metrics.labels``), side by side."""
    rows = [row for row in rows if all(group in row.views for group in groups)]
    pairs = [(group, metric) for group in groups for metric in OF_GROUPS]
    measured = _cells([[row.views[group][metric] for group, metric in pairs] for row in rows])
    lines = tuple(map(_line, rows, short_names(rows), measured))
    return Table(name, caption, "Method", tuple(Column(group, metric) for group, metric in pairs), lines)


def cost_table(
    costs: Sequence[tuple[Row, Cost]], name: str = "", caption: str = "", machines: Sequence[str] = ()
) -> Table:
    """Time and memory of (row, cost). Nothing is ranked.

    machines: the class of machine of each, which is shown; without them, all are of one class.
    """
    gpu = any(cost.peak_gpu_bytes is not None for _, cost in costs)
    lines = []
    rows = {row.name: row for row, _ in costs}
    short = dict(zip(rows, short_names([*rows.values()]), strict=True))
    for position, (row, cost) in enumerate(costs):
        texts = [f"{cost.fit_s:.1f}", f"{cost.reused_s:.1f}", f"{cost.predict_ms:.2f}", _gib(cost.peak_memory_bytes)]
        texts += [_gib(cost.peak_gpu_bytes) if cost.peak_gpu_bytes is not None else ""] if gpu else []
        texts += [machines[position]] if machines else []
        lines.append(_line(row, short[row.name], map(TableCell, texts)))
    heads = ["fit s", "reused s", "predict ms/instance", "peak memory GiB", *(["peak GPU GiB"] if gpu else [])]
    heads += ["measured on"] if machines else []
    return Table(name, caption, "Method", tuple(Column("", head) for head in heads), tuple(lines))


def text_table(
    name: str,
    caption: str,
    head: str,
    columns: Sequence[str],
    lines: Sequence[tuple[str, Sequence[str], int]],
    ranked: Sequence[str] = (),
    notes: Mapping[str, tuple[str, ...]] | None = None,
    words: Sequence[str] = (),
) -> Table:
    """A table of plain texts, one line per (name, texts, number of the source or 0); the columns ``ranked`` are
    figures, and the columns ``words`` are on the left. notes: name of a line -> notes on it."""
    ranks = [
        _best_as_printed([(source, texts[place] if column in ranked else "") for _, texts, source in lines])
        for place, column in enumerate(columns)
    ]
    made = []
    for position, (first, texts, source) in enumerate(lines):
        cells = [TableCell(text, "", column[position]) for text, column in zip(texts, ranks, strict=True)]
        made.append(TableLine(first, tuple(cells), source, (notes or {}).get(first, ())))
    heads = tuple(replace(_column(text, ()), is_text=text in words) for text in columns)
    return Table(name, caption, head, heads, tuple(made))


def _best_as_printed(figures: Sequence[tuple[int, str]]) -> list[str]:
    """The ranks of a column, from the source and the figure of each line ("" where it has none).

    Each source has its own best figure: two publications need not share a protocol.
    """
    by_source = group_by((pair for pair in figures if pair[1]), lambda pair: pair[0])
    best = {source: max(float(figure) for _, figure in own) for source, own in by_source.items() if len(own) > 1}
    return [BEST if figure and float(figure) == best.get(source) else "" for source, figure in figures]


def _cells(lines: Sequence[Sequence[Estimate]]) -> list[list[TableCell]]:
    """The cells of measured figures; the best ones of each column have their rank, unless all are zero."""
    best = [max((figure.value for figure in column), default=0.0) for column in zip(*lines, strict=True)]
    several = len(lines) > 1
    return [
        [
            TableCell(
                _percent(figure.value),
                _width(figure.half_width),
                BEST if several and highest > 0 and _percent(figure.value) == _percent(highest) else "",
                value=figure.value,
                half_width=figure.half_width,
            )
            for figure, highest in zip(line, best, strict=True)
        ]
        for line in lines
    ]


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _width(half_width: float) -> str:
    """In percent, with a second decimal where one would show 0.0."""
    text = f"{100 * half_width:.1f}"
    return f"{100 * half_width:.2f}" if text == "0.0" and half_width else text


def _seeds(row: Row) -> TableCell:
    spread = row.figures["P@1"].seed_sd
    return TableCell(f"{len(row.seeds)}" + (f" ({100 * spread:.2f})" if spread is not None else ""))


def _column(text: str, notes: tuple[str, ...]) -> Column:
    family, at, k = text.partition("@")
    return Column(family, at + k, notes) if at else Column("", text, notes)


def _gib(memory: int) -> str:
    return f"{memory / 2**30:.2f}"
