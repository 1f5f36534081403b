"""Which files of a machine hold pairs, or reveal them: what a cell must not read."""

from __future__ import annotations

from pathlib import Path

from xmcbench.data.catalog import roots
from xmcbench.storage.cache import cache_root
from xmcbench.storage.shipped import shipped

_RESULTS = ("records", "ranks", "truth", "subsets")


def of_machine() -> list[Path]:
    """Those that every cell on this machine must not read: datasets, and the results that come with xmcbench."""
    published = shipped("leaderboards/published")
    return [cache_root(), *roots(), *(of_runs(published.parent) if published else [])]


def of_runs(root: Path) -> list[Path]:
    """Those of a runs folder."""
    return [root / name for name in _RESULTS]
