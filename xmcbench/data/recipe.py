"""Building a dataset from its source, as the [build] section of its card says."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec

from xmcbench.data import recipes
from xmcbench.data.card import Card, Recipe, write_card
from xmcbench.data.catalog import find, roots
from xmcbench.data.output import check_free, output_folder
from xmcbench.data.verification import count
from xmcbench.errors import DataError, UsageError
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.temporary import scratch


@dataclass(frozen=True)
class Built:
    """A dataset that was built: its folder, its card, and whether its files match the previous card."""

    folder: Path
    card: Card
    as_pinned: bool


def build(
    slug: str,
    out: Path | None = None,
    indices: Path | None = None,
    allow_other_release: bool = False,
    force: bool = False,
) -> Built:
    """Build the dataset ``slug`` into ``out`` (default: the folder of its card), over an earlier build.

    indices: a folder with the source indices; without it they are fetched. force: replace files of the same names that
    an earlier build did not write; others stay in any case. Raises UsageError for a folder with other files, DataError
    if the dataset has no recipe, or if the indices are damaged or, without ``allow_other_release``, not those of the
    release on the card.
    """
    card, recipe, source_format = _recipe_of(slug)
    if allow_other_release and out is None:
        raise UsageError("another release is another dataset", "give it a folder: --out FOLDER")
    target = out or _home(card)
    check_free(target, force, rebuild=True)
    with scratch() as temporary:
        source = indices or temporary
        if indices is None:
            source_format.fetch(recipe, source)
        names = source_format.indices(recipe)
        files = [source_format.index_file(source, name) for name in names]
        digests = dict(zip(names, map(source_format.index_digest, files), strict=True))
        other = [name for name in digests if digests[name] != recipe.indices.get(name)]
        if other and not allow_other_release:
            raise DataError(
                f"{' and '.join(other)} in {source} are not those of {card.release or recipe.release}",
                "their SHA-256 differs from the card's; use --other-release to build another dataset",
            )
        with output_folder(target, force, rebuild=True) as folder:
            source_format.write(recipe, files, folder)
            written = sorted(path.name for path in folder.iterdir())
            made = msgspec.structs.replace(
                card,
                counts=count(folder),
                files={name: sha256_file(folder / name) for name in written},
                release=f"other than {card.release}" if other else card.release,
                build=msgspec.structs.replace(recipe, indices=digests),
            )
            write_card(folder / "card.toml", made)
    return Built(target, made, made.files == dict(card.files))


def fetch(slug: str, out: Path) -> list[Path]:
    """Fetch the source that ``slug`` is built from into the folder ``out``; returns the files.

    Raises DataError, saying where to get it, for a dataset that cannot be fetched.
    """
    _, recipe, source_format = _recipe_of(slug)
    files: list[Path] = source_format.fetch(recipe, out)
    return files


def _recipe_of(slug: str) -> tuple[Card, Recipe, ModuleType]:
    listing = find(slug)
    card = listing.card
    if card is None:
        raise DataError(listing.problem)
    if card.build is None:
        hint = listing.hint or (f"it is derived from {card.derive.source}: build that" if card.derive else "")
        raise DataError(f"{card.name} cannot be built", hint or (card.homepage and f"see {card.homepage}"))
    known = {module.name.replace("_", "-"): module.name for module in pkgutil.iter_modules(recipes.__path__)}
    if card.build.recipe not in known:
        raise DataError(f"{card.name} has the unknown recipe {card.build.recipe!r}", f"known: {', '.join(known)}")
    return card, card.build, import_module(f"{recipes.__name__}.{known[card.build.recipe]}")


def _home(card: Card) -> Path:
    homes = [root / card.slug for root in roots() if (root / card.slug / "card.toml").is_file()]
    if not homes:
        raise UsageError(f"{card.name} has no folder here", "give one: --out FOLDER")
    return homes[0]
