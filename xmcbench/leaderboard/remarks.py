"""Remarks: text written by hand for a page, in ``remarks/<name of the page>.md`` beside the records."""

from __future__ import annotations

from pathlib import Path

from xmcbench.errors import StorageError
from xmcbench.storage.reading import read_text


def read_remarks(folder: Path) -> dict[str, str]:
    """Name of a page -> its remark, unchanged; empty if there is no such folder. Raises StorageError."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        try:
            text = read_text(path).strip("\n")
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read the remark {path}: {error}") from error
        if text:
            found[path.stem] = text
    return found
