"""Runs folders that somebody sends: a folder, an archive of one, or the address of an archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from xmcbench.data.archives import Patience, download, unpack
from xmcbench.errors import UsageError
from xmcbench.storage.reading import ARRAYS
from xmcbench.storage.temporary import scratch

_URLS = ("https://", "http://")


@contextmanager
def runs_folders(sources: Sequence[str], patience: Patience | None = None) -> Iterator[list[Path]]:
    """The runs folders of sources, for a block: folders in place, archives and downloads in a scratch folder.

    An archive is what ``data.archives`` unpacks, at most 2 GiB, which ``--max-unpacked`` raises; it holds a runs
    folder, or one folder that is one. Raises UsageError for a source that holds no records, DataError for a download or
    an archive that cannot be read.
    """
    with scratch() as temporary:
        yield [_folder(source, temporary / str(number), patience) for number, source in enumerate(sources)]


def _folder(source: str, place: Path, patience: Patience | None) -> Path:
    path = Path(source)
    if source.startswith(_URLS):
        path = download(source, place / "archive", patience=patience, limit=ARRAYS)
    if path.is_file():
        unpack(path, place / "unpacked", ARRAYS)
        path = place / "unpacked"
    return _runs(path, source)


def _runs(folder: Path, source: str) -> Path:
    """The folder, or the only one in it, that holds records. Raises UsageError."""
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []
    for path in (folder, *(inside if len(inside) == 1 else [])):
        if (path / "records").is_dir() and any((path / "records").rglob("*.json*")):
            return path
    raise UsageError(f"there are no records in {source}", "a runs folder is what `xmcbench run --runs` wrote")
