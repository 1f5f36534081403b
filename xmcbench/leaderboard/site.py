"""Pages as a site: HTML files that open from disk, offline, and without JavaScript.

Tables, paragraphs and figures are those of the Markdown pages. A style sheet and a script lie beside the pages. The
script searches, sorts, filters and saves tables; it loads nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import metadata
from importlib.resources import files as resources
from typing import TYPE_CHECKING
from urllib.parse import quote

from xmcbench import __version__
from xmcbench.leaderboard import canvas, markup
from xmcbench.leaderboard.blocks import INDEX, Block, Differences, Figures, Heading, Page
from xmcbench.leaderboard.names import free_name, slug
from xmcbench.leaderboard.provenance import KINDS
from xmcbench.leaderboard.published import Source
from xmcbench.leaderboard.tables import Table
from xmcbench.metrics import protocol
from xmcbench.output import document
from xmcbench.output.escaping import html

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: A column by which all tables of a page can be sorted.
_METRIC = re.compile(r"[A-Za-z]+@\d+")


def site(pages: Sequence[Page], cited: Sequence[Source], records: str = "") -> dict[str, str]:
    """Return the files of a site: name -> content.

    records: the way from a page to the folder of records, empty where there is none.
    """
    style, script = ((resources(__package__) / name).read_text(encoding="utf-8") for name in ("site.css", "site.js"))
    made = {_file(page.name): _page(page, pages, cited, records) for page in pages}
    return made | {"site.css": document.STYLE + style + canvas.rules(), "site.js": script}


def _file(name: str) -> str:
    return "index.html" if name == INDEX else f"{name}.html"


def _page(page: Page, pages: Sequence[Page], cited: Sequence[Source], records: str) -> str:
    sections = _sections(page.blocks, cited, _places(page, pages), records)
    body = [document.heading(1, page.title), *_controls(page), *sections]
    parts = [
        '<a class="skip" href="#main">Skip to the content</a>',
        f"<header>{_navigation(page, pages)}</header>",
        f'<main id="main">\n{chr(10).join(body)}\n</main>',
        _footer(page.date),
    ]
    return document.page(page.title, parts, site="site")


def _places(page: Page, pages: Iterable[Page]) -> dict[str, str]:
    """Return the key of a record -> the address of the line about it as seen from a page, on that page if possible."""
    found = {}
    for other in (*pages, page):
        for table in (block for block in other.blocks if isinstance(block, Table)):
            for line in (line for line in table.lines if line.is_record):
                file = "" if other is page else quote(_file(other.name))
                found[line.record] = f"{file}#{markup.anchor_of(line.record)}"
    return found


def _footer(date: str) -> str:
    """Return the foot of a page: versions, the date of the latest result, and the links of the package."""
    told = f"xmcbench {__version__}, metric protocol {protocol.VERSION}" + (f", latest result {date}" if date else "")
    links = []
    for line in metadata("xmcbench").get_all("Project-URL") or ():
        label, _, url = line.partition(", ")
        links.append(f' · <a href="{html(url)}">{html(label)}</a>')
    return f"<footer>{html(told)}{''.join(links)}</footer>"


def _navigation(page: Page, pages: Sequence[Page]) -> str:
    """Return the links to all pages but those of settings, and those to the settings of the page's dataset."""
    dataset, found = page.parent or page.name, ""
    for label, parent in (("Pages", ""), ("Settings", dataset)):
        links = []
        for other in (other for other in pages if other.parent == parent):
            here = ' aria-current="page"' if other.name in (page.name, dataset) else ""
            title = other.title.partition(", ")[2] if parent else other.title.partition(": ")[0]
            links.append(f'<li><a href="{html(quote(_file(other.name)))}"{here}>{html(title)}</a></li>')
        found += f'<nav aria-label="{label}"><ul>{"".join(links)}</ul></nav>' if links else ""
    return found


def _controls(page: Page) -> list[str]:
    """Return the choices of a reader on a page of measured rows, without those that change nothing.

    The script shows them.
    """
    tables = [block for block in page.blocks if isinstance(block, Table)]
    of_rows = [line.kinds for table in tables for line in table.lines if line.kinds]
    if not of_rows:
        return []
    settings = {block.key: block.text for block in page.blocks if isinstance(block, Heading) and block.key}
    kinds = {kind: words for kind, words in KINDS.items() if 0 < sum(kind in own for own in of_rows) < len(of_rows)}
    heads = dict.fromkeys(column.text for table in tables for column in table.columns if len(table.lines) > 1)
    metrics = [name for name in heads if _METRIC.fullmatch(name)]
    telling = [name for name in metrics if any(_is_reordered(table, name) for table in tables)]
    chosen = []
    if len({line.name for table in tables for line in table.lines}) > 1:
        chosen.append('<label>Search<input type="search" name="search"></label>')
    if len(settings) > 1:
        chosen.append(_select("setting", "Setting", "all settings", settings.items()))
    if kinds:
        chosen.append(_select("kind", "Methods", "all methods", kinds.items()))
    if telling:
        chosen.append(_select("metric", "Sort by", "the order of the page", zip(telling, telling, strict=True)))
    if len(metrics) > 1:
        boxes = (f'<input type="checkbox" value="{html(name)}" checked>{html(name)}' for name in metrics)
        listed = "".join(f"<label>{box}</label>" for box in boxes)
        legend = "<summary>Columns</summary><fieldset><legend>Metrics shown</legend>"
        chosen.append(f"<details>{legend}{listed}</fieldset></details>")
    if not chosen:
        return []
    chosen.append('<button type="reset">Show all</button><p class="status" role="status"></p>')
    return [f'<form class="controls" aria-label="What is shown" hidden>{"".join(chosen)}</form>']


