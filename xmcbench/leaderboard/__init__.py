"""Leaderboards: tables, pages and figures as a pure function of records, published figures and remarks."""

from xmcbench.leaderboard.blocks import Page
from xmcbench.leaderboard.files import differences, drawing, files, write
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.published import Source, sources
from xmcbench.leaderboard.remarks import read_remarks
from xmcbench.leaderboard.rows import Row, rows

__all__ = [
    "Page",
    "Row",
    "Source",
    "differences",
    "drawing",
    "files",
    "pages",
    "read_remarks",
    "rows",
    "sources",
    "write",
]
