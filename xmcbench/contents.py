"""Identity of parameters that name a file, a folder or a model: its content, not its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.storage.fingerprint import fingerprint, fingerprint_folder

if TYPE_CHECKING:
    from xmcbench.method import Method


def contents(method: Method) -> dict[str, str]:
    """Return parameter -> identity of its content, for the parameters that name a file, a folder, or a model.

    The identity is ``sha256:<hex>``, or a model of a hub with its revision. A path without a file keeps its name: the
    method reports it. Raises DataError for a file that cannot be read, and what ``inputs`` raises.
    """
    found = {name: _identity(value) for name, value in method.inputs().items()}
    return {name: identity for name, identity in found.items() if identity}


def identity_values(method: Method) -> dict[str, Any]:
    """Return all parameters of a method, with the content of what they name. Raises what ``contents`` raises."""
    return {**method.parameters(), **contents(method)}


def _identity(value: Path | str) -> str:
    if isinstance(value, str):
        return value
    path = value.expanduser()
    if path.is_dir():
        return f"sha256:{fingerprint_folder(path)}"
    return f"sha256:{fingerprint(path)}" if path.exists() else ""
