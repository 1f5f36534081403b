"""Build datasets from their sources, as the [build] sections of their cards say: one module per recipe.

Each module defines

    indices(recipe)                      names of the source files, each plain, .gz or .xz, and of folders; without this
                                         function, the names on the card
    fetch(recipe, out, progress)         download the source files into a folder; returns their paths
    write(recipe, files, out, progress)  write the dataset in the XC raw layout from the source files

progress is called with a line about the work so far, as often as there is news.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from msgspec.structs import replace

from xmcbench.data.card import Card, Recipe, write_card
from xmcbench.data.catalog import find, home_of
from xmcbench.data.exchange import check_free, output_folder
from xmcbench.data.recipes.debian_packages import choose_releases, name_of, read_date
from xmcbench.data.text_files import sha256_unpacked
from xmcbench.data.verification import count
from xmcbench.errors import DataError, UsageError
from xmcbench.storage.atomic import make_folder
from xmcbench.storage.canonical import sha256_file, sha256_folder
from xmcbench.storage.locations import cache_root
from xmcbench.storage.locks import exclusive
from xmcbench.storage.reading import Unreadable

#: The modules of the recipes, by their names in cards.
_RECIPES = {
    "debian-packages": "debian_packages",
    "long-texts": "long_texts",
    "manual-pages": "manual_pages",
    "subject-files": "subject_files",
    "wordnet": "wordnet",
}


def _ignore(line: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Built:
    """A dataset that was built: its folder, its card, and whether its files match a card that has their checksums."""

    folder: Path
    card: Card
    as_pinned: bool | None


def build(
    slug: str,
    out: Path | None = None,
    indices: Path | None = None,
    allow_other_release: bool = False,
    force: bool = False,
    train: str | None = None,
    test: str | None = None,
    progress: Callable[[str], None] = _ignore,
) -> Built:
    """Build the dataset ``slug`` into ``out`` (default: the folder of its card), over an earlier build.

    indices: a folder with the source indices; without it they are fetched, and kept in the cache until the dataset is
    built. force: replace files of the same names that an earlier build did not write. train, test: Debian releases for
    a dataset of two of them (``choose_releases``), which is another dataset then. Raises UsageError for a folder with
    other files, DataError if the dataset has no recipe, if a program is missing, or if the indices are damaged or,
    without ``allow_other_release``, not those of the release on the card.
    """
    card, recipe, module = _recipe_of(slug)
    if train or test:
        card = choose_releases(card, train, test)
        recipe = card.build or recipe
    is_pinned = bool(recipe.indices)
    if (allow_other_release or not is_pinned) and out is None:
        raise UsageError("another release is another dataset", "give it a folder: --out FOLDER")
    target = out or home_of(card.slug)
    if target is None:
        raise UsageError(f"{card.name} has no folder here", "give one: --out FOLDER")
    check_free(target, force, rebuild=True)
    tools = {name: _version_of(name, card) for name in recipe.tools}
    with nullcontext(indices) if indices else _fetched(card.slug) as source:
        if indices is None:
            module.fetch(recipe, source, progress)
        listed = module.indices(recipe) if hasattr(module, "indices") else sorted(recipe.indices)
        files = []
        for name in listed:
            found = (path for suffix in ("", ".gz", ".xz") if (path := source / f"{name}{suffix}").exists())
            if (file := next(found, None)) is None:
                raise DataError(f"{source} has no {name}", "put it there; a file may be plain, .gz or .xz")
            files.append(file)
        # As the release's own ``InRelease`` file lists them.
        digests = {name: _sum_of(path) for name, path in zip(listed, files, strict=True)}
        other = [name for name in digests if digests[name] != recipe.indices.get(name)]
        if other and is_pinned and not allow_other_release:
            hint = "their SHA-256 differs from the card's; use --other-release to build another dataset"
            if recipe.next_release and card.date:
                hint += f", or take a snapshot: --test {name_of(recipe.next_release)}@{card.date}"
            raise DataError(
                f"{' and '.join(other)} in {source} are not those of {card.release or recipe.release}", hint
            )
        with output_folder(target, force, rebuild=True) as folder:
            module.write(recipe, files, folder, progress)
            date = card.date
            if other:  # the day of the test data of a recipe of two releases; of others it is not asked for
                after = recipe.next_release
                date = read_date(source / f"{name_of(after)}-InRelease") if after else ""
            made = replace(
                card,
                counts=count(folder),
                files={path.name: sha256_file(path) for path in sorted(folder.iterdir())},
                release=f"other than {card.release}" if other and is_pinned else card.release,
                date=date,
                build=replace(recipe, indices=digests, tools=tools),
            )
            write_card(folder / "card.toml", made)
    return Built(target, made, made.files == dict(card.files) if card.files else None)


def fetch(slug: str, out: Path, progress: Callable[[str], None] = _ignore) -> list[Path]:
    """Fetch the source of a dataset into the folder ``out``; returns the files. Raises DataError."""
    _, recipe, module = _recipe_of(slug)
    make_folder(out)
    files: list[Path] = module.fetch(recipe, out, progress)
    return files


@contextmanager
def _fetched(slug: str) -> Iterator[Path]:
    """A folder of the cache for source files, which stay where the block fails: the next build goes on from them."""
    folder = cache_root() / "sources" / slug
    make_folder(folder)
    with exclusive(folder.with_name(f"{slug}.lock")) as held:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
        held.remove()


def _sum_of(path: Path) -> str:
    """Return the SHA-256 of a source as the card has it. Raises DataError."""
    try:
        return sha256_folder(path) if path.is_dir() else sha256_unpacked(path)
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read {path}: {error}", "a folder of files only") from None


def _version_of(tool: str, card: Card) -> str:
    """The upstream version of a program as dpkg knows it. Raises DataError without the program."""
    if shutil.which(tool) is None:
        raise DataError(f"{card.name} is built with {tool}, which this machine does not have", f"apt install {tool}")
    try:
        query = ["dpkg-query", "--show", "--showformat=${source:Upstream-Version}", tool]
        return subprocess.check_output(query, stderr=subprocess.DEVNULL, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _recipe_of(slug: str) -> tuple[Card, Recipe, ModuleType]:
    listing = find(slug)
    card = listing.card
    if card is None:
        raise DataError(listing.problem)
    if card.build is None:
        hint = listing.hint or (f"it is derived from {card.derive.source}: build that" if card.derive else "")
        raise DataError(f"{card.name} cannot be built", hint or (card.homepage and f"see {card.homepage}"))
    if card.build.recipe not in _RECIPES:
        raise DataError(f"{card.name} has the unknown recipe {card.build.recipe!r}", f"known: {', '.join(_RECIPES)}")
    return card, card.build, import_module(f"{__name__}.{_RECIPES[card.build.recipe]}")
