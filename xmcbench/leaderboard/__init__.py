"""Tables and pages: a pure function of records."""

from xmcbench.leaderboard.pages import differences, pages, write
from xmcbench.leaderboard.rows import Row, rows

__all__ = ["Row", "differences", "pages", "rows", "write"]
