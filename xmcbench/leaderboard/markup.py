"""Formats of a table: Markdown and HTML for pages, booktabs LaTeX for papers, text for the terminal, CSV and JSON."""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from xmcbench.leaderboard.published import Source
from xmcbench.leaderboard.tables import BEST, MINOR, TIED, Column, Table, TableCell, TableLine
from xmcbench.output import document, escaping
from xmcbench.output.layout import format_table, in_markdown

#: Characters that do not stand in a label as they are: a percent sign begins a comment.
_NO_LABEL = re.compile(r"[^\w.:+-]+")
_FAMILIES = {"P": "Precision", "R": "Recall"}
#: The sign of a figure that is statistically tied with the best one of its column.
TIE = "\N{ALMOST EQUAL TO}"
TIED_MEANS = "statistically tied with it (paired test, Holm's correction over the column)"


class CellFormat(NamedTuple):
    """The cells of a format: the function that escapes a text, the marks around the best figure of a column, after a
    tied one and around a published one, and the pattern of a half-width."""

    escape: Callable[[str], str]
    best: tuple[str, str]
    tied: str
    published: tuple[str, str]
    spread: str

    def format(self, line: TableLine, cell: TableCell, notes: str = "") -> str:
        """Return a cell of a line. notes: their marks."""
        text = self.escape(cell.text)
        around = [self.best] if cell.rank == BEST else [("", self.tied)] if cell.rank == TIED else []
        around += [self.published] if line.source and text else []
        for before, after in around:
            text = f"{before}{text}{after}"
        return text + notes + (self.spread.format(cell.spread) if cell.spread else "")


_PLAIN = CellFormat(escaping.visible, ("", "*"), TIE, ("", ""), " ±{}")
_MARKDOWN = CellFormat(escaping.markdown, ("**", "**"), TIE, ("*", "*"), " <sub>±{}</sub>")
_LATEX = CellFormat(escaping.latex, (r"\textbf{", "}"), r"$^{\approx}$", (r"\textit{", "}"), r" {{\scriptsize$\pm${}}}")
_HTML = CellFormat(
    escaping.html,
    ("<strong>", "</strong>"),
    f"<span>{TIE}</span>",
    ("<em>", "</em>"),
    " <small>±{}</small>",
)


def plain(table: Table) -> str:
    """The table for a terminal, as wide as it is, and the meaning of its marks; no caption, no notes."""
    lines = [
        [escaping.visible(line.shown), *(_PLAIN.format(line, cell) for cell in line.cells)] for line in table.lines
    ]
    heads = [escaping.visible(text) for text in (table.head, *(column.text for column in table.columns))]
    made = format_table(lines, heads, ("left", *("left" if column.is_text else "right" for column in table.columns)))
    ranks = {cell.rank for line in table.lines for cell in line.cells}
    legend = [words for rank, words in ((BEST, "* best of its column"), (TIED, f"{TIE} {TIED_MEANS}")) if rank in ranks]
    return f"{made}\n\n{'; '.join(legend)}" if legend else made


def markdown(table: Table, sources: tuple[Source, ...]) -> str:
    """Caption, table and notes. A published row is italic and linked to its source."""
    marks = Marks(table, lambda mark: f"<sup>{mark}</sup>")

    def name(line: TableLine) -> str:
        shown = escaping.markdown(line.shown) + marks.of(line.notes)
        return f"*{shown}* [[{line.source}]]({sources[line.source - 1].homepage})" if line.source else shown

    lines = [
        [name(line), *(_MARKDOWN.format(line, cell, marks.of(cell.notes)) for cell in line.cells)]
        for line in table.lines
    ]
    columns = (Column("", table.head, is_text=True), *table.columns)
    heads = [escaping.markdown(column.text) + marks.of(column.notes) for column in columns]
    left = [place for place, column in enumerate(columns) if column.is_text]
    parts = [in_markdown(lines, heads, left), escaping.markdown_line(table.caption)]
    # Two spaces and a line break: each note on its own line.
    parts.append("  \n".join(f"{mark} {escaping.markdown(note)}" for mark, note in marks.notes))
    return "\n\n".join(part for part in parts if part)


