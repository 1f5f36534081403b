"""Which files of a machine hold pairs, or reveal them: what a cell must not read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.catalog import roots
from xmcbench.storage.cache import cache_root
from xmcbench.storage.shipped import shipped

if TYPE_CHECKING:
    from xmcbench.data import Dataset

#: In the name of a file with instances or their pairs: ``tst.json``, ``tst_X_Y.txt``, ``Y.tst.npz``, ``test.csv``.
_PART = re.compile("(?i:(?<![a-z])(trn|tst|train|test)(?![a-z]))")

_RESULTS = ("records", "ranks", "truth", "subsets")


def of_machine() -> list[Path]:
    """Those that every cell on this machine must not read: datasets, and the results that come with xmcbench."""
    published = shipped("leaderboards/published")
    return [cache_root(), *roots(), *(of_runs(published.parent) if published else [])]


def of_dataset(dataset: Dataset) -> list[Path]:
    """Those that a dataset was read from, and files beside them that are named as training or test data."""
    folders = dict.fromkeys(path.parent for path in dataset.sources if not path.is_dir())
    beside = (path for folder in folders for path in sorted(folder.glob("*")) if path.is_file())
    return [*dataset.sources, *(path for path in beside if _PART.search(path.name) and path.suffix != ".py")]


def of_runs(root: Path) -> list[Path]:
    """Those of a runs folder."""
    return [root / name for name in _RESULTS]
