"""Names of datasets and methods, which are parts of paths in every runs folder."""

from __future__ import annotations

#: Bytes of a name in UTF-8: file systems allow 255, and a seed, a key and a suffix are added to it.
_LONGEST = 120


def check_name(what: str, name: str) -> None:
    """Raise ValueError for a name that cannot name a file, or that nobody could read. what: the thing with the name."""
    shown = ascii(name) if len(name) <= _LONGEST else f"{name[:40]!a}..."
    shown = f"{what} is {shown}, which"
    if not name.strip(". "):
        raise ValueError(f"{shown} is not a valid file name: it has no letter")
    if name != name.strip():
        raise ValueError(f"{shown} is not a valid file name: it begins or ends with a space")
    if {*name} & {*"/\\"}:
        raise ValueError(f"{shown} is not a valid file name: it has a slash or a backslash")
    if not name.isprintable():  # control characters, invisible ones, and spaces other than " "
        raise ValueError(f"{shown} is not a valid file name: it has characters that cannot be seen")
    if len(name.encode()) > _LONGEST:
        raise ValueError(f"{shown} is not a valid file name: it is longer than {_LONGEST} bytes")