def latex(table: Table, sources: tuple[Source, ...], label: str) -> str:
    r"""A ``table`` environment that a paper can \input; it needs booktabs, graphicx and the entries it cites."""
    marks = Marks(table, lambda mark: f"$^{{{mark}}}$")

    def name(line: TableLine) -> str:
        shown = escaping.latex_line(line.shown) + marks.of(line.notes)
        return f"\\textit{{{shown}}}~\\cite{{{sources[line.source - 1].key}}}" if line.source else shown

    body = [
        " & ".join([name(line), *(_LATEX.format(line, cell, marks.of(cell.notes)) for cell in line.cells)]) + r" \\"
        for line in table.lines
    ]
    first_published = next((place for place, line in enumerate(table.lines) if line.source), 0)
    if first_published:
        body.insert(first_published, r"\midrule")
    cited = sorted({line.source for line in table.lines if line.source})
    entries = [f"% {escaping.visible(line)}" for number in cited for line in sources[number - 1].bibtex.splitlines()]
    columns = [escaping.latex(column.label) + marks.of(column.notes) for column in table.columns]
    aligned = "".join("l" if column.is_text else "r" for column in table.columns)
    heads = " & ".join([escaping.latex(table.head), *columns]) + r" \\"
    notes = [f"\\par\\smallskip{{\\footnotesize {mark} {escaping.latex(note)}}}" for mark, note in marks.notes]
    return "\n".join(
        [
            *entries,
            r"\begin{table}[t]",
            r"\centering",
            f"\\caption{{{escaping.latex(table.caption)}}}",
            f"\\label{{tab:{_NO_LABEL.sub('-', label)}}}",
            # Scale a table that is wider than the page.
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            f"\\begin{{tabular}}{{l{aligned}}}",
            r"\toprule",
            *_groups(table),
            heads,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            *notes,
            r"\end{table}",
        ]
    )


def hypertext(
    made: Table, sources: Sequence[Source], anchor: str, places: Mapping[str, str] | None = None, records: str = ""
) -> str:
    """Return the table as HTML, scrolling by itself where it is wide, and its notes. anchor: begins their ids.

    A row carries its kinds for the script of the site. places: key of a record -> the address of the line about it, to
    which the names of other lines lead. records: the way to the folder of records, empty where there is none.
    """
    marks = Marks(made, lambda letters: _mark(letters, anchor))

    def name(line: TableLine) -> str:
        shown = escaping.html(line.shown)
        if line.source:
            shown = f'<em>{shown}</em> [<a href="{escaping.html(sources[line.source - 1].homepage)}">{line.source}</a>]'
        elif not line.is_record and (place := (places or {}).get(line.record)):
            shown = f'<a href="{escaping.html(place)}">{shown}</a>'
        return f'<th scope="row">{shown}{marks.of(line.notes)}</th>'

    def cell(line: TableLine, column: Column, shown: TableCell) -> str:
        if not column.is_text:
            return f"<td>{_HTML.format(line, shown, marks.of(shown.notes))}</td>"
        text = escaping.html(shown.text)
        if shown.file and records:
            text = f'<a href="{escaping.html(quote(f"{records}/{shown.file}"))}" download>{text}</a>'
        return f'<td class="{_class(column)}">{text}</td>'

    def row(line: TableLine) -> str:
        own = f' id="{anchor_of(line.record)}"' if line.is_record else ""
        own += f' data-kinds="{escaping.html(" ".join(line.kinds))}"' if line.kinds else ""
        cells = (cell(line, column, shown) for column, shown in zip(made.columns, line.cells, strict=True))
        return f"<tr{own}>{name(line)}{''.join(cells)}</tr>"

    def head(column: Column) -> str:
        kind = f' class="{_class(column)}"' if column.is_text else ""
        return f'<th scope="col"{kind}>{escaping.html(column.text)}{marks.of(column.notes)}</th>'

    heads = "".join(map(head, (Column("", made.head), *made.columns)))
    rows = "\n".join(map(row, made.lines))
    caption = f"{anchor}-caption" if made.caption else ""
    own = f' id="{escaping.html(caption)}"' if caption else ""
    whole = (
        f'<table id="{escaping.html(anchor)}"><caption{own}><span>{escaping.html(made.caption)}</span></caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table>"
    )
    notes = "".join(
        f'<li id="{escaping.html(anchor)}-{letter}"><sup>{letter}</sup> {escaping.html(note)}</li>'
        for letter, note in marks.lettered
    )
    return document.make_scrollable(whole, label=made.name, labelled_by=caption) + (
        f'\n<ul class="notes">{notes}</ul>' if notes else ""
    )


