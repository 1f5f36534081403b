"""The package indices of a Debian release: fetched with apt, read, and written as a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xmcbench.data.recipes.debian_packages.archive import fetch_indices as fetch
from xmcbench.data.recipes.debian_packages.index import INDICES, index_digest, index_file, read_packages, write_dataset

__all__ = ["INDICES", "fetch", "index_digest", "index_file", "write"]


def write(files: Sequence[Path], out: Path) -> None:
    """Write the dataset in the XC raw layout. files: in the order of ``INDICES``. Raises DataError."""
    packages, translations = files
    write_dataset(read_packages(packages, translations), out)
