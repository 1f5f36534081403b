"""Sources that are known to give equal results: ``equivalent.json``, lists of sources by method.

A source is added when canaries, or reruns of whole cells, gave the stored results again (``xmcbench confirm``). Records
themselves never change. The lists ``ranks`` and ``metrics`` are about the code that makes ranks from
predictions and figures from ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from xmcbench.errors import StorageError
from xmcbench.storage.atomic import write_json
from xmcbench.storage.locations import find_shipped
from xmcbench.storage.reading import read_bytes

#: The file, in a runs folder and in the leaderboard.
FILE = "equivalent.json"
#: The names under which the sources are listed that make ranks from predictions, and figures from ranks.
RANKS, METRICS = "ranks", "metrics"

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Evidence(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A source, and the evidence that it gives the same results as the first one of its list.

    source: SHA-256 of the code; None for ranks from before their source was recorded. kind: ``first`` of the list, or
    compared by ``canaries`` or ``reruns``. processor: where they ran. outcome: how equal the results are.
    """

    source: Sha256 | None
    kind: Literal["first", "canaries", "reruns"]
    date: str
    processor: str
    outcome: str = ""


#: Method -> lists of sources, those of one list with equal results.
Equivalence = Mapping[str, tuple[tuple[Evidence, ...], ...]]


def read_equivalence(*folders: Path) -> Equivalence:
    """Return the equal sources of the leaderboard that comes with xmcbench, and of other folders.

    Raises StorageError for a damaged file.
    """
    board = find_shipped("leaderboards")
    found: dict[str, tuple[tuple[Evidence, ...], ...]] = {}
    for folder in dict.fromkeys(path.resolve() for path in (*([board] if board else []), *folders)):
        for name, lists in read_file(folder / FILE).items():
            found[name] = (*found.get(name, ()), *lists)
    return found


def read_file(path: Path) -> Equivalence:
    """Return the lists of one file; none where there is no file. Raises StorageError for a damaged one."""
    try:
        return msgspec.json.decode(read_bytes(path), type=dict[str, tuple[tuple[Evidence, ...], ...]])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {error}", "restore the file") from error


def write_file(path: Path, equivalence: Equivalence) -> None:
    """Write the lists of a file, by name. Raises StorageError."""
    write_json(path, {name: msgspec.to_builtins(equivalence[name]) for name in sorted(equivalence)})


def equal_sources(equivalence: Equivalence, name: str, source: str) -> set[str | None]:
    """Return a source, and all that are listed with it."""
    listed = [{evidence.source for evidence in one} for one in equivalence.get(name, ())]
    return {source}.union(*(sources for sources in listed if source in sources))


def with_evidence(equivalence: Equivalence, name: str, before: str | None, evidence: Evidence) -> Equivalence:
    """Return the lists with one more source, in the list of an earlier one, or in a list that these two begin."""
    lists = [*equivalence.get(name, ())]
    if not any(entry.source == before for listed in lists for entry in listed):
        lists.append((Evidence(source=before, kind="first", date=evidence.date, processor=evidence.processor),))
    for place, listed in enumerate(lists):
        if before in [entry.source for entry in listed]:
            lists[place] = (*(entry for entry in listed if entry.source != evidence.source), evidence)
    return {**equivalence, name: tuple(lists)}
