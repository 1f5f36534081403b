"""Check what this machine has and what is missing, with the command that installs it.

xmcbench doctor --deep --runs DIR   also read all that is kept in the cache and in a runs folder, and compare digests
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.command import flags, request
from xmcbench.errors import StorageError, UsageError
from xmcbench.output.layout import fill
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.records import Record, Store, Truth

#: Values that the hub's client takes for true.
_ON = ("1", "ON", "YES", "TRUE")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench doctor``."""
    flags.add(parser, "plugin", "json")
    flags.switch(parser, "deep", "read every file of the cache and of --runs")
    flags.path(parser, "runs", "DIR", "for --deep (default: ./runs, if it exists)")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if something is broken, 0 if at most something optional is missing."""
    from xmcbench import environment
    from xmcbench.data import known_datasets
    from xmcbench.records import Store
    from xmcbench.runner.rows import status
    from xmcbench.storage.locations import cache_root

    if arguments.runs is not None:
        if not arguments.deep:
            raise UsageError("--runs names what --deep reads", "add --deep")
        Store(arguments.runs).check_exists()
    cache, entries, datasets = cache_root(), list(request.registry(arguments.plugin)), known_datasets()
    methods = {entry.name: status(entry) for entry in entries}
    broken = [f"method {entry.name} ({entry.origin}): {entry.problem}" for entry in entries if entry.problem]
    broken += [f"dataset {dataset.slug}: {dataset.problem}" for dataset in datasets if dataset.card is None]
    if not _writable(cache):
        broken.append(f"the cache {cache} is not writable: set XMCBENCH_CACHE to a folder that is")
    if arguments.deep:
        broken += _find_damage(cache, arguments.runs or Path("runs"))
    examination = {
        "machine": msgspec.structs.asdict(environment.hardware()),
        "packages": environment.packages(),
        "methods": methods,
        "datasets": {dataset.slug: dataset.problem or "ok" for dataset in datasets},
        "cache": {"folder": str(cache), "free_gib": _free_gib(cache)},
        "hub": "offline" if os.environ.get("HF_HUB_OFFLINE", "").upper() in _ON else "online, if reachable",
        "broken": broken,
    }
    if arguments.json:
        print(json.dumps(examination, indent=1, sort_keys=True))
        return 1 if broken else 0
    for title, facts in examination.items():
        if isinstance(facts, dict):
            print(title)
            for name, fact in facts.items():
                print(fill(f"  {name:24}{_format(fact)}", hang=24))
        elif title != "broken":
            print(f"{title}\n  {facts}")
    print(fill("\n".join(["broken", *(f"  {line}" for line in broken)])) if broken else "nothing is broken")
    if missing := [name for name, found in methods.items() if found.startswith("missing")]:
        print(fill(f"{format_count(len(missing), 'method')} cannot run: {', '.join(missing)} (see methods above)"))
    return 1 if broken else 0


def _format(fact: object) -> str:
    if isinstance(fact, tuple):
        return ", ".join(map(str, fact))
    return "unknown" if fact is None else str(fact)


def _find_damage(cache: Path, runs: Path) -> Iterator[str]:
    """Yield a line with the path for all that is damaged. Raises StorageError for an unreadable folder."""
    from xmcbench.records import Store, Truth
    from xmcbench.storage.artifact_store import examine, list_stores
    from xmcbench.storage.locations import cluster_cache

    if runs.is_dir():
        store, truths = Store(runs), dict[Path, Truth | None]()
        records = store.records()
        yield from map(str, store.left_out.values())
        for record in records:
            yield from _find_damage_of(record, store, truths)
    folders = (cache, *list_stores(cluster_cache()), *(list_stores(runs) if runs.is_dir() else ()))
    for folder, problem in chain.from_iterable(map(examine, folders)):
        if problem:
            yield f"{folder}: {problem}; it will be regenerated when needed"


def _find_damage_of(record: Record, store: Store, truths: dict[Path, Truth | None]) -> Iterator[str]:
    """truths: by file, those that were read before; None for one that could not be read, which is said once."""
    from xmcbench.storage.canonical import sha256_file

    path = store.predictions_path(record.cell)
    try:
        if record.ranks is not None:
            file = store.truth_path(record.cell.dataset, record.ranks.truth_sha256)
            if file not in truths:
                truths[file] = None
                truths[file] = store.truth(record)
            truth = truths[file]
            if truth is not None:
                store.ranks(record, truth)
        if record.predictions is not None and path.exists() and sha256_file(path) != record.predictions.sha256:
            yield f"{path}: checksum mismatch; figures follow from the ranks, the predictions are lost"
    except StorageError as error:
        yield str(error)
    except (OSError, ValueError) as error:
        yield f"{path}: {error}"


def _nearest(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _free_gib(folder: Path) -> float | None:
    try:
        return round(shutil.disk_usage(_nearest(folder.absolute())).free / 2**30, 1)
    except OSError:
        return None


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=_nearest(folder.absolute())):
            return True
    except OSError:
        return False
