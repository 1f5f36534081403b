"""Artifacts that the process of a cell asks for, and its parent brings: two files in a folder for each.

The process holds the claim on the artifact while it waits, so nobody else makes it meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xmcbench.storage.artifact_stores import TRAINED

_ASKED, _ANSWERED = ".asked", ".answered"
#: Seconds between two looks for the answer.
_LOOK_S = 0.01
#: An artifact, as it is named here and in records.
_NAME = re.compile(rf"({TRAINED}/[0-9a-f]{{32}}/)?[a-z0-9_-]+/[0-9a-f]{{32}}")


def is_artifact(name: str) -> bool:
    """Whether this is the name of an artifact, as ``located`` reads it, and no other path."""
    return _NAME.fullmatch(name) is not None


def asking(folder: Path) -> Callable[[str], None]:
    """What ``Artifacts`` calls before it makes one: it asks in a folder, and returns when there is an answer."""

    def ask(name: str) -> None:
        asked = folder / (name.replace("/", "~") + _ASKED)
        answered = asked.with_suffix(_ANSWERED)
        asked.touch()
        while not answered.exists():
            time.sleep(_LOOK_S)
        answered.unlink()

    return ask


def questions(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The artifacts that are asked for now, each with what is to be called when it is there, or is nowhere."""
    for asked in folder.glob(f"*{_ASKED}"):
        name = asked.stem.replace("~", "/")

        def answer(asked: Path = asked) -> None:
            asked.unlink()
            asked.with_suffix(_ANSWERED).touch()

        yield name, answer
