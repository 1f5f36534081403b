"""Packing: moving the records and ranks that runs wrote to a board into its packed files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.records.packed import ARCHIVE, LINES, as_line, read_archive, write_archive, write_lines
from xmcbench.records.record import Record
from xmcbench.records.record_json import parse_record
from xmcbench.records.store import Store
from xmcbench.storage.locks import CLAIM, Claim
from xmcbench.storage.reading import Unreadable, read_bytes


def pack(store: Store) -> int:
    """Move records and ranks in files of their own into packed files; return the number of records that moved.

    Cells that a run holds, records that cannot be read and ranks that are not those of their record stay as they are.
    Killed at any time, it leaves every record in at least one of the two forms. Raises StorageError if packed files
    cannot be read or written, or if another process is packing.
    """
    settings = _settings(store)
    if not settings:
        return 0  # nothing is written
    with Claim(store.root / "logs" / f"packing{CLAIM}") as claim:
        if not claim.held:
            raise StorageError(f"another process is packing {store.root}", "wait until it has ended")
        return sum(_pack_setting(store, setting) for setting in settings)


def loose_records(store: Store) -> list[Path]:
    """Return the files of records that could be packed."""
    return [path for setting in _settings(store) for path in _of_setting(store, "records", setting).values()]


def _settings(store: Store) -> list[Path]:
    """Return dataset/setting of all files that could be packed."""
    found = [*(store.root / "records").glob("*/*/*.json"), *(store.root / "ranks").glob("*/*/*.npz")]
    return sorted({path.parent.relative_to(path.parents[2]) for path in found})


def _of_setting(store: Store, kind: str, setting: Path) -> dict[str, Path]:
    """Return the files of a kind by the name of their cell."""
    suffix = ".json" if kind == "records" else ".npz"
    return {path.name.removesuffix(suffix): path for path in sorted((store.root / kind / setting).glob(f"*{suffix}"))}


def _pack_setting(store: Store, setting: Path) -> int:
    records, ranks = (_of_setting(store, kind, setting) for kind in ("records", "ranks"))
    with ExitStack() as stack:
        for name in {*records, *ranks}:
            if not stack.enter_context(Claim(store.root / "logs" / setting / f"{name}{CLAIM}")).held:
                records.pop(name, None)
                ranks.pop(name, None)
        moved = _pack_files(store, setting, records, ranks)
    for kind in ("records", "ranks"):
        with suppress(OSError):
            (store.root / kind / setting).rmdir()  # if it is empty
    return moved


def _pack_files(store: Store, setting: Path, own: Mapping[str, Path], own_ranks: Mapping[str, Path]) -> int:
    packed, archive = store.root / "records" / f"{setting}{LINES}", store.root / "ranks" / f"{setting}{ARCHIVE}"
    known, lines, unreadable = dict[str, Record](), dict[str, bytes](), list[bytes]()
    for line in store.read_packed(packed):
        if isinstance(line.record, Record):
            name = line.record.cell.path.name
            known[name], lines[name] = line.record, line.content
        else:
            unreadable.append(line.content)
    moved = {}
    for name, path in own.items():
        with suppress(StorageError, OSError, Unreadable):
            content = read_bytes(path)
            record = parse_record(content, str(path))
            store.check_place(path, record)
            known[name], lines[name], moved[name] = record, as_line(content), path
    ranks = {name: path for name, path in own_ranks.items() if name in known and _fits(store, known[name], path)}
    # A record is in one of its two forms at any time, and so are its ranks.
    if ranks:
        write_archive(archive, read_archive(archive) | {path.name: path.read_bytes() for path in ranks.values()})
    if moved:
        write_lines(packed, lines, unreadable)
    for path in (*moved.values(), *ranks.values()):
        path.unlink(missing_ok=True)
    return len(moved)


def _fits(store: Store, record: Record, ranks: Path) -> bool:
    """Return whether a file holds the ranks of a record."""
    try:
        store.ranks_in(record, store.truth(record), ranks)
    except StorageError:
        return False
    return True
