"""Finding datasets: the cards that come with xmcbench, the user's own folders, and plain paths.

A dataset that cannot be used is a row with a reason; it never breaks a listing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.card import Card, read_card
from xmcbench.data.compression import find_source
from xmcbench.data.sealing import check_open
from xmcbench.errors import DataError, UnknownName, UsageError
from xmcbench.storage.shipped import shipped

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset


@dataclass(frozen=True)
class Listing:
    """A dataset by name: its card, the folder of its data, and why it cannot be used, if so.

    folder is None for a derived dataset, and for one that is not on this machine.
    """

    slug: str
    name: str
    card: Card | None
    folder: Path | None
    problem: str = ""
    hint: str = ""


def roots() -> list[Path]:
    """The folders that hold dataset folders: those in $XMCBENCH_DATASETS, then the one that comes with xmcbench."""
    given = [Path(each) for each in os.environ.get("XMCBENCH_DATASETS", "").split(os.pathsep) if each]
    return [*given, *bundled()]


def bundled() -> list[Path]:
    """The folder of the datasets that come with xmcbench: one path, or none."""
    folder = shipped("datasets")
    return [folder] if folder else []


def known_datasets() -> list[Listing]:
    """All datasets by name, in alphabetical order. Reads cards, opens no data.

    The card and the data of a dataset may be in different folders; the first of each in ``roots`` counts.
    """
    cards: dict[str, tuple[Card | None, str]] = {}
    folders: dict[str, Path] = {}
    for folder in _folders():
        has_card = (folder / "card.toml").is_file()
        slug, card, problem = slug_of(folder.name), None, ""
        if has_card:
            try:
                card = read_card(folder / "card.toml")
                slug = card.slug
            except DataError as error:
                problem = str(error)
            cards.setdefault(slug, (card, problem))
        if find_source(folder, "lbl.json"):
            folders.setdefault(slug, folder)
    for slug, folder in folders.items():
        if slug not in cards:
            try:
                cards[slug] = (_bare_card(folder.name), "")
            except DataError as error:
                cards[slug] = (None, str(error))
    return [_listing(slug, *cards[slug], folders.get(slug), set(folders)) for slug in sorted(cards)]


def _folders() -> Iterator[Path]:
    for root in roots():
        with suppress(OSError):  # a folder that may not be read holds nothing that could be used
            yield from (folder for folder in sorted(root.iterdir()) if folder.is_dir())


def _bare_card(name: str) -> Card:
    """The card of a folder that has none. Raises DataError for a name that cannot name files."""
    try:
        return Card(name=name, slug=slug_of(name))
    except ValueError as error:
        raise DataError(f"a dataset cannot be called after its folder: {error}", "rename it, or add a card") from None


def _listing(slug: str, card: Card | None, problem: str, folder: Path | None, with_data: set[str]) -> Listing:
    if card is None:
        return Listing(slug, slug, None, folder, problem)
    if card.derive and folder is None:
        source = card.derive.source
        problem = "" if source in with_data else f"its source {source} is not on this machine"
        return Listing(slug, card.name, card, None, problem, f"see {source}: xmcbench ls datasets" if problem else "")
    if folder is None:
        where = [root for root in roots() if os.access(root, os.W_OK)]
        target = where[0] / slug if where else Path("$XMCBENCH_DATASETS") / slug
        origin = f"get it from {card.homepage}" if card.homepage else "get it from its authors"
        if card.build:
            origin = f"build it: xmcbench data build {slug}; or get it"
        hint = f"{origin} and put trn.json.gz, tst.json.gz and lbl.json.gz into {target}"
        return Listing(slug, card.name, card, None, f"{card.name} is not on this machine", hint)
    return Listing(slug, card.name, card, folder)


def slug_of(name: str) -> str:
    """A name in lower case, with a dash for other characters than letters and digits."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "data"


def find(name: str) -> Listing:
    """The dataset of this name, in any case. Raises UnknownName (did you mean ...?)."""
    listings = known_datasets()
    for listing in listings:
        if name.casefold() in (listing.slug.casefold(), listing.name.casefold()):
            return listing
    hint = "see `xmcbench ls datasets`, or give the folder of the dataset"
    raise UnknownName("dataset", name, {listing.slug for listing in listings}, hint)


def default_dataset() -> str:
    """The slug of the default dataset: the first whose card says so.

    Raises UsageError if there is none.
    """
    for listing in known_datasets():
        if listing.card is not None and listing.card.default:
            return listing.slug
    raise UsageError("no dataset is given", "--dataset NAME|FOLDER; `xmcbench ls datasets` lists them")


def locate(name_or_folder: str | Path) -> Listing:
    """The dataset of this name or in this folder; a name takes precedence over a folder of the same name.

    Raises UnknownName for an unknown name, UsageError for a missing folder, DataError for a broken card.
    """
    given = str(name_or_folder)
    folder = Path(os.path.expanduser(given))  # Path.expanduser raises if there is no such user
    if isinstance(name_or_folder, Path) or folder.name != given:
        if not folder.is_dir():
            raise UsageError(f"no folder at {folder}", "a dataset is a name (`xmcbench ls datasets`) or a folder")
        return from_folder(folder)
    try:
        return find(given)
    except UnknownName:
        if not folder.is_dir():
            raise
        return from_folder(folder)


def load_dataset(name_or_folder: str | Path) -> Dataset:
    """Load a dataset by name, or from any folder in the XC raw layout.

    A folder needs no card; without one the propensities are those of datasets other than Amazon's and Wikipedia's.
    Files are read and checked the first time; later loads map the cached form.

    Raises what ``locate`` raises, and DataError if the data are missing or broken, and inside a cell.
    """
    from xmcbench.data.dataset import derive, open_folder

    check_open("a dataset")
    listing = locate(name_or_folder)
    if listing.card is None or listing.problem:
        raise DataError(listing.problem, listing.hint)
    if listing.folder is not None:
        return open_folder(listing.folder, listing.card)
    parent = source_of(listing)
    return derive(open_folder(parent.folder, parent.card), listing.card)  # type: ignore[arg-type]


def source_of(listing: Listing) -> Listing:
    """The dataset that this one is derived from. Raises DataError unless it has its own data."""
    parent = find(listing.card.derive.source if listing.card and listing.card.derive else listing.slug)
    if parent.card is None or parent.folder is None:
        reason = parent.problem or f"{parent.name} is itself derived"
        raise DataError(f"{listing.name} is derived from {parent.slug}: {reason}", parent.hint)
    return parent


def from_folder(folder: Path) -> Listing:
    """The dataset in a folder, with the card that lies in it or a bare one.

    Raises DataError for a broken card, and for a name that cannot name the files of a run.
    """
    path = folder / "card.toml"
    card = read_card(path) if path.is_file() else _bare_card(folder.resolve().name)
    if card.derive and not find_source(folder, "lbl.json"):
        return Listing(card.slug, card.name, card, None)
    return Listing(card.slug, card.name, card, folder)
