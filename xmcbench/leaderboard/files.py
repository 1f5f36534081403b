"""Pages as files: Markdown with figures, or only the tables as LaTeX, CSV or JSON. Identical on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from xmcbench import escaping
from xmcbench.errors import StorageError
from xmcbench.escaping import markdown
from xmcbench.leaderboard import curves, figure, losses, markup
from xmcbench.leaderboard.blocks import Block, Figures, Heading, Page
from xmcbench.leaderboard.chart import MARK
from xmcbench.leaderboard.curves import DAGGER, Curve
from xmcbench.leaderboard.losses import LossCurve
from xmcbench.leaderboard.published import Source, sources
from xmcbench.leaderboard.tables import Table
from xmcbench.storage.atomic import write_text

Format = Literal["markdown", "latex", "csv", "json"]

#: The subfolder of a board's figures.
FIGURES = "figures"

#: Suffix -> pattern of the generated files of a layout. The CSV beside a figure has the figure's name.
_PLACES = {".md": ("*.md", f"{FIGURES}/*.svg"), ".json": ("*.json",), ".tex": ("*/*.tex",)}


def files(
    pages: Sequence[Page], layout: Format = "markdown", published: Sequence[Source] | None = None
) -> dict[str, str]:
    """Path below the board -> content.

    markdown: one file per page, an .svg and a .csv per figure. latex and csv: one file per table. json: one file per
    page.
    """
    cited = tuple(sources() if published is None else published)
    made: dict[str, str] = {}
    for page in pages:
        tables = [block for block in page.blocks if isinstance(block, Table)]
        if layout == "markdown":
            made[f"{page.name}.md"] = _markdown(page, cited)
            for block in page.blocks:
                for each in block.curves if isinstance(block, Figures) else ():
                    made |= drawing(each, f"{FIGURES}/")
        elif layout == "json":
            made[f"{page.name.lower()}.json"] = _json(page, tables, cited)
        for table in tables:
            stem = f"{page.name.lower()}/{table.name}"
            if layout == "latex":
                label = f"{page.name.lower()}-{table.name}"
                made[f"{stem}.tex"] = f"% {MARK}; needs booktabs and graphicx\n{markup.latex(table, cited, label)}\n"
            elif layout == "csv":
                made[f"{stem}.csv"] = markup.as_csv(table)
    return made


def drawing(made: Curve | LossCurve, folder: str = "") -> dict[str, str]:
    """The two files of a figure: its drawing and its points."""
    points = curves.as_csv(made) if isinstance(made, Curve) else losses.as_csv(made)
    return {f"{folder}{made.stem}.svg": figure.draw(made), f"{folder}{made.stem}.csv": points}


def write(folder: Path, made: Mapping[str, str]) -> None:
    """Write the files below ``folder``, and remove files that an earlier call generated and that are now obsolete.

    Writing only figures removes nothing. Raises StorageError.
    """
    for path in _left_over(folder, made):
        try:
            path.unlink()
        except OSError as error:
            raise StorageError.from_os_error(error, path) from error
    for name, content in made.items():
        write_text(folder / name, content)


def differences(folder: Path, made: Mapping[str, str]) -> list[str]:
    """The files in ``folder`` that are out of date: one line each, none if all is well."""
    found = [f"{path} is generated but obsolete" for path in _left_over(folder, made)]
    for name, content in made.items():
        path = folder / name
        if not path.exists():
            found.append(f"{path} is missing")
        elif path.read_bytes() != content.encode():
            found.append(f"{path} is out of date")
    return found


def _left_over(folder: Path, made: Mapping[str, str]) -> list[Path]:
    """Obsolete files of the layout: only those that carry the mark of generated files."""
    suffixes = {Path(name).suffix for name in made}
    found = []
    for place in (place for suffix, places in _PLACES.items() if suffix in suffixes for place in places):
        for path in sorted(folder.glob(place)):
            if path.relative_to(folder).as_posix() in made or MARK not in path.read_bytes()[:600].decode(
                errors="replace"
            ):
                continue
            points = path.with_suffix(".csv")
            found += [path, points] if path.suffix == ".svg" and points.exists() else [path]
    return found


def _markdown(page: Page, cited: tuple[Source, ...]) -> str:
    parts = [f"<!-- {MARK} from records/, published/ and remarks/; do not edit -->", f"# {markdown(page.title)}"]
    parts += [_block(block, cited) for block in page.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block, cited: tuple[Source, ...]) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {markdown(block.text)}"
    if isinstance(block, Table):
        return markup.markdown(block, cited)
    if isinstance(block, Figures):
        return _figures(block)
    return block


def _figures(block: Figures) -> str:
    """The drawings, links to their points, and what they lack."""
    drawn = [f"![{markdown(each.title)}]({FIGURES}/{quote(each.stem)}.svg)" for each in block.curves]
    points = [f"[{markdown(each.short)}]({FIGURES}/{quote(each.stem)}.csv)" for each in block.curves]
    missing = dict.fromkeys(each for made in block.curves for each in made.missing)
    marked: dict[str, dict[str, None]] = {}
    for line in (line for made in block.curves if isinstance(made, Curve) for line in made.lines):
        for mark in line.marks:
            marked.setdefault(mark, {})[line.name] = None
    parts = ["\n".join(drawn), f"Points: {', '.join(points)}."]
    parts += [f"{DAGGER} {markdown(mark)}: {', '.join(map(markdown, names))}." for mark, names in marked.items()]
    return "\n\n".join([*parts, *([f"Missing: {'; '.join(map(markdown, missing))}."] if missing else [])])


def _json(page: Page, tables: Iterable[Table], cited: tuple[Source, ...]) -> str:
    document = {
        "generated": MARK,
        "title": page.title,
        "sources": {str(number): source.citation for number, source in enumerate(cited, 1)},
        "tables": [markup.as_json(table) for table in tables],
    }
    return escaping.json(document) + "\n"
