"""Blocks of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from xmcbench.leaderboard.canvas import Chart
from xmcbench.leaderboard.published import Source
from xmcbench.leaderboard.rows import Row
from xmcbench.leaderboard.tables import Table
from xmcbench.metrics.flips import Verdict
from xmcbench.output.escaping import markdown, markdown_line

#: Name of the first page of a board.
INDEX = "README"
#: Charts of a page at most.
CHARTS = 4


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 is a section. key: the slug of the setting that a section is about, if it is about one."""

    level: int
    text: str
    key: str = ""


@dataclass(frozen=True)
class Figures:
    """Charts side by side."""

    charts: tuple[Chart, ...]

    @property
    def notes(self) -> list[str]:
        """The notes of the charts, each once."""
        return [*dict.fromkeys(note for chart in self.charts for note in chart.notes)]


@dataclass(frozen=True)
class Differences:
    """The differences of all pairs of rows of the table before it, for a reader who chooses two; on a site only.

    rows: their names. tests: of the rows at two places, the difference per metric and the verdict on it, as fractions.
    """

    rows: tuple[str, ...]
    metrics: tuple[str, ...]
    tests: Callable[[int, int], Sequence[tuple[float, Verdict]]]


#: A block is a heading, a paragraph in Markdown, a table, a row of figures or the differences of rows. Only a paragraph
#: has markup of its own: a name in it has to be escaped.
Block = Heading | str | Table | Figures | Differences


@dataclass(frozen=True)
class Page:
    """A page: ``name`` names its file. parent: the name of the page of its dataset, where it is about one setting.
    date: of the latest result of the board.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    parent: str = ""
    date: str = ""

    @property
    def folder(self) -> str:
        """The folder of the files of its tables."""
        return (self.parent or self.name).lower()


def with_few_charts(page: Page) -> Page:
    """Return the page with its first charts only."""
    room = CHARTS
    blocks: list[Block] = []
    for block in page.blocks:
        if not isinstance(block, Figures):
            blocks.append(block)
        elif kept := block.charts[:room]:
            blocks.append(Figures(kept))
            room -= len(kept)
    return replace(page, blocks=tuple(blocks))


def citations(printed: Sequence[Source], cited: Callable[[Source], object]) -> list[Block]:
    """Return the section of sources: those for which ``cited`` is true, each with its number."""
    lines = []
    for number, source in enumerate(printed, 1):
        if cited(source):
            protocol = f"{source.protocol[:1].upper()}{source.protocol[1:]}"
            lines.append(f"[{number}] {markdown(f'{source.citation}. {source.homepage}. {protocol}.')}")
    return [Heading(2, "Sources"), "  \n".join(lines)] if lines else []


def without_a_result(rows: Iterable[Row]) -> list[Block]:
    """List the rows that failed or were skipped, with the reason, one line per seed."""
    problems = [markdown_line(f"{row.name}, {problem}") for row in rows for problem in row.problems]
    return ["Without a result:  \n" + "  \n".join(problems)] if problems else []
