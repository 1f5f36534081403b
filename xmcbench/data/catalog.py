"""The known datasets: cards that come with xmcbench, the user's own folders, and plain paths.

A dataset that cannot be used is a row with a reason; it never breaks a listing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.data.card import Card, read_card
from xmcbench.data.sealing import check_open
from xmcbench.data.sources.finding import find_layout, place_of, reference_to, source_at, without
from xmcbench.data.sources.records import ENDINGS, SUFFIXES
from xmcbench.data.sources.source import Place, Source
from xmcbench.data.sources.tables import Tables
from xmcbench.errors import DataError, UnknownName, UsageError
from xmcbench.output.escaping import visible
from xmcbench.storage.locations import find_shipped

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset
    from xmcbench.texts import Texts

#: The option of a place or a name that holds a share of the training instances out.
DEV = "dev"
#: The name in records of a part of a dataset: the options that made it, in the order in which they apply.
_PART = re.compile(rf"(?P<whole>.+?)(?:-dev-(?P<{DEV}>[\d.e-]+))?(?:\+limit(?P<limit>\d+))?")


@dataclass(frozen=True)
class Listing:
    """A dataset by name, and why it cannot be used, if so. place: None if it is derived, or not on this machine."""

    slug: str
    name: str
    card: Card | None
    place: Place | None
    problem: str = ""
    hint: str = ""


def roots() -> list[Path]:
    """The folders that hold dataset folders: those in $XMCBENCH_DATASETS, then the one that comes with xmcbench."""
    given = filter(None, os.environ.get("XMCBENCH_DATASETS", "").split(os.pathsep))
    return [*(Path(os.path.expanduser(root)) for root in given), *find_bundled()]


def find_bundled() -> list[Path]:
    """Find the folder of the datasets that come with xmcbench: one path, or none."""
    return [*filter(None, [find_shipped("datasets")])]


def writable_root() -> Path | None:
    """The first of these folders in which a dataset can be put; one that is missing is made then."""
    for root in roots():
        there = next(path for path in (root, *root.absolute().parents) if path.exists())
        if there.is_dir() and os.access(there, os.W_OK):
            return root
    return None


def known_datasets() -> list[Listing]:
    """List all datasets by name, in alphabetical order. Reads cards, opens no data.

    The card and the data of a dataset may be in different folders; the first of each in ``roots`` counts.
    """
    cards: dict[str, tuple[Card | None, str]] = {}
    homes: dict[str, Path] = {}
    folders: dict[str, Path] = {}
    listed: list[Path] = []

    def claim(slug: str, folder: Path, known: dict[str, Path]) -> None:
        other = known.setdefault(slug, folder)
        if other != folder and other.parent == folder.parent:
            cards[slug] = (None, f"{other} and {folder.name} beside it have the same name {slug}: rename one")

    for root in roots():
        with suppress(OSError):  # a folder that may not be read holds nothing that could be used
            listed += filter(Path.is_dir, sorted(root.iterdir()))
    for folder in listed:
        slug, path = slug_of(folder.name), folder / "card.toml"
        try:
            if path.is_file():
                card = read_card(path)
                slug = card.slug
                cards.setdefault(slug, (card, ""))
                claim(slug, folder, homes)
        except OSError:  # somebody else's, as on a shared disk
            continue
        except DataError as error:
            cards.setdefault(slug, (None, str(error)))
        if find_layout(Place(str(folder), folder)):
            claim(slug, folder, folders)
    for slug, folder in folders.items():
        if slug not in cards:
            try:
                cards[slug] = (bare_card(folder.name), "")
            except DataError as error:
                cards[slug] = (None, str(error))
    named = {card.name.casefold() for slug, (card, _) in cards.items() if card and slug in folders}
    here = named | {slug.casefold() for slug in folders}
    return [_make_listing(slug, *cards[slug], folders.get(slug), here) for slug in sorted(cards)]


def bare_card(name: str) -> Card:
    """The card of a dataset of which only the name is known. Raises DataError for a name that cannot name files."""
    try:
        return Card(name=name, slug=slug_of(name))
    except ValueError as error:
        what = f"the name of the folder cannot be the name of a dataset: {error}"
        raise DataError(what, "rename it, or add a card") from None


def _make_listing(slug: str, card: Card | None, problem: str, folder: Path | None, here: Set[str]) -> Listing:
    """here: what the datasets with data are called, in lower case."""
    place = Place(str(folder), folder) if folder else None
    if card is None:
        return Listing(slug, slug, None, place, problem)
    if place or (card.derive and card.derive.source.casefold() in here):
        return Listing(slug, card.name, card, place)
    problem, root = f"{card.name} is not on this machine", writable_root()
    if card.derive:
        source = card.derive.source
        problem, hint = f"its source {source} is not on this machine", f"see {source}: xmcbench ls datasets"
    elif card.build:
        home, hint = home_of(slug), f"build it: xmcbench data build {slug}"
        if home and not os.access(home, os.W_OK):
            hint += f" --out {shlex.quote(str(root / slug)) if root else 'FOLDER'}"
    else:
        origin = f"get it from {card.homepage or 'its authors'}"
        if card.downloads:
            origin = f"fetch it: xmcbench data fetch {slug}; or {origin}"
        target = (root or Path("$XMCBENCH_DATASETS")) / slug
        hint = f"{origin} and put its files, in any layout of `xmcbench ls layouts`, into {target}"
    return Listing(slug, card.name, card, None, problem, hint)


def home_of(slug: str) -> Path | None:
    """Return the first folder that holds the card of a dataset under its slug."""
    return next((root / slug for root in roots() if (root / slug / "card.toml").is_file()), None)


def slug_of(name: str) -> str:
    """A name in lower case, with a dash for other characters than letters and digits."""
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-") or "data"


def find(name: str) -> Listing:
    """Find the dataset of this name, in any case. Raises UnknownName (did you mean ...?)."""
    listings = known_datasets()
    exact = (listing for listing in listings if name in (listing.slug, listing.name))
    alike = (listing for listing in listings if name.casefold() in (listing.slug.casefold(), listing.name.casefold()))
    if found := next(exact, None) or next(alike, None):
        return found
    hint = "see `xmcbench ls datasets`, or give the folder of the dataset"
    raise UnknownName("dataset", name, {listing.slug for listing in listings}, hint)


def default_dataset() -> str:
    """The slug of the default dataset: the first whose card says so. Raises UsageError if there is none."""
    for listing in known_datasets():
        if listing.card is not None and listing.card.default:
            return listing.slug
    raise UsageError("no dataset is given", "--dataset NAME|FOLDER; `xmcbench ls datasets` lists them")


def locate(name_or_place: str | Path) -> Listing:
    """Find the dataset of this name or at this place; a name takes precedence over a folder of the same name.

    A place is a folder, a file or an id, with options after a question mark. Raises UnknownName, UsageError, DataError.
    """
    name_or_place = reference_of(name_or_place)
    place = place_of(name_or_place)
    if "limit" in place.options:  # whether the name says so depends on the number of instances
        return locate(without(str(name_or_place), "limit"))
    if (dev := place.options.get(DEV)) is not None:
        whole, share = locate(without(str(name_or_place), DEV)), _read_share(dev)
        name, slug = (f"{called}-dev-{share}" for called in (whole.name, whole.slug))
        card = whole.card and msgspec.structs.replace(whole.card, name=name, slug=slug, counts={}, files={})
        return replace(whole, name=name, slug=slug, card=card)
    if not isinstance(name_or_place, Path) and (listing := _find_named(place)):
        return listing
    if not os.path.exists(place.path) and find_layout(place) is None:
        if place.options and is_name(place.given):
            what = f"{place.given} is a name, which takes no option {next(iter(place.options))}"
            raise UsageError(what, "options of a name are dev, limit and documents")
        hint = "a dataset is a name (`xmcbench ls datasets`), a folder, a file or hf:OWNER/NAME"
        raise UsageError(f"no folder at {place.path}", hint)
    return _at_place(place)


def reference_of(name_or_place: str | Path) -> str | Path:
    """The reference to a part of a known dataset for its name in records; another name, and a place, as it is.

    ``NAME-dev-0.1+limit50`` is ``NAME?dev=0.1&limit=50``.
    """
    place = place_of(name_or_place)
    found = _PART.fullmatch(place.given)
    if isinstance(name_or_place, Path) or os.path.exists(place.path) or found is None:
        return name_or_place
    options = {name: value for name in (DEV, "limit") if (value := found[name])}
    if not options or is_name(place.given) or not is_name(found["whole"]):
        return name_or_place
    return reference_to(found["whole"], {**options, **place.options})


def is_name(reference: str) -> bool:
    """Tell whether a reference is the name of a known dataset, instead of a place."""
    return _find_known(reference) is not None


def normalize_name(reference: str) -> str:
    """The slug of a known dataset for its name in any case; a place, and an unknown name, as they are."""
    known = _find_known(reference)
    return known.slug if known else reference


def _find_known(reference: str) -> Listing | None:
    """Find a known dataset by name; None for a place and for an unknown name."""
    with suppress(UnknownName):
        return _find_named(place_of(reference))
    return None


def _find_named(place: Place) -> Listing | None:
    """Find the dataset that is named, None where a place is meant. Raises UnknownName where there is neither."""
    if place.path.name != place.given or place.options:
        return None
    try:
        found = find(place.given)
    except UnknownName:
        if not os.path.exists(place.path):
            raise
        return None
    # A card alone says nothing about a folder of that name, which has the data.
    has_data = found.place is not None or (found.card is not None and found.card.derive is not None)
    return found if has_data or not place.path.exists() else None


def reference_to_whole(reference: str | Path) -> str | Path:
    """The reference to a dataset without the options that choose some of its documents, or others."""
    options = place_of(reference).options
    for option in (name for name in (DEV, "limit", "documents") if name in options):
        reference = without(str(reference), option)
    return reference


def load_dataset(name_or_place: str | Path) -> Dataset:
    """Load a dataset by name, or from any place in a layout that xmcbench knows.

    A place needs no card; without one the propensities are those of the known dataset of its name, if any. Files are
    read and checked the first time; later loads map the cached form. Options: ``documents=PLACE`` replaces the test
    instances by other documents, without labels, of which a table is read by the columns that the place names if it has
    them and names none itself; ``limit=N`` keeps N training and N test instances at most, and all
    other documents; ``dev=SHARE`` replaces the test instances by a share of the training instances, to choose
    hyperparameters, and reads no test instance. Raises what ``locate`` raises, and DataError if the data are missing or
    broken, and inside a cell.
    """
    from xmcbench.data.opening import derive, hold_out, open_dataset, open_training, with_documents, with_limit

    check_open("a dataset")
    name_or_place = reference_of(name_or_place)
    options = place_of(name_or_place).options
    if (documents := options.get("documents")) is not None:
        dataset = load_dataset(without(str(name_or_place), "documents"))
        return with_documents(dataset, _source_of_documents(documents, options))
    if (limit := options.get("limit")) is not None:
        return with_limit(load_dataset(without(str(name_or_place), "limit")), limit)
    listing = locate(name_or_place)
    if listing.card is None or listing.problem:
        raise DataError(listing.problem, listing.hint)
    if (dev := options.get(DEV)) is not None:
        whole = without(str(name_or_place), DEV)
        found = locate(whole)
        if found.place and found.card:
            training = open_training(source_at(found.place), found.card)
        else:  # the parts of a derived dataset are made together
            training = load_dataset(whole)
        return hold_out(training, listing.card, _read_share(dev))
    if listing.place is not None:
        return open_dataset(source_at(listing.place), listing.card)
    parent = source_of(listing)
    return derive(open_dataset(source_at(parent.place), parent.card), listing.card)  # type: ignore[arg-type]


def _read_share(text: str) -> float:
    """Return the share of the option ``dev``. Raises UsageError."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"{text!r} is not a share of the training instances", f"{DEV}=0.1 holds out a tenth of them")
    return share


