"""Names of temporary files beside their targets: by them a sweep tells ours from those of other programs."""

from __future__ import annotations

import os
import re

from xmcbench.environment import machine_tag

#: What such a file or folder will be called, if anything, and the tag of the machine that made it.
BESIDE = re.compile(r"\.(?:(?P<target>.*)\.)?(?P<machine>[0-9a-f]{6})-[a-z0-9_]{8}\.tmp")


def unused_name(target: str = "") -> str:
    """A name that no other file has, for what will be called ``target``, if anything.

    The file is not held: a sweep removes it while it is in use, unless it is locked.
    """
    return tagged(f".{target}{'.' if target else ''}")


def tagged(prefix: str) -> str:
    """A name that no other file has, with the tag of this machine."""
    return f"{prefix}{machine_tag()}-{os.urandom(4).hex()}.tmp"


def becomes(name: str) -> str | None:
    """What the file or folder of this temporary name will be called: empty if nothing, None if it is not temporary."""
    found = BESIDE.fullmatch(name)
    return found and (found["target"] or "")
