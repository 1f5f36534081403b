"""Whether the files of a folder are those that were written: sums that are noted when it is made.

The quick check, made whenever a folder is opened, compares sizes and a digest of blocks: of all bytes of a file up to
64 MiB, and of 64 blocks of 1 MiB, the first and the last among them, of a larger one. The full check reads everything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.reading import open_regular

_BLOCK, _BLOCKS = 1 << 20, 64

#: Files whose blocks this process has compared, by path: size, time of change and inode of each.
_seen: dict[Path, tuple[int, int, int]] = {}


class Sum(Struct, frozen=True, forbid_unknown_fields=True):
    """What is noted of a file: its size in bytes, the SHA-256 of its blocks, and that of all its bytes."""

    size: int
    blocks: str
    sha256: str


def sums_of(folder: Path) -> dict[str, Sum]:
    """The sums of every file below a folder, by relative path."""
    return {name: _sum(path) for name, path in _files(folder).items()}


def damage(folder: Path, sums: Mapping[str, Sum], *, full: bool = False) -> str:
    """What is wrong with the files below a folder, in a few words; empty where they are those that were summed up.

    Files that were added later do not matter: nobody asks for them.

    Raises OSError where a file cannot be read.
    """
    found = _files(folder)
    for name, expected in sums.items():
        if name not in found:
            return f"{name} is missing"
        path = found[name]
        state = path.stat()
        if state.st_size != expected.size:
            return f"{name} has {state.st_size} bytes, not {expected.size}"
        if full:
            if sha256_file(path) != expected.sha256:
                return f"{name} has changed"
            continue
        known = (state.st_size, state.st_mtime_ns, state.st_ino)
        if _seen.get(path) != known:
            if _blocks(path) != expected.blocks:
                return f"{name} has changed"
            _seen[path] = known
    return ""


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if not path.is_dir()}


def _sum(path: Path) -> Sum:
    whole = sha256_file(path)
    size = path.stat().st_size
    return Sum(size, whole if size <= _BLOCK * _BLOCKS else _blocks(path), whole)


def _blocks(path: Path) -> str:
    """SHA-256 (hex) of a file up to 64 MiB; of 64 blocks of a larger one, evenly spread from its first to its last."""
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size <= _BLOCK * _BLOCKS:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        digest = hashlib.sha256()
        for number in range(_BLOCKS):
            stream.seek((size - _BLOCK) * number // (_BLOCKS - 1))
            digest.update(stream.read(_BLOCK))
        return digest.hexdigest()
