"""Fetching the data of a card: the first of its downloads that works, unpacked, and compared with the first fetch.

The sums of the first fetch are in ``fetch.lock`` beside the data. A later fetch that brings other bytes is an error.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from xmcbench.data.card import Card
from xmcbench.data.catalog import find, writable_root
from xmcbench.data.download import Patience, download
from xmcbench.data.output import check_free, output_folder
from xmcbench.data.sources.finding import recognized
from xmcbench.data.sources.source import Place
from xmcbench.data.unpacking import unpack
from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.output.escaping import visible
from xmcbench.storage.atomic import write_json
from xmcbench.storage.cache import cache_root
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.lock import exclusive
from xmcbench.storage.reading import read_bytes
from xmcbench.storage.temporary import folder_in

LOCK = "fetch.lock"


class Lock(Struct, frozen=True, forbid_unknown_fields=True):
    """What the first fetch brought. archives: url -> SHA-256; files: path in the folder -> SHA-256."""

    archives: dict[str, str]
    files: dict[str, str]


def fetch_data(
    slug: str,
    out: Path | None = None,
    *,
    offline: bool = False,
    force: bool = False,
    patience: Patience | None = None,
) -> list[Path]:
    """Fetch the data of a dataset into ``out`` (default: the first dataset folder that is writable); returns the files.

    Data that are there, and are those of ``fetch.lock``, are not fetched again. offline: open no connection. Raises
    DataError, saying where else to get them, where no download works or one brings other files than the first fetch;
    UsageError for a folder with other files, or with what was fetched for another dataset; StorageError where a file
    cannot be written.
    """
    listing = find(slug)
    card = listing.card
    if card is None or not card.downloads:
        raise DataError(listing.problem or f"{slug} has no download", listing.hint)
    target = out or _home(card)
    if present := _present(card, target, force):
        return present
    if offline:
        raise DataError(f"{card.name} is not in {target}, and --offline opens no connection", f"see {card.homepage}")
    problems = []
    for each in card.downloads:
        try:
            return _fetched(card, each.url, target, force, patience)
        except DataError as error:
            problems.append(error)
            print(f"xmcbench: {error}", file=sys.stderr)
    raise DataError(f"no download of {card.name} works: {problems[-1].message}", f"get it from {card.homepage}")


def _fetched(card: Card, url: str, target: Path, force: bool, patience: Patience | None) -> list[Path]:
    place = cache_root() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
    with _alone(place.with_suffix(".lock"), url) as held:
        try:
            if present := _present(card, target, force):  # another process has just fetched it
                return present
            lock = _lock_of(card, target, force)
            # Only what the lock names is written, and an earlier fetch put that there.
            check_free(target, force or lock is not None, rebuild=True)
            archive = download(url, place / "archive", lock.archives.get(url) if lock else None, patience)
            files = _unpacked(card, url, archive, target, lock, force)
            archive.unlink()
            return files
        except DataError:
            (place / "archive").unlink(missing_ok=True)
            raise
        finally:
            # A download that is not used yet, whole or partial, is kept: the disk may be full, or Ctrl-C was pressed.
            if place.is_dir() and not any(place.iterdir()):
                shutil.rmtree(place, ignore_errors=True)
            held.remove()


@contextmanager
def _alone(path: Path, url: str) -> Iterator[exclusive]:
    """Hold the lock of a download, and say so if another process holds it."""
    with exclusive(path, wait=False) as held:
        if held.held:
            yield held
            return
    print(f"xmcbench: waiting for another process that downloads {visible(url)}", file=sys.stderr)
    with exclusive(path) as held:
        yield held


def _unpacked(card: Card, url: str, archive: Path, target: Path, lock: Lock | None, force: bool) -> list[Path]:
    sha256 = sha256_file(archive)
    with folder_in(target.absolute().parent) as temporary:
        try:
            unpack(archive, temporary)
        except OSError as error:
            raise StorageError.from_os_error(error, temporary) from error
        root = _root_of(temporary, card)
        # The card is ours, whatever the archive says.
        found = sorted(path for path in root.rglob("*") if path.is_file() and path.name not in ("card.toml", LOCK))
        files = {path.relative_to(root).as_posix(): sha256_file(path) for path in found}
        changed = [name for name, sum_ in files.items() if lock and lock.files.get(name, sum_) != sum_]
        if changed:
            raise DataError(f"{changed[0]} of {url} differs from that of the first fetch", "is the mirror intact?")
        if lock and (others := sorted(set(files) ^ set(lock.files))):
            how = (
                "brings a file that the first fetch did not"
                if others[0] in files
                else "lacks a file of the first fetch"
            )
            raise DataError(f"{url} {how}: {others[0]}", "is the mirror intact?")
        archives = {**(lock.archives if lock else {}), url: sha256}
        with output_folder(target, force or lock is not None, rebuild=True) as folder:
            for name in files:
                place_of_file = folder / name
                place_of_file.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(root / name, place_of_file)
            write_json(folder / LOCK, msgspec.to_builtins(Lock(archives, {**(lock.files if lock else {}), **files})))
    return [target / name for name in files]


def _root_of(folder: Path, card: Card) -> Path:
    """The folder of an unpacked archive that has a layout, the outermost first."""
    folders = [folder, *sorted((path for path in folder.rglob("*") if path.is_dir()), key=lambda path: len(path.parts))]
    for each in folders:
        if recognized(Place(str(each), each)):
            return each
    raise DataError(f"what was downloaded for {card.name} has no layout that xmcbench knows")


def read_lock(folder: Path) -> Lock | None:
    """The sums of the first fetch; None where nothing was fetched. Raises DataError for a damaged file."""
    try:
        return msgspec.json.decode(read_bytes(folder / LOCK), type=Lock)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        hint = "delete it to accept whatever is fetched next"
        raise DataError(f"cannot read {folder / LOCK}: {error}", hint) from None


def _lock_of(card: Card, folder: Path, force: bool) -> Lock | None:
    """The lock of a folder, if it is of a download of this card. Raises UsageError for another's, None if forced."""
    lock = read_lock(folder)
    if lock is None or any(each.url in lock.archives for each in card.downloads):
        return lock
    if force:
        return None
    raise UsageError(
        f"{folder} holds what was fetched from {visible(next(iter(lock.archives), 'elsewhere'))}, not {card.name}",
        "choose another folder; --force writes beside other files and replaces those of the same name",
    )


def _present(card: Card, folder: Path, force: bool) -> list[Path]:
    """The files of this card that were fetched into a folder; none if one is missing or has other bytes."""
    lock = _lock_of(card, folder, force)
    return [folder / name for name in lock.files] if lock and not differing(folder, lock) else []


def differing(folder: Path, lock: Lock) -> list[str]:
    """The files of a lock that are missing or have other bytes."""
    return [
        name for name, sum_ in lock.files.items() if not (folder / name).is_file() or sha256_file(folder / name) != sum_
    ]


def _home(card: Card) -> Path:
    root = writable_root()
    if root is None:
        raise UsageError("no dataset folder is writable", "--out FOLDER, or set $XMCBENCH_DATASETS")
    return root / card.slug
