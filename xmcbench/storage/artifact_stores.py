"""Stores of artifacts seen from outside: where they are, what is in them, and removing leftovers.

A runs folder has a store that all cells share, ``artifacts``, and one for each training, ``trained/<training>``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.output.quantities import format_count
from xmcbench.storage.artifact_files import COST, find_damage
from xmcbench.storage.locks import exclusive, sweep_claims
from xmcbench.storage.naming import check_name
from xmcbench.storage.temporary import becomes, sweep

#: The store that cells share below a runs folder, and the folder of those of trainings, by their keys.
SHARED, TRAINED = "artifacts", "trained"
#: In a store: the folder of files that artifacts share, that of unfinished work, and the lock of a temporary folder.
CONTENT, UNFINISHED, TEMPORARY_LOCK = "content", "unfinished", ".lock"

#: The names of artifacts and trainings, of unfinished work on them, and of files that artifacts share.
_HASH, _WORK, _SUM = re.compile("[0-9a-f]{32}"), re.compile(".+-[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
#: The paths of artifacts, which are those of claims on them too.
_CLAIMED = re.compile("[^/]+/[0-9a-f]{32}")


def locate(runs: Path, name: str) -> Path:
    """Return the folder of the artifact of this name below a runs folder."""
    return runs / name if name.startswith(f"{TRAINED}/") else runs / SHARED / name


def name_artifact(folder: Path, root: Path) -> str:
    """Return the name that ``locate`` finds an artifact by. root: of the shared store."""
    name = f"{folder.parent.name}/{folder.name}"
    return name if folder.parents[1] == root else f"{TRAINED}/{folder.parents[1].name}/{name}"


def list_stores(runs: Path) -> list[Path]:
    """Return the stores below a runs folder: the shared one, and those of trainings."""
    with suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(filter(_HASH.fullmatch, os.listdir(runs / TRAINED)))
        return [runs / SHARED, *(runs / TRAINED / name for name in names)]
    return [runs / SHARED]


def sweep_stores(runs: Path) -> None:
    """Remove what killed processes left half made below a runs folder, and their claims."""
    shared, *trainings = list_stores(runs)
    for root in (shared, *filter(_is_unsettled, trainings)):
        sweep_store(root)
    _remove_shared_rankings(shared)


def sweep_store(root: Path) -> None:
    """Remove what killed processes left half made in a store, and their claims."""
    sweep(root, depth=1)
    sweep_claims(root, "*/*", _CLAIMED, while_alive=True)
    for folder in filter(_is_work, (root / UNFINISHED).glob("*/")):
        with suppress(StorageError), exclusive(folder.with_suffix(".lock"), wait=False) as lock:
            for file in folder.glob(".*.tmp") if lock.held else ():
                file.unlink(missing_ok=True)  # a checkpoint that was being written


def _is_unsettled(training: Path) -> bool:
    """Return whether a store has more than artifacts and locks: most of thousands do not, and need no sweep."""
    with suppress(OSError), os.scandir(training) as kinds:
        return any(
            kind.name.startswith(".")
            or not all(name.endswith(".lock") or _HASH.fullmatch(name) for name in os.listdir(kind))
            for kind in kinds
        )
    return False


def _remove_shared_rankings(root: Path) -> None:
    """Remove rankings of earlier versions, which kept them where every cell can read them."""
    if files := [*root.glob("ranking/*/ranking.npz")]:
        removed = f"removed {format_count(len(files), 'ranking')} of an earlier version"
        print(f"xmcbench: {removed} from {root}, where every cell could read them", file=sys.stderr)
        for file in files:
            shutil.rmtree(file.parent, ignore_errors=True)
        shutil.rmtree(root / CONTENT, ignore_errors=True)  # it may have links to the same files


def list_folders(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """Yield every folder that a store has made: its kind, its path, and the lock that its users hold.

    A folder that is not an artifact is ``unfinished``. Folders of other programs are told by their names, and left out.
    """
    for folder in sorted(root.glob("*/")):
        if becomes(folder.name) == "":
            yield UNFINISHED, folder, folder / TEMPORARY_LOCK
    for folder in sorted(root.glob("*/*/")):
        kind, target = folder.parent.name, becomes(folder.name)
        if kind.startswith("."):
            continue
        if _is_work(folder) or (_HASH.fullmatch(folder.name) and (folder / COST).exists()):
            yield kind, folder, folder.with_suffix(".lock")
        elif target and _HASH.fullmatch(target):
            yield UNFINISHED, folder, folder.with_name(f"{target}.lock")


def forget_content(root: Path) -> None:
    """Remove the shared files of a store that no artifact links to anymore. Raises StorageError."""
    for file in (root / CONTENT).glob("*"):
        try:
            if _SUM.fullmatch(file.name) and file.stat().st_nlink == 1:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError.from_os_error(error, file) from error


def examine(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every artifact in a store with its damage: empty where all its bytes are as written."""
    for note in sorted(root.glob(f"*/*/{COST}")):
        folder = note.parent
        if not folder.name.startswith(".") and folder.parent.name != UNFINISHED:
            yield folder, find_damage(folder, full=True)


def check_kind(kind: str) -> None:
    """Raise ValueError for a kind that cannot name a folder, or that names one which a store has for other things."""
    check_name("the kind of an artifact", kind)
    if kind.startswith(".") or kind in (UNFINISHED, CONTENT, TRAINED):
        raise ValueError(f"the kind of an artifact is {kind!r}, a name that the store uses itself")


def _is_work(folder: Path) -> bool:
    return folder.parent.name == UNFINISHED and _WORK.fullmatch(folder.name) is not None
