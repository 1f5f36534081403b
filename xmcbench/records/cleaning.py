"""The contents of a runs folder: size, last use, the records that need it; and its removal.

artifacts   shared by cells; a cell that needs a missing one makes it again
unfinished  checkpoints of killed trainings, from which the next run continues, and leftovers of other work
unfinished-judgments  answers of a judge, which may have been paid for, of cells that failed or were killed
predictions of a record; figures are computed from ranks, so they are for inspection only
logs        what the processes of cells printed
subsets     pairs that were given to methods; drawn again if missing

Records, ranks and true pairs are results and are never removed. Nor are files of others, which are told by their names:
a runs folder may be that of a project with ``logs`` and ``artifacts`` of its own.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.records.record import Record
from xmcbench.records.store import Store
from xmcbench.storage.artifact_store import CONTENT, COST, SHARED, UNFINISHED, forget_content, list_folders, list_stores
from xmcbench.storage.locks import CLAIM, Claim, exclusive, is_dead

#: The answers of judges that no finished cell has: they are only removed where this kind is named.
UNFINISHED_JUDGMENTS = "unfinished-judgments"
#: The kinds that belong to records; the others are artifacts, and what is left of them.
_OF_RECORDS = ("predictions", "logs", "subsets")


@dataclass(frozen=True)
class Item:
    """Something that can be removed.

    kind: of artifact (``training``, ``tokens``, ...), ``unfinished``, ``unfinished-judgments``, ``predictions``,
    ``logs`` or ``subsets``. size: bytes of its files; one that several items have is counted with the first of them.
    used: time of its last use, in seconds since 1970. records: those that need it, by dataset, setting, method, seed
    and key. lock: the lock file that users of it hold.
    """

    kind: str
    path: Path
    size: int
    used: float
    records: tuple[str, ...]
    lock: Path

    @property
    def age_days(self) -> float:
        """Days since it was last used."""
        return max(0.0, time.time() - self.used) / 86400


def items(store: Store) -> list[Item]:
    """All removable items of a runs folder. Unreadable records do not count as users of an item.

    Raises StorageError for a folder that cannot be read.
    """
    records, seen = store.records(), set[int]()
    return [*_artifacts(store, records, seen), *_of_records(store, records, seen)]


def kinds(store: Store) -> set[str]:
    """Return the kinds of items that a runs folder can have. The folder of a kind of artifacts outlives them."""
    made = {folder.name for root in list_stores(store.root) for folder in root.glob("[!.]*/")}
    return {UNFINISHED, UNFINISHED_JUDGMENTS, *_OF_RECORDS, *made - {CONTENT}}


def count_freed_bytes(store: Store, chosen: Iterable[Item]) -> int:
    """Bytes that the removal of items frees: a file with several links is gone with the last of them."""
    links: Counter[int] = Counter()
    found: dict[int, os.stat_result] = {}
    for state in chain.from_iterable(_files(item.path) for item in chosen):
        links[state.st_ino] += 1
        found[state.st_ino] = state
    shared = {state.st_ino for state in _files(store.artifacts / CONTENT)}
    return sum(state.st_size for inode, state in found.items() if links[inode] + (inode in shared) >= state.st_nlink)


def in_use(item: Item) -> bool:
    """Return whether a running cell uses an item, without writing anything."""
    if not item.lock.exists():
        return False
    if item.lock.suffix == CLAIM:
        return not is_dead(item.lock)
    try:
        with exclusive(item.lock, wait=False) as lock:
            return not lock.held
    except StorageError:  # a folder of others, whose locks cannot be asked
        return False


def remove(store: Store, chosen: Iterable[Item]) -> list[Item]:
    """Remove items; returns those that stay, because a running cell uses them. Raises StorageError."""
    try:
        return [item for item in chosen if not _remove_item(item)]
    finally:
        forget_content(store.artifacts)


def _remove_item(item: Item) -> bool:
    lock = Claim(item.lock) if item.lock.suffix == CLAIM else exclusive(item.lock, wait=False)
    with lock as claim:
        if not claim.held:
            return False
        try:
            if item.path.is_dir():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
            item.lock.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError.from_os_error(error, item.path) from error
    return True


def _artifacts(store: Store, records: list[Record], seen: set[int]) -> Iterator[Item]:
    needed: dict[str, list[str]] = {}
    for record in records:
        for name in record.artifacts:
            needed.setdefault(name, []).append(str(record.cell.path))
    for kind, folder, lock in chain.from_iterable(map(list_folders, list_stores(store.root))):
        is_answers = kind == UNFINISHED and folder.name.startswith("judgments-")
        cost, name = folder / COST, store.relative(folder).removeprefix(f"{SHARED}/")
        with suppress(FileNotFoundError):  # a running cell has removed it
            used = (cost if cost.exists() else folder).stat().st_mtime
            listed = UNFINISHED_JUDGMENTS if is_answers else kind
            yield Item(listed, folder, _size(folder, seen), used, tuple(needed.get(name, ())), lock)


def _size(path: Path, seen: set[int]) -> int:
    """Bytes of the files at a path. seen: inodes of files that were counted already."""
    new = {state.st_ino: state.st_size for state in _files(path) if state.st_ino not in seen}
    seen.update(new)
    return sum(new.values())


def _files(path: Path) -> Iterator[os.stat_result]:
    """The state of a file, or of every file in a folder; none for a link that leads nowhere."""
    for file in filter(Path.exists, path.rglob("*") if path.is_dir() else [path]):
        with suppress(FileNotFoundError):  # a running cell has removed it
            state = file.stat()
            if stat.S_ISREG(state.st_mode):
                yield state


def _of_records(store: Store, records: list[Record], seen: set[int]) -> Iterator[Item]:
    needed: dict[Path, list[str]] = {}
    for record in records:
        cell = record.cell
        paths = [store.predictions_path(cell)] if record.finished else [store.log_path(cell)]
        if record.subset is not None:
            name = f"{record.subset.name}-{record.subset.sha256[:12]}.npz"
            paths += (store.root / "subsets").glob(f"*/{name}")
        for path in paths:
            needed.setdefault(path, []).append(str(cell.path))
    for kind in _OF_RECORDS:
        for path in store.files(kind):
            lock = path.with_suffix(".lock")
            if kind != "subsets":
                lock = store.root / "logs" / path.relative_to(store.root / kind).with_suffix(CLAIM)
            with suppress(FileNotFoundError):  # a running cell has removed it
                state = path.stat() if path.exists() else path.lstat()  # of a link whose target is gone
                yield Item(kind, path, _size(path, seen), state.st_mtime, tuple(needed.get(path, ())), lock)
