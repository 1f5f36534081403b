"""The splits of a folder of tables: the files that are its training, its test set and its labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from xmcbench.data.sources.records import ENDINGS
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count

#: Names of files of each kind, without their endings.
TRAIN, TEST, LABELS = ("train", "trn"), ("test", "tst"), ("labels", "label")
PARTS = frozenset({*TRAIN, *TEST, *LABELS})
_OTHER = ("validation", "valid", "dev", "val")
#: The rest of the name of a shard, behind the name of its split: its number, and the total.
#: Older versions of `datasets` add 16 digits of a digest.
_SHARD = re.compile(r"-([0-9]+)(?:-of-([0-9]+)(?:-[0-9a-f]{16})?)?")


def list_tables(folder: Path, names: Iterable[str]) -> list[Path]:
    """List the tables of a folder with one of these names, in order of preference."""
    return [path for name in names for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()]


def find_splits(folder: Path, names: Iterable[str]) -> list[tuple[Path, ...]]:
    """Find what could be a split, here or in ``data``: ``train.csv``, or the shards ``train-00000-of-00002.parquet``.

    Shards of different totals are different splits. Files that only begin like one (train-small.csv) are splits where
    there is nothing else.
    """
    found: list[tuple[Path, ...]] = []
    others: list[tuple[Path, ...]] = []
    for name in names:
        for place in (folder, folder / "data"):
            found += [(path,) for path in list_tables(place, (name,))]
            for ending in ENDINGS if place.is_dir() else ():
                shards: dict[str | None, list[Path]] = {}
                for path in filter(Path.is_file, sorted(place.glob(f"{name}-*{ending}"))):
                    if shard := _SHARD.fullmatch(path.name.removesuffix(ending), len(name)):
                        shards.setdefault(shard[2] and str(int(shard[2])), []).append(path)
                    else:
                        others.append((path,))
                found += map(tuple, shards.values())
    return found or others


def note_validation(folder: Path) -> tuple[str, ...]:
    """Return a note on the validation set, if there is one."""
    unused = [path.name for files in find_splits(folder, _OTHER) for path in files]
    return (f"the validation set is not used: {', '.join(unused)}",) if unused else ()


def check_shards(files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the files of a split. Raises DataError where some of its shards are missing."""
    shards = [re.search(f"{_SHARD.pattern}$", path.name.partition(".")[0]) for path in files]
    total = int(shards[0][2]) if shards[0] and shards[0][2] else 0
    if total and len({shard and int(shard[1]) for shard in shards}) != total:
        said = f"{len(files)} of {format_count(total, 'shard')}"
        raise DataError(f"{files[0].parent} has {said} such as {files[0].name}", "get the others too")
    return files


def choose_split(folder: Path, found: Sequence[tuple[Path, ...]]) -> tuple[Path, ...]:
    """Return the files of a split, if any were found.

    Raises DataError where several could be meant, or some are missing.
    """
    if len(found) > 1:
        names = " and ".join(str(files[0].relative_to(folder)) for files in found)
        raise DataError(f"{folder} has {names}: only one of them can be read", "move the others to another folder")
    return check_shards(found[0]) if found else ()
