"""Files that a method must not read, put out of its reach by the kernel (Landlock, Linux 5.13 and later).

Landlock has no deny rules: a process lists what it may still read, and cannot change the list later. So everything is
listed but the hidden files and the folders above them, whose other entries are listed one by one. A file that is made
directly in such a folder later on cannot be read by the process either; a cell therefore has a folder of its own for
temporary files.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from xmcbench.storage.cache import hub_home

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_READ_FILE = 1 << 2
#: Linking a file into another folder (Linux 5.19): denied everywhere unless a ruleset names it, and artifacts share
#: files by links. A link never gives a right that the file had not: what is hidden stays so.
_REFER = 1 << 13
_PATH_BENEATH = 1
#: Folders above hidden files with more entries than this are not listed: the files stay in reach.
_MOST_RULES = 100_000


def needed_by_all() -> list[Path]:
    """Return what every process of a method has to read: its environment, its temporary files, the models of the hub.

    An environment may be below a hidden folder, as that of tox in a checkout.
    """
    found = [Path(sys.prefix), Path(sys.base_prefix), hub_home()]
    # What is made beside hidden files later on could not be read, and the hub's folder is beside our cache by default.
    with suppress(OSError):  # whoever downloads will say what is wrong with it
        hub_home().mkdir(parents=True, exist_ok=True)
    return [*found, Path(os.environ["TMPDIR"])] if "TMPDIR" in os.environ else found


def hide(hidden: Iterable[Path], needed: Iterable[Path] = ()) -> bool:
    """Take the hidden files and folders out of reach of this thread and of all that it starts, for good.

    needed: files and folders that stay readable although they are below a hidden one; what is hidden below them stays
    hidden. Folders can still be listed, and files that are open stay open. Returns whether the kernel did it; where it
    cannot, nothing changes.
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
        for path in (Path(os.path.realpath(each)) for each in needed if each.exists()):
            if not _allow(libc, ruleset, rights, _visible(path, paths, above) if path in above else [path]):
                return False
        no_new_privileges = libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        return bool(no_new_privileges and libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _ruleset(libc: ctypes.CDLL) -> tuple[int, int]:
    """The rights that a new ruleset is about, and the ruleset; a negative one where the kernel has no Landlock."""
    for rights in (_READ_FILE | _REFER, _READ_FILE):
        attributes = struct.pack("=Q", rights)
        ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
        if ruleset >= 0:
            break
    return rights, ruleset


def _visible(folder: Path, hidden: set[Path], above: set[Path]) -> Iterable[Path]:
    """What is to be named so that everything below a folder can be read but what is hidden."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # what cannot be listed cannot be named
    for entry in entries:
        path = Path(entry.path)
        if path in hidden or entry.is_symlink():
            continue  # a link is read through its target, which has a name of its own
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
            continue  # it went away, or may not be read anyway
        try:
            granted = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else _READ_FILE
            rule = struct.pack("=Qi", granted, descriptor)
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)
    return True