def load_documents(reference: str | Path) -> tuple[Texts, tuple[str, ...]]:
    """Return the texts of documents, of a place or of the dataset of this name, and notes on how they were read.

    Raises UsageError and DataError.
    """
    from xmcbench.data.store import get_corpus
    from xmcbench.texts import Texts

    source = _source_of_documents(str(reference), {})
    corpus = get_corpus(source.documents(), source)
    return Texts.open(corpus.texts), tuple(map(visible, corpus.notes))


def _source_of_documents(reference: str, options: Mapping[str, str]) -> Source:
    """Return the source of documents, by the columns that they share with a dataset. options: of that dataset."""
    place = _documents_place(reference)
    source = source_at(place)
    if place.options or not isinstance(source, Tables):
        return source
    return type(source)(replace(place, options=source.shared_columns(options)))


def _documents_place(reference: str) -> Place:
    """The place of documents: that of the dataset of this name, or one that the reference gives itself."""
    listing = _find_known(reference)
    if listing is None:
        return place_of(reference)
    if listing.place is None:
        problem = listing.problem or f"{listing.name} has no files: it is made when it is loaded"
        hint = f"write some: xmcbench data export {listing.slug} --format jsonl --out FOLDER"
        raise DataError(problem, listing.hint or hint)
    return listing.place


