"""Fetch the data of a card: the first of its downloads that works, unpacked, and compared with the first fetch.

The checksums of the first fetch are in ``fetch.lock`` beside the data. A later fetch of other bytes is an error.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from xmcbench.data.archives import download, unpack
from xmcbench.data.card import Card
from xmcbench.data.catalog import find, writable_root
from xmcbench.data.exchange import check_free, has_checksum, output_folder, work_folder
from xmcbench.data.sources.finding import find_layout
from xmcbench.data.sources.source import Place
from xmcbench.errors import DataError, UsageError
from xmcbench.output.escaping import visible
from xmcbench.storage.atomic import write_json, writing
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.locations import cache_root
from xmcbench.storage.locks import exclusive
from xmcbench.storage.reading import read_bytes

LOCK = "fetch.lock"


class Lock(Struct, frozen=True, forbid_unknown_fields=True):
    """The checksums of the first fetch. archives: url -> SHA-256; files: path in the folder -> SHA-256."""

    archives: dict[str, str]
    files: dict[str, str]

    def changes(self, folder: Path) -> list[str]:
        """The files that are missing in a folder or have other bytes."""
        return [name for name, sha256 in self.files.items() if not has_checksum(folder / name, sha256)]


def read_lock(folder: Path) -> Lock | None:
    """Read the checksums of the first fetch; None where nothing was fetched. Raises DataError for a damaged file."""
    try:
        return msgspec.json.decode(read_bytes(folder / LOCK), type=Lock)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        hint = "delete it to accept whatever is fetched next"
        raise DataError(f"cannot read {folder / LOCK}: {error}", hint) from None


def fetch_data(slug: str, out: Path | None = None, *, offline: bool = False, force: bool = False) -> list[Path]:
    """Fetch the data of a dataset into ``out`` (default: the first dataset folder that is writable); returns the files.

    Data that are there, and are those of ``fetch.lock``, are not fetched again. offline: open no connection. Raises
    DataError, saying where else to get them, where no download works or one brings other files than the first fetch;
    UsageError for a folder with files of something else, or with a file that was changed after it was fetched.
    """
    listing = find(slug)
    card = listing.card
    if card is None or not card.downloads:
        raise DataError(listing.problem or f"{slug} has no download", listing.hint)
    root = out or writable_root()
    if root is None:
        raise UsageError("no dataset folder is writable", "--out FOLDER, or set $XMCBENCH_DATASETS")
    target = out or root / card.slug
    check_free(target, force=True)  # it is no file
    if present := _present_files(card, target, force):
        return present
    if offline and find_layout(Place(str(target), target)) and read_lock(target) is None:
        what = f"the files in {target} were not fetched, and --offline opens no connection"
        raise DataError(what, "they are used as they are")
    if offline:
        raise DataError(f"{card.name} is not in {target}, and --offline opens no connection", f"see {card.homepage}")
    problem = ""
    for source in card.downloads:
        place = cache_root() / "downloads" / hashlib.sha256(source.url.encode()).hexdigest()[:32]
        try:
            with _alone(place, source.url):
                return _fetch(card, source.url, place / "archive", target, force)
        except DataError as error:
            problem = error.message
            print(f"xmcbench: {error}", file=sys.stderr)
    raise DataError(f"no download of {card.name} works: {problem}", f"get it from {card.homepage}")


@contextmanager
def _alone(place: Path, url: str) -> Iterator[None]:
    """Hold the lock of a download folder, and say so if another process holds it."""
    path = place.with_suffix(".lock")
    with ExitStack() as stack:
        held = stack.enter_context(exclusive(path, wait=False))
        if not held.held:
            print(f"xmcbench: waiting for another process that downloads {visible(url)}", file=sys.stderr)
            held = stack.enter_context(exclusive(path))
        try:
            yield
        finally:
            # A download that is not used yet, whole or partial, is kept: the disk may be full, or Ctrl-C was pressed.
            with suppress(OSError):
                place.rmdir()
            held.remove()


def _present_files(card: Card, folder: Path, force: bool) -> list[Path]:
    """The files of this card that were fetched into a folder; none if one is missing or, if forced, has other bytes.

    Raises UsageError if one has other bytes, unless forced.
    """
    lock = _lock_of(card, folder, force)
    if lock is None:
        return []
    changes = [folder / name for name in lock.changes(folder)]
    if (own := next(filter(os.path.lexists, changes), None)) and not force:
        raise UsageError(f"{own} was changed after it was fetched", "--force replaces it")
    return [] if changes else [folder / name for name in lock.files]


def _find_root(unpacked: Path, card: Card) -> Path:
    """The outermost folder of an archive that has a layout. Raises DataError if there is none, or several."""
    depths: dict[int, list[Path]] = {}
    for path in (unpacked, *filter(Path.is_dir, unpacked.rglob("*"))):
        depths.setdefault(len(path.parts), []).append(path)
    for _, folders in sorted(depths.items()):
        found = sorted(path for path in folders if find_layout(Place(str(path), path)))
        if len(found) > 1:
            names = ", ".join(path.relative_to(unpacked).as_posix() for path in found)
            raise DataError(f"the archive that was downloaded for {card.name} has several datasets: {visible(names)}")
        if found:
            return found[0]
    raise DataError(f"the archive that was downloaded for {card.name} has no layout that xmcbench knows")


def _lock_of(card: Card, folder: Path, force: bool) -> Lock | None:
    """The lock of a folder, if it is of a download of this card. Raises UsageError for another's, None if forced."""
    lock = read_lock(folder)
    if lock is None or any(source.url in lock.archives for source in card.downloads):
        return lock
    if force:
        return None
    url = visible(next(iter(lock.archives), "elsewhere"))
    hint = "choose another folder; --force writes beside other files and replaces those of the same name"
    raise UsageError(f"{folder} holds what was fetched from {url}, not {card.name}", hint)


def _fetch(card: Card, url: str, archive: Path, target: Path, force: bool) -> list[Path]:
    """Download and unpack an archive, unless another process has just done it."""
    if present := _present_files(card, target, force):
        return present
    lock = _lock_of(card, target, force)
    # Only files of the lock are written, and an earlier fetch put those there.
    force = force or lock is not None
    check_free(target, force, rebuild=True)
    try:
        download(url, archive, lock.archives.get(url) if lock else None)
        with work_folder(target) as temporary:
            with writing(temporary):
                unpack(archive, temporary)
            root = _find_root(temporary, card)
            # The card is ours, whatever the archive says.
            found = sorted(path for path in root.rglob("*") if path.is_file() and path.name not in ("card.toml", LOCK))
            files = {path.relative_to(root).as_posix(): sha256_file(path) for path in found}
            archives = {**(lock.archives if lock else {}), url: sha256_file(archive)}
            known = lock.files if lock else files
            if differing := min((name for name, _ in files.items() ^ known.items()), default=""):
                what = "differs from that of the first fetch" if differing in known else "was not in the first fetch"
                what = what if differing in files else "of the first fetch is missing"
                raise DataError(f"{differing} of {url} {what}", "is the mirror intact?")
            with output_folder(target, force, rebuild=True) as folder:
                for name in files:
                    path = folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(root / name, path)
                write_json(folder / LOCK, msgspec.to_builtins(Lock(archives, files)))
    except DataError:
        archive.unlink(missing_ok=True)
        raise
    archive.unlink()
    return [target / name for name in files]
