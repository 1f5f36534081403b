"""Canonical forms and their SHA-256: the identity of datasets, subsets, cells, sources and files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from xmcbench.storage.reading import open_regular

#: Made once: a board asks for thousands of texts.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: object) -> str:
    """Return JSON with sorted keys, no spaces and no NaN: equal values have equal text."""
    return _ENCODER.encode(value)


def sha256_json(value: object) -> str:
    """Return the SHA-256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes. Raises OSError, and Unreadable for anything but a regular file."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_folder(folder: Path) -> str:
    """Return the SHA-256 (hex) of the output of ``LC_ALL=C sha256sum *`` in a folder of files only. Raises OSError."""
    lines = (f"{sha256_file(path)}  {path.name}\n" for path in sorted(folder.iterdir(), key=lambda path: path.name))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
