"""Rows as tables. A table holds its cells as text, in percent, and as numbers; ``markup`` formats them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal

from xmcbench.leaderboard.published import MAIN, PublishedRow
from xmcbench.leaderboard.rows import Cost, Estimate, Facts, Row, short_names

#: The columns of a second table, and of each group of labels.
SECOND = ("nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
OF_GROUPS = ("P@1", "P@5", "R@100")
#: The marks of figures: the best of a column, and those that a paired test does not separate from it.
BEST, TIED = "best", "tied"
#: The facts of a row that are columns, with their heads.
_FACTS = {"preset": "preset", "encoder": "encoder or parts", "training": "training", "changes": "other parameters"}
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
    facts, told = _fact_columns([row.facts for row in rows]) if with_facts else ((), [()] * len(rows))
    titles = [row.facts.title for row in rows] if with_facts else short_names(rows)
    measured = _cells([[row.figures[metric] for metric in metrics] for row in rows])
    tied = [[row.name in (ties or {}).get(metric, ()) for metric in metrics] for row in rows]
    lines = [
        TableLine(
            row.name,
            (*own, *_with_ties(cells, marked), *([_seeds(row)] if several_seeds else [])),
            notes=row.marks,
            kinds=row.kinds,
            short=title,
            record=row.key,
        )
        for row, title, own, cells, marked in zip(rows, titles, told, measured, tied, strict=True)
    ]
    printed = sorted(published, key=lambda numbered: (-float(numbered[1].figures[metrics[0]]), numbered[1].method))
    ranks = [_best_as_printed([(number, row.figures.get(metric, "")) for number, row in printed]) for metric in metrics]
    for position, (number, row) in enumerate(printed):
        cells = [
            _cell_of_published(row, metric, column[position]) if metric in row.figures else TableCell()
            for metric, column in zip(metrics, ranks, strict=True)
        ]
        blank = [TableCell()] * len(facts)
        lines.append(TableLine(row.method, (*blank, *cells, *([TableCell()] if several_seeds else [])), number))
    columns = [*facts, *(_column(metric, (column_notes or {}).get(metric, ())) for metric in metrics)]
    columns += [Column("", "seeds (sd of P@1)")] if several_seeds else []
    return Table(name, caption, "Method", tuple(columns), tuple(lines))


def _fact_columns(rows: Sequence[Facts]) -> tuple[tuple[Column, ...], list[tuple[TableCell, ...]]]:
    """The columns of facts that any row has, and the cells of each row."""
    used = [name for name in _FACTS if any(getattr(row, name) for row in rows)]
    columns = tuple(Column("", _FACTS[name], is_text=True) for name in used)
    return columns, [tuple(TableCell(getattr(row, name)) for name in used) for row in rows]


def _with_ties(cells: Iterable[TableCell], tied: Iterable[bool]) -> list[TableCell]:
    return [
        replace(cell, rank=cell.rank or TIED) if is_tied else cell for cell, is_tied in zip(cells, tied, strict=True)
    ]


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
    lines = [
        TableLine(row.name, tuple(cells), notes=row.marks, kinds=row.kinds, short=short, record=row.key)
        for row, cells, short in zip(rows, measured, short_names(rows), strict=True)
    ]
    return Table(name, caption, "Method", tuple(Column(group, metric) for group, metric in pairs), tuple(lines))


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
        cells = tuple(map(TableCell, texts))
        lines.append(
            TableLine(row.name, cells, notes=row.marks, kinds=row.kinds, short=short[row.name], record=row.key)
        )
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
    kinds: Mapping[str, tuple[str, ...]] | None = None,
    words: Sequence[str] = (),
) -> Table:
    """A table of plain texts, one line per (name, texts, number of the source or 0); the columns ``ranked`` are
    figures, and the columns ``words`` are on the left. notes, kinds: name of a line -> notes on it, its kinds."""
    printed = {
        column: _best_as_printed([(source, texts[place]) for _, texts, source in lines])
        for place, column in enumerate(columns)
        if column in ranked
    }
    made = tuple(
        TableLine(
            first,
            tuple(
                TableCell(text, "", printed[column][position] if column in printed else "")
                for column, text in zip(columns, texts, strict=True)
            ),
            source,
            (notes or {}).get(first, ()),
            (kinds or {}).get(first, ()),
        )
        for position, (first, texts, source) in enumerate(lines)
    )
    heads = tuple(replace(_column(text, ()), is_text=text in words) for text in columns)
    return Table(name, caption, head, heads, made)


def _cell_of_published(row: PublishedRow, metric: str, rank: str) -> TableCell:
    figure = row.figures[metric]
    return TableCell(figure, "", rank, row.notes.get(metric, ()), float(Decimal(figure) / 100))


def _best_as_printed(figures: Sequence[tuple[int, str]]) -> list[str]:
    """The ranks of a column, from the source and the figure of each line ("" where it has none).

    Each source has its own best figure: two publications need not share a protocol.
    """
    by_source: dict[int, list[float]] = {}
    for source, figure in figures:
        if figure:
            by_source.setdefault(source, []).append(float(figure))
    best = {source: max(own) for source, own in by_source.items() if len(own) > 1}
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
