"""Paths that a cell must not read, hidden by the kernel (Landlock, Linux 5.13 and later).

They hold pairs or results, or reveal them. Landlock has no deny rules: a process lists the paths that it may still
read, and cannot change the list later. So every path is listed except the hidden ones and the folders above them, whose
other entries are listed one by one. The process cannot read a file that is made directly in such a folder later on; a
cell therefore has a folder of its own for temporary files.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.storage.artifact_store import TRAINED
from xmcbench.storage.locations import cache_root, hub_home, list_copies

if TYPE_CHECKING:
    from xmcbench.data import Dataset

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_READ_FILE = 1 << 2
#: Linking a file into another folder (Linux 5.19): denied everywhere unless a ruleset names it, and artifacts share
#: files by links. A link never adds a right: hidden files stay hidden.
_REFER = 1 << 13
_PATH_BENEATH = 1
#: Folders above hidden files with more entries than this are not listed: the files stay in reach.
_MOST_RULES = 100_000
#: In the name of a file with instances or their pairs: ``tst.json``, ``tst_X_Y.txt``, ``Y.tst.npz``, ``test.csv``.
_PART = re.compile("(?i:(?<![a-z])(trn|tst|train|test)(?![a-z]))")
#: The entries of a runs folder except the artifacts that cells share.
_RESULTS = ("records", "ranks", "truth", "subsets", "predictions", "logs", TRAINED)
#: The folders of a checkout with packed copies of it.
_PACKED = ("build", "dist", ".tox")
#: The folders of version control, which contain every file that was ever committed.
_HISTORIES = (".git", ".hg", ".jj", ".svn")


def paths_of_machine() -> list[Path]:
    """Return the paths of this machine: datasets, and the results that come with xmcbench, packed or not."""
    from xmcbench.data.catalog import roots

    shipped = [
        path
        for root in list_copies()
        for path in (root / "datasets", *paths_of_runs(root / "leaderboards"), *(root / name for name in _PACKED))
        if path.exists()  # nothing new could be read in the folders above one
    ]
    return [cache_root(), *roots(), *shipped]


def paths_of_dataset(dataset: Dataset) -> list[Path]:
    """Return the files of a dataset, and files beside them that are named like training or test data."""
    folders = dict.fromkeys(path.parent for path in dataset.sources if not path.is_dir())
    beside = (path for folder in folders for path in sorted(folder.glob("*")) if path.is_file())
    return [*dataset.sources, *(path for path in beside if _PART.search(path.name) and path.suffix != ".py")]


def paths_of_runs(root: Path) -> list[Path]:
    """Return the paths of a runs folder."""
    return [root / name for name in _RESULTS]


def add_histories(paths: Iterable[Path]) -> tuple[str, ...]:
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
        waiting += [path.parent / name for line in _lines(path) if (name := line.removeprefix("gitdir: ")) != line]
        waiting += [path / line for line in _lines(path / "commondir")]
        for objects in (path, path / "objects"):
            waiting += [objects / line for line in _lines(objects / "info" / "alternates")]
    return [*found]


def _lines(file: Path) -> list[str]:
    """Return the lines of a file; none if there is no such file."""
    with suppress(OSError):
        return file.read_text(errors="surrogateescape").splitlines() if file.is_file() else []
    return []


def find_needed_paths() -> list[Path]:
    """Return paths that every process of a method has to read: its environment, its temporary files, models of the hub.

    An environment may be below a hidden folder, as that of tox in a checkout.
    """
    found = [Path(sys.prefix), Path(sys.base_prefix), hub_home()]
    # A folder made beside hidden files later on could not be read, and the hub's is beside our cache by default.
    with suppress(OSError):  # the download will report it
        hub_home().mkdir(parents=True, exist_ok=True)
    return [*found, Path(os.environ["TMPDIR"])] if "TMPDIR" in os.environ else found


def hide(hidden: Iterable[Path], needed: Iterable[Path] = ()) -> bool:
    """Hide files and folders from this thread and from everything that it starts, for good. Return whether that worked.

    needed: paths that stay readable below a hidden one; hidden paths below them stay hidden. Folders can still be
    listed, and open files stay open.
    """
    if sys.platform != "linux":  # the system calls have other meanings elsewhere
        return False
    paths = {Path(os.path.realpath(path)) for path in hidden}
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        rights, ruleset = _ruleset(libc)
    except AttributeError:
        return False  # not a libc with `syscall`
    if ruleset < 0:
        return False
    try:
        above = {parent for path in paths for parent in path.parents}
        if not _allow(libc, ruleset, rights, _visible(Path("/"), paths, above)):
            return False
        for path in (Path(os.path.realpath(kept)) for kept in needed if kept.exists()):
            if not _allow(libc, ruleset, rights, _visible(path, paths, above) if path in above else [path]):
                return False
        no_new_privileges = libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        return bool(no_new_privileges and libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _ruleset(libc: ctypes.CDLL) -> tuple[int, int]:
    """Return the rights that a new ruleset covers, and the ruleset; a negative one if the kernel has no Landlock."""
    for rights in (_READ_FILE | _REFER, _READ_FILE):
        attributes = struct.pack("=Q", rights)
        ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
        if ruleset >= 0:
            break
    return rights, ruleset


def _visible(folder: Path, hidden: set[Path], above: set[Path]) -> Iterable[Path]:
    """Return the paths to be listed so that everything below a folder except the hidden paths can be read."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # its entries are unknown
    for entry in entries:
        path = Path(entry.path)
        if path in hidden or entry.is_symlink():
            continue  # a link is read through its target, which is listed by itself
        if path in above:
            yield from _visible(path, hidden, above)
        else:
            yield path


def _allow(libc: ctypes.CDLL, ruleset: int, rights: int, paths: Iterable[Path]) -> bool:
    for number, path in enumerate(paths):
        if number >= _MOST_RULES:
            return False
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it was removed, or may not be read anyway
        try:
            granted = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else _READ_FILE
            rule = struct.pack("=Qi", granted, descriptor)
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)
    return True