def _is_reordered(table: Table, column: str) -> bool:
    """Return whether sorting by a column as it is shown, the highest first, changes the order of a table."""
    place = next((place for place, head in enumerate(table.columns) if head.text == column), None)
    if place is None:
        return False
    values = [float(text) if (text := line.cells[place].text) else None for line in table.lines]
    known = [value for value in values if value is not None]
    return known != sorted(known, reverse=True) or values[: len(known)] != known


def _select(name: str, label: str, everything: str, options: Iterable[tuple[str, str]]) -> str:
    listed = "".join(f'<option value="{html(value)}">{html(text)}</option>' for value, text in options)
    return f'<label>{label}<select name="{name}"><option value="">{everything}</option>{listed}</select></label>'


def _sections(
    blocks: Sequence[Block], cited: Sequence[Source], places: Mapping[str, str], records: str
) -> Iterator[str]:
    """Yield the blocks; what follows a heading of level 2 is a section of its own.

    places: the lines about records, by their keys.
    """
    markdown, is_open = _markdown(), False
    taken = set[str]()

    def anchor(text: str) -> str:
        """Return an id that no other element of the page has."""
        return free_name(slug(text), taken)

    for block in blocks:
        if isinstance(block, Heading):
            own = anchor(block.text)
            if block.level == 2:
                if is_open:
                    yield "</section>"
                setting = f' data-setting="{html(block.key)}"' if block.key else ""
                yield f'<section aria-labelledby="{own}"{setting}>'
                is_open = True
            yield document.heading(block.level, block.text, own)
        elif isinstance(block, Table):
            yield markup.hypertext(block, cited, anchor(f"table {block.name}"), places, records)
        elif isinstance(block, Figures):
            yield _figures(block)
        elif isinstance(block, Differences):
            yield _differences(block)
        else:
            yield str(markdown.render(block)).strip()
    if is_open:
        yield "</section>"


def _differences(block: Differences) -> str:
    """The choice of two rows, and the differences of all pairs, from which the script shows one.

    Whole numbers are less to load: hundredths of a point, and ten thousandths of p, where 0 is below 0.0001.
    """
    names = [*enumerate(block.rows)]
    options = [(str(place), name) for place, name in names]
    pairs = [
        [
            [
                *(round(1e4 * value) for value in (delta, found.low, found.high)),
                round(1e4 * found.p) * (found.p >= 1e-4),
            ]
            for delta, found in block.tests(first, second)
        ]
        for first, _ in names
        for second, _ in names[first + 1 :]
    ]
    data = json.dumps({"metrics": block.metrics, "pairs": pairs}, separators=(",", ":"))
    chosen = _select("first", "Row", "choose a row", options) + _select("second", "minus", "choose a row", options)
    return (
        f'<details class="compare" hidden><summary>Compare two rows</summary><form>{chosen}</form>'
        f'<div role="status"></div><script type="application/json">{data}</script></details>'
    )


def _figures(block: Figures) -> str:
    parts = []
    for chart in block.charts:
        drawing = chart.draw().replace(canvas.style(), "").strip()
        parts.append(f"<figure>{drawing}<figcaption>{html(chart.title)}</figcaption></figure>")
    return "\n".join([*parts, *map(document.paragraph, block.notes)])


def _markdown() -> MarkdownIt:
    """A reader of paragraphs and remarks: what looks like HTML in them is shown as text."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.core.ruler.push("pages", lambda state: _relink(state.tokens))
    made.add_render_rule("table_open", lambda _, tokens, place, *__: _around_table(tokens[:place])[0])
    made.add_render_rule("table_close", lambda _, tokens, place, *__: _around_table(tokens[:place])[1])
    return made


def _around_table(before: Sequence[Token]) -> tuple[str, str]:
    """The beginning and the end of a table that scrolls by itself; its number tells it apart for a screen reader."""
    number = 1 + sum(token.type == "table_close" for token in before)
    begin, end = document.make_scrollable("\n", label=f"table {number} of the remarks").split("\n")
    return f"{begin}<table>\n", f"</table>{end}\n"


def _relink(tokens: Iterable[Token]) -> None:
    """Links to Markdown pages beside this one lead to their HTML files."""
    for token in tokens:
        _relink(token.children or [])
        if token.type == "link_open":
            target = str(token.attrGet("href") or "")
            name, _, rest = target.partition("#")
            if name.endswith(".md") and "/" not in name and ":" not in name:
                token.attrSet("href", _file(name.removesuffix(".md")) + (f"#{rest}" if rest else ""))
