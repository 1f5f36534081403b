"""A table as HTML: the same object as in Markdown, with a caption, scoped heads and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from xmcbench.leaderboard.markup import TIE, TIED_MEANS, Emphasis, Marks
from xmcbench.leaderboard.published import Source
from xmcbench.leaderboard.tables import MINOR, Column, Table, TableCell, TableLine
from xmcbench.output import document
from xmcbench.output.escaping import html

_EMPHASIS = Emphasis(("<strong>", "</strong>"), f'<span title="{TIED_MEANS}">{TIE}</span>', ("<em>", "</em>"))


def table(
    made: Table, sources: Sequence[Source], anchor: str, places: Mapping[str, str] | None = None, records: str = ""
) -> str:
    """Return the table, scrolling by itself where it is wide, and its notes. anchor: begins the ids of the notes.

    A row carries its kinds for the script of the site. places: key of a record -> the address of the line about it, to
    which the names of other lines lead. records: the way to the folder of records, empty where there is none.
    """
    marks = Marks(made, lambda letters: _mark(letters, anchor))

    def name(line: TableLine) -> str:
        shown = html(line.shown)
        if line.source:
            shown = f'<em>{shown}</em> [<a href="{html(sources[line.source - 1].homepage)}">{line.source}</a>]'
        elif not line.is_record and (place := (places or {}).get(line.record)):
            shown = f'<a href="{html(place)}">{shown}</a>'
        return f'<th scope="row">{shown}{marks.of(line.notes)}</th>'

    def cell(line: TableLine, shown: TableCell) -> str:
        text = _EMPHASIS.of(html(shown.text), shown, line)
        spread = f" <small>±{html(shown.spread)}</small>" if shown.spread else ""
        return f"<td>{text}{marks.of(shown.notes)}{spread}</td>"

    def fact(column: Column, shown: TableCell) -> str:
        text = html(shown.text)
        if shown.file and records:
            text = f'<a href="{html(quote(f"{records}/{shown.file}"))}" download>{text}</a>'
        return f'<td class="{_class(column)}">{text}</td>'

    def cells(line: TableLine) -> Iterator[str]:
        for column, shown in zip(made.columns, line.cells, strict=True):
            yield fact(column, shown) if column.is_text else cell(line, shown)

    def head(column: Column) -> str:
        kind = f' class="{_class(column)}"' if column.is_text else ""
        return f'<th scope="col"{kind}>{html(column.text)}{marks.of(column.notes)}</th>'

    heads = "".join(map(head, (Column("", made.head), *made.columns)))
    rows = "\n".join(f"<tr{_attributes(line)}>{name(line)}{''.join(cells(line))}</tr>" for line in made.lines)
    whole = (
        f'<table id="{html(anchor)}"><caption><span>{html(made.caption)}</span></caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table>"
    )
    notes = "".join(
        f'<li id="{html(anchor)}-{letter}"><sup>{letter}</sup> {html(note)}</li>' for letter, note in marks.lettered
    )
    label = f"{made.caption or made.name}"
    return document.make_scrollable(label, whole) + (f'\n<ul class="notes">{notes}</ul>' if notes else "")


def _class(column: Column) -> str:
    """The class of a column of words; a narrow screen has no room for those of lesser interest."""
    return "fact minor" if column.label in MINOR else "fact"


def anchor_of(record: str) -> str:
    """Return the id of the line about a record."""
    return f"record-{record[:12]}"


def _attributes(line: TableLine) -> str:
    own = f' id="{anchor_of(line.record)}"' if line.is_record else ""
    return own + (f' data-kinds="{html("|".join(line.kinds))}"' if line.kinds else "")


def _mark(letters: str, anchor: str) -> str:
    links = (f'<a href="#{html(anchor)}-{letter}">{letter}</a>' for letter in letters.split(","))
    return f"<sup>{','.join(links)}</sup>"
