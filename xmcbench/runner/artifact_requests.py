"""Artifacts that the process of a cell requests and its parent supplies, by two files in a folder for each request.

The process holds the claim on the artifact while it waits, so no other process makes it meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xmcbench.storage.artifact_store import TRAINED

_REQUESTED, _DONE = ".requested", ".done"
#: Seconds between two polls for the answer.
_POLL_S = 0.01
#: The name of an artifact, here and in records.
_NAME = re.compile(rf"({TRAINED}/[0-9a-f]{{32}}/)?[a-z0-9_-]+/[0-9a-f]{{32}}")


def is_artifact(name: str) -> bool:
    """Return whether this is the name of an artifact, as ``locate`` reads it, and no other path."""
    return _NAME.fullmatch(name) is not None


def request_artifact(folder: Path, name: str) -> None:
    """Request an artifact in a folder; return when the request was processed, with or without success."""
    requested = folder / (name.replace("/", "~") + _REQUESTED)
    done = requested.with_suffix(_DONE)
    requested.touch()
    while not done.exists():
        time.sleep(_POLL_S)
    done.unlink()


def find_requests(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each requested artifact, and a function to be called when the request was processed."""
    for requested in folder.glob(f"*{_REQUESTED}"):

        def finish(requested: Path = requested) -> None:
            requested.unlink()
            requested.with_suffix(_DONE).touch()

        yield requested.stem.replace("~", "/"), finish
