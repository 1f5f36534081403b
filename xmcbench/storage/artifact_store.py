"""Artifacts on disk: their files, checksums and costs, by which damage is found, and the stores that they are in.

The quick check, made whenever an artifact is opened, compares sizes, and the bytes of files up to 64 MiB. The full
check reads everything. A runs folder has a store that all cells share, ``artifacts``, and one per training,
``trained/<training>``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from xmcbench.errors import StorageError
from xmcbench.output.escaping import visible
from xmcbench.storage.canonical import sha256_file, sha256_json
from xmcbench.storage.locations import check_name
from xmcbench.storage.locks import exclusive, sweep_claims, temporary_name
from xmcbench.storage.reading import read_bytes
from xmcbench.storage.temporary import final_name, sweep

#: The note of an artifact. It is written last: a folder without it is not an artifact.
COST = "cost.json"
#: Files up to this size are read by the quick check. Files from this size are kept once.
_QUICK, _SHARED_FROM = 64 << 20, 1 << 20
#: The store that cells share below a runs folder, and the folder of those of trainings, by their keys.
SHARED, TRAINED = "artifacts", "trained"
#: In a store: the folder of files that artifacts share, that of unfinished work, and the lock of a temporary folder.
CONTENT, UNFINISHED, TEMPORARY_LOCK = "content", "unfinished", ".lock"
#: The names of artifacts and trainings, of unfinished work on them, and of files that artifacts share.
_HASH, _WORK, _SUM = re.compile("[0-9a-f]{32}"), re.compile(".+-[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
#: The paths of artifacts, which are those of claims on them too.
_CLAIMED = re.compile("[^/]+/[0-9a-f]{32}")
#: Files that this process has read: size, time of change and inode by path.
_seen: dict[Path, tuple[int, int, int]] = {}


class FileDigest(Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was written: its size in bytes and its SHA-256."""

    size: int
    sha256: str


class Cost(Struct, frozen=True, forbid_unknown_fields=True):
    """Cost of an artifact, the identity it was made from, and digests of its files. sha256: of all that, as JSON."""

    wall_s: float
    identity: dict[str, Any]
    files: dict[str, FileDigest]
    sha256: str = ""

    @property
    def seal(self) -> str:
        """SHA-256 (hex) of the other fields."""
        return sha256_json(msgspec.to_builtins(msgspec.structs.replace(self, sha256="")))


def write_cost(folder: Path, wall_s: float, identity: Mapping[str, object], files: dict[str, FileDigest]) -> None:
    """Write the note of an artifact."""
    cost = Cost(wall_s, dict(identity), files)
    noted = msgspec.to_builtins(msgspec.structs.replace(cost, sha256=cost.seal))
    (folder / COST).write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n")


def read_cost(folder: Path) -> Cost | None:
    """Return the note of an artifact; None where there is none, or the artifact is damaged."""
    return None if not (folder / COST).exists() or find_damage(folder) else _decode(folder)


def find_damage(folder: Path, *, full: bool = False) -> str:
    """Describe the damage of an artifact in a few words; empty where its files are as written. full: read all bytes."""
    try:
        cost = _decode(folder)
        if cost.seal != cost.sha256:
            return f"{COST} has changed"
        found = _files(folder)
        for name, written in cost.files.items():  # files that were added do not matter: nothing asks for them
            if name not in found:
                return f"{name} is missing"
            path = found[name]
            state = path.stat()
            if state.st_size != written.size:
                return f"{name} has {state.st_size} bytes, not {written.size}"
            known = (state.st_size, state.st_mtime_ns, state.st_ino)
            if full or (state.st_size <= _QUICK and _seen.get(path) != known):
                if sha256_file(path) != written.sha256:
                    return f"{name} has changed"
                _seen[path] = known
        return ""
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return str(error)


def discard_damaged(folder: Path) -> None:
    """Remove a damaged artifact, with a message on stderr. Raises StorageError."""
    if not (folder / COST).exists():
        return
    damage = find_damage(folder)
    print(f"xmcbench: {folder} is damaged and will be regenerated: {visible(damage)}", file=sys.stderr)
    try:
        discard(folder)
    except OSError as error:
        hint = f"it cannot be removed ({error}): delete it"
        raise StorageError(f"the artifact {folder} is damaged: {damage}", hint) from error


def discard(folder: Path) -> None:
    """Remove an artifact; its users keep the files that they have open. Raises OSError."""
    aside = folder.with_name(temporary_name(folder.name))  # swept if we are killed
    os.replace(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


def digest_files(folder: Path) -> dict[str, FileDigest]:
    """Return the size and digest of every file below a folder, by relative path."""
    return {name: FileDigest(path.stat().st_size, sha256_file(path)) for name, path in _files(folder).items()}


def share_file(file: Path, written: FileDigest, content: Path) -> None:
    """Replace a large file with a link to the file of the same content in a folder, or put a link to it there."""
    if written.size < _SHARED_FROM:
        return
    known, link = content / written.sha256, file.with_name(f".{file.name}.link")
    try:
        known.parent.mkdir(exist_ok=True)
        if known.exists() and sha256_file(known) != written.sha256:
            known.unlink()  # damaged since: artifacts that have it are made again when they are needed
        if not known.exists():
            os.link(file, known)
        else:
            os.link(known, link)
            os.replace(link, file)
    except OSError:  # a file system without hard links: the file stays as it is
        with suppress(OSError):
            link.unlink(missing_ok=True)


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if not path.is_dir()}


def _decode(folder: Path) -> Cost:
    return msgspec.json.decode(read_bytes(folder / COST), type=Cost)


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


def list_folders(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """Yield every folder that a store has made: its kind (``unfinished`` if no artifact), path, and its users' lock."""
    for folder in sorted(root.glob("*/")):
        if final_name(folder.name) == "":
            yield UNFINISHED, folder, folder / TEMPORARY_LOCK
    for folder in sorted(root.glob("*/*/")):
        kind, target = folder.parent.name, final_name(folder.name)
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
