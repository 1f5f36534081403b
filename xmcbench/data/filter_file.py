"""The pairs that a filter removes, kept in the cache beside their digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.store import kept
from xmcbench.errors import DataError
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.pairs import pairs_digest, write_pairs
from xmcbench.storage.reading import read_text

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def filter_store(path: Path, rows: int, columns: int) -> Path:
    from xmcbench.data.xc_matrix import read_filter

    def fill(folder: Path) -> None:
        pairs = read_filter(path, rows, columns)
        keep_filter(folder / "pairs.npz", pairs)

    return kept("filter", {"sha256": fingerprint(path), "rows": rows, "columns": columns}, fill) / "pairs.npz"


def keep_filter(path: Path, pairs: csr_matrix) -> None:
    """Write the pairs of a filter, and their digest beside them."""
    write_pairs(path, pairs.indptr, pairs.indices)
    path.with_suffix(".sha256").write_text(pairs_digest(pairs.indptr, pairs.indices))


def filter_digest(path: Path) -> str:
    try:
        return read_text(path.with_suffix(".sha256"))
    except (OSError, ValueError) as error:
        hint = "delete its folder: it will be regenerated"
        raise DataError(f"cannot read the filter {path}: {error}", hint) from None
