"""Datasets of Hugging Face: a folder that ``save_to_disk`` wrote, or a dataset of the hub by its id.

The `datasets` package is not needed, and no code of a dataset is run: Arrow and Parquet files are read as they are.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from xmcbench.data.sources.columns import DEFAULTS
from xmcbench.data.sources.records import ARROW, ENDINGS, SUFFIXES
from xmcbench.data.sources.source import Place
from xmcbench.data.sources.splits import check_shards, find_splits, note_validation
from xmcbench.data.sources.tables import Files, Tables
from xmcbench.errors import DataError, Unavailable
from xmcbench.extras import installation
from xmcbench.storage.locations import cache_root, hub_home, read_path
from xmcbench.storage.reading import read_text

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PREFIX = "hf:"
#: The files that `save_to_disk` writes for a dataset with splits, and for a split.
_DICT, _STATE = "dataset_dict.json", "state.json"

_SPLITS = ("train", "test")


class HuggingFace(Tables):
    """``hf:OWNER/NAME``, ``OWNER/NAME`` if that is in the cache of the hub, or a folder of ``save_to_disk``.

    Of the hub, the Parquet, CSV and JSON Lines files of a dataset are taken from the cache of huggingface_hub, or
    downloaded into it unless $HF_HUB_OFFLINE is set. config: the folder of a configuration.
    """

    name = "huggingface"
    title = "Hugging Face: hf:OWNER/NAME, or a folder written by save_to_disk"
    options = frozenset({*DEFAULTS, "separator", "config", "revision"})

    @classmethod
    def recognize(cls, place: Place) -> bool:
        if place.path.is_dir():
            return any((place.path / name).is_file() for name in (_DICT, _STATE))
        return _hub_id(place) is not None

    def files(self) -> Files:
        name = _hub_id(self.place)
        if name is None:
            return _find_saved(self.place.path)
        root = _snapshot(name, self.place.options.get("revision"))
        config = self.place.options.get("config")
        for folder in (root / config,) if config else (root, root / "default"):
            parts = {split: found for split in _SPLITS if (found := find_splits(folder, (split,)))}
            if parts:
                labels = find_splits(folder, ("labels",))
                # Whoever uses a dataset of the hub cannot move its files, so the first one is read.
                notes = tuple(
                    f"{other[0].relative_to(folder)} is not used: {files[0].relative_to(folder)} is read"
                    for files, *others in filter(None, (*parts.values(), labels))
                    for other in others
                )
                read = {split: check_shards(found[0]) for split, found in parts.items()}
                return Files(read, check_shards(labels[0]) if labels else (), notes + note_validation(folder))
        below = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
        what = f"{name}{f', {config},' if config else ''} has no train or test file ending in {', '.join(SUFFIXES)}"
        hint = f"name one of its folders: config={'|'.join(below)}" if below else "convert it with `datasets` first"
        raise DataError(what, hint)


def _hub_id(place: Place) -> str | None:
    name = place.given.removeprefix(_PREFIX)
    if place.path.exists() or not _ID.fullmatch(name):
        return None
    return name if place.given.startswith(_PREFIX) or _cache_folders(name) else None


def _cache_folders(name: str) -> list[Path]:
    """The folders of a dataset: in the cache of the hub, and in that of xmcbench."""
    roots = (read_path("HF_HUB_CACHE") or hub_home() / "hub", cache_root() / "hub")
    return [folder for root in roots if (folder := root / f"datasets--{name.replace('/', '--')}").is_dir()]


def _find_saved(folder: Path) -> Files:
    """The Arrow files of the splits that have any. Raises DataError where neither train nor test does."""
    splits = _read_names(folder / _DICT, "splits") if (folder / _DICT).is_file() else [""]
    found = {}
    for split in splits:
        if split in ("", *_SPLITS):
            files = _read_names(folder / split / _STATE, "_data_files")
            if other := [name for name in files if not name.endswith(ARROW)]:
                raise DataError(f"{folder / split / _STATE} names {other[0]!r}", f"expected files ending in {ARROW}")
            if files:
                found[split or "train"] = tuple(folder / split / name for name in files)
    if not found:
        raise DataError(f"{folder} has no train or test split", "save a split with rows under one of these names")
    unused = [split for split in splits if split not in ("", *_SPLITS)]
    return Files(found, notes=(f"not used: {', '.join(unused)}",) if unused else ())


def _read_names(path: Path, key: str) -> list[str]:
    """Read names in a JSON file of `save_to_disk`: none leads out of its folder."""
    try:
        values: Any = json.loads(read_text(path))[key]
        names = [value["filename"] if isinstance(value, dict) else value for value in values]
        if not all(isinstance(name, str) and name == os.path.basename(name) and name for name in names):
            raise ValueError(f"{key} are not names")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}", "expected a folder of `save_to_disk`") from None
    return names


def _snapshot(name: str, revision: str | None) -> Path:
    """The folder of a dataset in the cache of the hub, downloaded if it is not there."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled
    except ImportError:
        hint = installation("huggingface-hub")
        raise Unavailable(f"{name} is no dataset here, and the hub is asked by huggingface-hub", hint) from None

    patterns = [f"*{ending}" for ending in ENDINGS]
    options: dict[str, Any] = {"repo_type": "dataset", "revision": revision, "allow_patterns": patterns}
    is_partial, some = False, None
    for folder in _cache_folders(name):
        # The hub's client calls a snapshot of some of the files one too: an interrupted download leaves this.
        if any(folder.glob("blobs/*.incomplete")):
            is_partial = True
            continue
        with suppress(LocalEntryNotFoundError, OSError, ValueError):
            some = Path(snapshot_download(name, local_files_only=True, cache_dir=folder.parent, **options))
            # Somebody may have fetched one file of the dataset.
            files = (path for path in some.rglob("*") if path.name.endswith(ENDINGS))
            names = [path.relative_to(some).as_posix() for path in files]
            if all(any(split in name for name in names) for split in _SPLITS):
                return some
    try:
        # Not beside the models of the hub, which the cell of a method has to read.
        return Path(snapshot_download(name, cache_dir=cache_root() / "hub", **options))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError, ValueError) as error:
        if some is not None:
            return some
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = f"the dataset {name} is not {'complete ' if is_partial else ''}in the cache of the hub"
        hint = f"a dataset is a name, a folder, a file or an id of the hub: hf download --repo-type dataset {name}"
        raise Unavailable(f"{what}, and cannot be downloaded: {reason}", hint) from None
