"""Files and folders that a cell must not read: they hold pairs or results, or reveal them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.catalog import roots
from xmcbench.storage.artifact_stores import TRAINED
from xmcbench.storage.cache import cache_root
from xmcbench.storage.shipped import list_copies

if TYPE_CHECKING:
    from xmcbench.data import Dataset

#: In the name of a file with instances or their pairs: ``tst.json``, ``tst_X_Y.txt``, ``Y.tst.npz``, ``test.csv``.
_PART = re.compile("(?i:(?<![a-z])(trn|tst|train|test)(?![a-z]))")
#: All that a runs folder holds but the artifacts that cells share.
_RESULTS = ("records", "ranks", "truth", "subsets", "predictions", "logs", TRAINED)
#: The folders of a checkout with packed copies of it.
_PACKED = ("build", "dist", ".tox")
#: The folders of version control, which have every file that was ever committed.
_HISTORIES = (".git", ".hg", ".jj", ".svn")


def of_machine() -> list[Path]:
    """Return those of this machine: datasets, and the results that come with xmcbench, packed or not."""
    shipped = [
        path
        for root in list_copies()
        for path in (root / "datasets", *of_runs(root / "leaderboards"), *(root / name for name in _PACKED))
        if path.exists()  # nothing new could be read in the folders above one
    ]
    return [cache_root(), *roots(), *shipped]


def of_dataset(dataset: Dataset) -> list[Path]:
    """Return the files of a dataset, and those beside them that are named as training or test data."""
    folders = dict.fromkeys(path.parent for path in dataset.sources if not path.is_dir())
    beside = (path for folder in folders for path in sorted(folder.glob("*")) if path.is_file())
    return [*dataset.sources, *(path for path in beside if _PART.search(path.name) and path.suffix != ".py")]


def of_runs(root: Path) -> list[Path]:
    """Return those of a runs folder."""
    return [root / name for name in _RESULTS]


def with_histories(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return paths without links, and the histories of all repositories that hold them."""
    real = [os.path.realpath(path) for path in paths]
    above = dict.fromkeys(folder for path in real for folder in Path(path).parents)
    histories = _histories([folder / name for folder in above for name in _HISTORIES])
    return (*dict.fromkeys([*real, *map(str, histories)]),)


def _histories(places: Iterable[Path]) -> list[Path]:
    """Return the places that exist, and the folders that files of Git in them name."""
    found: dict[Path, None] = {}
    waiting = [*places]
    while waiting:
        path = Path(os.path.realpath(waiting.pop()))
        if path in found or not path.exists():
            continue
        found[path] = None
        # A worktree or a submodule has a file, the folder of a worktree names the repository, and the objects of a
        # repository may be in others.
        waiting += [path.parent / each for line in _lines(path) if (each := line.removeprefix("gitdir: ")) != line]
        waiting += [path / line for line in _lines(path / "commondir")]
        for objects in (path, path / "objects"):
            waiting += [objects / line for line in _lines(objects / "info" / "alternates")]
    return [*found]


def _lines(file: Path) -> list[str]:
    """Return the lines of a file; none where there is no such file."""
    with suppress(OSError):
        return file.read_text(errors="surrogateescape").splitlines() if file.is_file() else []
    return []
