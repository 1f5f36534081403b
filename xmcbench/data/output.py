"""Writing a dataset into a folder: what somebody else put there is never removed, and only replaced if told to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xmcbench.data.card import read_card
from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.temporary import hold_folder, remove_folder


@contextmanager
def output_folder(out: Path, force: bool = False, rebuild: bool = False) -> Iterator[Path]:
    """A folder to fill; when the block ends well, its files are put into ``out``, and nothing else there changes.

    rebuild: the files of an earlier build may be replaced, which the card in ``out`` lists with their checksums. force:
    any file of the same name may be replaced. Raises UsageError for a folder that contains anything else, StorageError
    if it cannot be written.
    """
    check_free(out, force, rebuild)
    target = out.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        held, folder = hold_folder(target.parent, f".{target.name}.")
    except OSError as error:
        raise StorageError.from_os_error(error, out) from error
    try:
        yield folder
        check_free(out, force, rebuild)  # it may have been filled meanwhile
        try:
            _move(folder, target)
        except OSError as error:
            raise StorageError.from_os_error(error, out) from error
    finally:
        remove_folder(held, folder)


def check_free(out: Path, force: bool = False, rebuild: bool = False) -> None:
    """Raise UsageError if a dataset cannot be written to ``out`` without replacing files of somebody else."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} already exists and is not a folder", "choose a new or empty folder")
    own = _built(out) if rebuild else set()
    others = [] if force or not out.exists() else sorted(path for path in out.iterdir() if path.name not in own)
    if others:
        raise UsageError(
            f"{out} already exists and contains {others[0].name}",
            "choose a new or empty folder; --force writes beside other files and replaces those of the same name",
        )


def _built(folder: Path) -> set[str]:
    """The names of the files that are still what the card in a folder says: the card, and what was built with it."""
    try:
        card = read_card(folder / "card.toml")
    except DataError:
        return set()
    names = {name for name, sha256 in card.files.items() if _is_file(folder / name, sha256)}
    return {"card.toml", *names}


def _is_file(path: Path, sha256: str) -> bool:
    try:
        return path.is_file() and sha256_file(path) == sha256
    except OSError:
        return False


def _move(folder: Path, target: Path) -> None:
    """Put the files of a folder into another; a card goes last, as it describes the others."""
    if not os.path.lexists(target):
        os.replace(folder, target)
        return
    # A folder that is there stays the same folder, even an empty one: someone may stand in it or have linked to it.
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in sorted(files, key=lambda path: path.name == "card.toml"):
        place = target / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, place)