def source_of(listing: Listing) -> Listing:
    """The dataset that this one is derived from. Raises DataError unless it has its own data."""
    parent = find(listing.card.derive.source if listing.card and listing.card.derive else listing.slug)
    if parent.card is None or parent.place is None:
        derived = parent.card.derive if parent.card else None
        hint = parent.hint or (f"derive it from {derived.source}" if derived else "")
        reason = parent.problem or f"{parent.name} is itself derived"
        raise DataError(f"{listing.name} is derived from {parent.slug}: {reason}", hint)
    return parent


def _at_place(place: Place) -> Listing:
    """The dataset at a place, with the card that lies there or a bare one. Raises DataError.

    A bare one has the propensity and the default filter of the known dataset of that name, if there is one.
    """
    path = place.path / "card.toml"
    if path.is_file():
        card = read_card(path)
    else:
        card = bare_card(_name_of(place))
        with suppress(UnknownName):
            if known := find(card.name).card:
                shared = {key: getattr(known, key) for key in ("name", "slug", "propensity", "filter")}
                card = msgspec.structs.replace(card, **shared)
    is_derived = card.derive and find_layout(place) is None
    return Listing(card.slug, card.name, card, None if is_derived else place)


def _name_of(place: Place) -> str:
    """The name of a folder, of a file without its suffixes, or the last part of an id.

    Of several tables that differ in their suffixes only, the first by ``ENDINGS`` has the name without one.
    """
    if place.path.is_dir():
        return place.path.resolve().name
    name = place.path.name
    for suffix in reversed(place.path.suffixes):
        if suffix in (".gz", *SUFFIXES):
            name = name.removesuffix(suffix)
    alike = (path for ending in ENDINGS if (path := place.path.with_name(f"{name}{ending}")).is_file())
    return name if next(alike, place.path) == place.path else place.path.name
