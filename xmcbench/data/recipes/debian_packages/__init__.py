"""The package indices of a Debian release: fetched with apt, read, and written as a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xmcbench.data.card import Recipe
from xmcbench.data.recipes.debian_packages.archive import fetch_indices as fetch
from xmcbench.data.recipes.debian_packages.index import (
    RELATIONS,
    index_digest,
    index_file,
    indices,
    read_packages,
    write_dataset,
)
from xmcbench.data.recipes.debian_packages.next_release import write_new_packages

__all__ = ["fetch", "index_digest", "index_file", "indices", "write"]


def write(recipe: Recipe, files: Sequence[Path], out: Path) -> None:
    """Write the dataset in the XC raw layout. files: in the order of ``indices``. Raises DataError."""
    releases = [
        read_packages(packages, translations, recipe.relations or RELATIONS, recipe.language or "en")
        for packages, translations in zip(files[::2], files[1::2], strict=True)
    ]
    if recipe.next_release:
        before, after = releases
        write_new_packages(before, after, out)
    else:
        write_dataset(releases[0], out)
