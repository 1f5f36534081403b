"""Pointers of Git LFS: the few lines that a clone has in place of a large file until `git lfs pull` fetches it."""

from __future__ import annotations

from pathlib import Path

from xmcbench.errors import Unavailable, XmcbenchError
from xmcbench.storage.reading import Unreadable, open_regular

#: The beginning of a pointer, and the line that it has among the next ones.
_VERSION, _SUM = b"version https://git-lfs.github.com/spec/", b"\noid sha256:"

#: Bytes of the longest pointer.
_LONGEST = 1024


def is_lfs_pointer(path: Path) -> bool:
    """Whether a file is a pointer of Git LFS. One that cannot be read is none: its reader says why."""
    try:
        with open_regular(path) as stream:
            start = stream.read(_LONGEST)
    except (OSError, Unreadable):
        return False
    return start.startswith(_VERSION) and _SUM in start


def refuse_lfs_pointer(path: Path, kind: type[XmcbenchError] = Unavailable) -> None:
    """Raise an error of this kind for a file that is a pointer of Git LFS."""
    if is_lfs_pointer(path):
        raise kind(f"{path} is a Git LFS pointer, not the file itself", "fetch the file: git lfs pull")
