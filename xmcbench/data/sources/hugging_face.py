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

from xmcbench.data.sources.records import ARROW, ENDINGS, SUFFIXES
from xmcbench.data.sources.source import Place
from xmcbench.data.sources.tables import DEFAULTS, Files, Tables, splits_of, unused_splits, whole
from xmcbench.errors import DataError, Unavailable
from xmcbench.extras import installation
from xmcbench.storage.cache import cache_root, hub_home
from xmcbench.storage.reading import read_text

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PREFIX = "hf:"

#: What `save_to_disk` writes for a dataset with splits, and for each of them.
_SPLITS, _STATE = "dataset_dict.json", "state.json"

_TRAIN, _TEST = ("train",), ("test",)


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
            return any((place.path / name).is_file() for name in (_SPLITS, _STATE))
        return _hub_id(place) is not None

    def files(self) -> Files:
        found = _hub_id(self.place)
        if found is None:
            return _saved(self.place.path)
        folder = _snapshot(found, self.place.options.get("revision"))
        config = self.place.options.get("config")
        places = [folder / config] if config else [folder, folder / "default"]
        for each in places:
            parts = {name: splits_of(each, names) for name, names in (("train", _TRAIN), ("test", _TEST))}
            if any(parts.values()):
                labels = splits_of(each, ("labels",))
                # Whoever uses a dataset of the hub cannot move its files, so the first one is read.
                notes = tuple(
                    f"{other[0].relative_to(each)} is not used: {files[0].relative_to(each)} is read"
                    for files, *others in filter(None, (*parts.values(), labels))
                    for other in others
                )
                notes += unused_splits(each)
                read = {name: whole(found[0]) for name, found in parts.items() if found}
                return Files(read, whole(labels[0]) if labels else (), notes)
        below = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
        raise DataError(
            f"{found}{f', {config},' if config else ''} has no train or test file ending in {', '.join(SUFFIXES)}",
            f"name one of its folders: config={'|'.join(below)}" if below else "convert it with `datasets` first",
        )


def _hub_id(place: Place) -> str | None:
    if place.path.exists():
        return None
    found = place.given.removeprefix(_PREFIX)
    if not _ID.fullmatch(found):
        return None
    return found if place.given.startswith(_PREFIX) or cached(found) else None


def cached(name: str) -> bool:
    """Whether a dataset is in the cache of the hub."""
    return bool(_cached(name))


def _cached(name: str) -> list[Path]:
    """The folders of a dataset: what others have downloaded, and what xmcbench has."""
    hub = Path(os.environ.get("HF_HUB_CACHE") or hub_home() / "hub")
    folders = [each / f"datasets--{name.replace('/', '--')}" for each in (hub, _own())]
    return [each for each in folders if each.is_dir()]


def _own() -> Path:
    """Where datasets are downloaded to: not beside the models of the hub, which the cell of a method has to read."""
    return cache_root() / "hub"


def _saved(folder: Path) -> Files:
    """The Arrow files of the splits that have any. Raises DataError where neither train nor test does."""
    splits = _listed(folder / _SPLITS, "splits") if (folder / _SPLITS).is_file() else [""]
    found = {}
    for split in splits:
        if split in ("", *_TRAIN, *_TEST):
            files = _listed(folder / split / _STATE, "_data_files")
            if other := [name for name in files if not name.endswith(ARROW)]:
                raise DataError(f"{folder / split / _STATE} names {other[0]!r}", f"expected files ending in {ARROW}")
            if files:
                found[split or "train"] = tuple(folder / split / name for name in files)
    if not found:
        raise DataError(f"{folder} has no train or test split", "save a split with rows under one of these names")
    unused = [split for split in splits if split not in ("", *_TRAIN, *_TEST)]
    return Files(found, notes=(f"not used: {', '.join(unused)}",) if unused else ())


def _listed(path: Path, key: str) -> list[str]:
    """Names in a JSON file of `save_to_disk`: none leads out of its folder."""
    try:
        values: Any = json.loads(read_text(path))[key]
        names = [each["filename"] if isinstance(each, dict) else each for each in values]
        if not all(isinstance(name, str) and name == os.path.basename(name) and name for name in names):
            raise ValueError(f"{key} are not names")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}", "expected a folder of `save_to_disk`") from None
    return names


def _has_both(snapshot: Path) -> bool:
    """Whether training and test files are in a snapshot: somebody may have fetched one file of the dataset."""
    names = [path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.name.endswith(ENDINGS)]
    return all(any(split in name for name in names) for split in (*_TRAIN, *_TEST))


def _snapshot(name: str, revision: str | None) -> Path:
    """The folder of a dataset in the cache of the hub, downloaded if it is not there."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled
    except ImportError:
        hint = installation("huggingface-hub")
        raise Unavailable(f"{name} is no dataset here, and the hub is asked by huggingface-hub", hint) from None

    wanted = [f"*{ending}" for ending in ENDINGS]
    options: dict[str, Any] = {"repo_type": "dataset", "revision": revision, "allow_patterns": wanted}
    partial, some = False, None
    for folder in _cached(name):
        # The hub's client calls a snapshot of some of the files one too: an interrupted download leaves this.
        if any(folder.glob("blobs/*.incomplete")):
            partial = True
            continue
        with suppress(LocalEntryNotFoundError, OSError, ValueError):
            some = Path(snapshot_download(name, local_files_only=True, cache_dir=folder.parent, **options))
            if _has_both(some):
                return some
    try:
        return Path(snapshot_download(name, cache_dir=_own(), **options))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError, ValueError) as error:
        if some is not None:
            return some
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unavailable(
            f"the dataset {name} is not {'complete ' if partial else ''}in the cache of the hub, and cannot be "
            f"downloaded: {reason}",
            f"a dataset is a name, a folder, a file or an id of the hub: hf download --repo-type dataset {name}",
        ) from None