def _class(column: Column) -> str:
    """The class of a column of words; a narrow screen has no room for those of lesser interest."""
    return "fact minor" if column.label in MINOR else "fact"


def anchor_of(record: str) -> str:
    """Return the id of the line about a record."""
    return f"record-{record[:12]}"


def _mark(letters: str, anchor: str) -> str:
    links = (f'<a href="#{escaping.html(anchor)}-{letter}">{letter}</a>' for letter in letters.split(","))
    return f"<sup>{','.join(links)}</sup>"


def as_csv(table: Table) -> str:
    """Names, figures and half-widths in columns; ``source`` is 0 for a measured row; notes in words."""
    heads, wide = [], set[int]()
    for place, column in enumerate(table.columns):
        heads.append(column.text)
        if any(line.cells[place].spread for line in table.lines):
            wide.add(place)
            heads.append(f"{column.text} ±")
    made: list[list[object]] = [[table.head, "source", *heads, "notes"]]
    for line in table.lines:
        cells = [(cell.text, *([cell.spread] if place in wide else [])) for place, cell in enumerate(line.cells)]
        notes = [*line.notes]
        notes += [
            f"{column.text}: {note}"
            for column, cell in zip(table.columns, line.cells, strict=True)
            for note in (*cell.notes, *(column.notes if line.source else ()))
        ]
        made.append([line.name, line.source, *itertools.chain(*cells), " ".join(notes)])
    return escaping.csv_file(made)


def as_json(table: Table) -> dict[str, Any]:
    """The table as JSON values. A cell has its text, as shown; that of a metric has its value and the half-width of its
    interval too, as fractions."""
    return {
        "name": table.name,
        "caption": table.caption,
        "columns": [{"name": column.text, "notes": list(column.notes)} for column in table.columns],
        "rows": [
            {
                "name": line.name,
                "source": line.source,
                "notes": list(line.notes),
                "cells": {
                    column.text: {
                        "text": cell.text,
                        "value": cell.value,
                        "half_width": cell.half_width,
                        "rank": cell.rank,
                    }
                    | ({"notes": list(cell.notes)} if cell.notes else {})
                    for column, cell in zip(table.columns, line.cells, strict=True)
                },
            }
            for line in table.lines
        ],
    }


class Marks:
    """Letters for notes, in order of appearance."""

    def __init__(self, table: Table, dress: Callable[[str], str]) -> None:
        met = [note for column in table.columns for note in column.notes]
        for line in table.lines:
            met += [*line.notes, *(note for cell in line.cells for note in cell.notes)]
        self._letters = dict(zip(dict.fromkeys(met), _letters(), strict=False))
        self._dress = dress
        self.lettered = [(letter, note) for note, letter in self._letters.items()]
        self.notes = [(dress(letter), note) for letter, note in self.lettered]

    def of(self, notes: Iterable[str]) -> str:
        marks = ",".join(self._letters[note] for note in notes)
        return self._dress(marks) if marks else ""


def _letters() -> Iterator[str]:
    """a to z, then aa, ab, ..., like the columns of a spreadsheet."""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_lowercase, repeat=length))


def _groups(table: Table) -> list[str]:
    """The line of LaTeX above the heads that names groups of columns, and the rules below it."""
    if not any(column.group for column in table.columns):
        return []
    names, rules, place = [""], [], 2
    for group, members in itertools.groupby(table.columns, key=lambda column: column.group):
        width = len(list(members))
        names.append(f"\\multicolumn{{{width}}}{{c}}{{{escaping.latex(_FAMILIES.get(group, group))}}}")
        if group:
            rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    return [" & ".join(names) + r" \\", " ".join(rules)]
