"""Other releases for a dataset of two Debian releases: its training and test data, and the day of the latter."""

from __future__ import annotations

import re
from datetime import date
from email.utils import parsedate_to_datetime
from pathlib import Path

from msgspec.structs import replace

from xmcbench.data.card import Card
from xmcbench.data.catalog import slug_of
from xmcbench.data.text_files import number_lines
from xmcbench.errors import DataError, UsageError

#: https://wiki.debian.org/DebianReleases
CODE_NAMES = {"10": "buster", "11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky", "15": "duke"}

#: Names that another release has some day, or that has other packages every day.
_MOVING = frozenset({"experimental", "oldoldstable", "oldstable", "sid", "stable", "testing", "unstable"})


def choose_releases(card: Card, train: str | None, test: str | None) -> Card:
    """Return the card of a dataset of other releases, without checksums; of the same, with those of the card.

    train, test: numbers or code names of releases, which may end in the day of a snapshot (``testing@2026-11-21``);
    None for those of the card. Raises UsageError for any other text, and for a dataset that is not of two releases.
    """
    recipe = card.build
    if recipe is None or recipe.next_release is None:
        raise UsageError(
            f"{card.name} is not of two releases", "--train and --test are for datasets like lf-debian-new"
        )
    before = _release(train) if train else recipe.release
    after = _release(test) if test else recipe.next_release
    chosen = replace(recipe, release=before, next_release=after)
    if (name_of(before), name_of(after)) == (name_of(recipe.release), name_of(recipe.next_release)):
        return replace(card, build=chosen)
    name = "-".join((card.name, before, after)).replace("@", "-")
    return replace(
        card,
        name=name,
        slug=slug_of(name),
        description=f"Packages of Debian {after} that suggest, recommend or enhance a package which is new in it, "
        f"after training on Debian {before}: seen and unseen labels. Title: name and synopsis; content: long "
        "description.",
        release=f"Debian {before} and {after}, {recipe.component}",
        files={},
        build=replace(chosen, indices={}),
    )


def name_of(release: str) -> str:
    """Return a release without the day of a snapshot."""
    return release.partition("@")[0]


def _release(text: str) -> str:
    name, at, day = text.partition("@")
    name = CODE_NAMES.get(name, name)
    try:
        day = date.fromisoformat(day).isoformat() if at else ""
    except ValueError:
        name = ""
    if not re.fullmatch(r"[a-z]+", name):
        hint = "a number (13), a code name (trixie), or either with the day of a snapshot (13@2026-11-21)"
        raise UsageError(f"{text!r} is not a release of Debian", hint)
    if name in _MOVING and not day:
        raise UsageError(f"{name} changes with time", f"give the day of a snapshot, as {name}@2026-11-21")
    return f"{name}@{day}" if day else name


def read_date(path: Path) -> str:
    """Read the day of a release from its ``InRelease``, as 2026-11-21. Raises DataError."""
    if not path.is_file():
        raise DataError(f"{path.parent} has no {path.name}", "it has the day of the test data: put InRelease there")
    found = next((line for _, line in number_lines(path) if line.startswith("Date:")), "")
    try:
        return parsedate_to_datetime(found.removeprefix("Date:").strip()).date().isoformat()
    except ValueError:
        raise DataError(f"{path} has no valid Date", "is this the InRelease of a Debian release?") from None
