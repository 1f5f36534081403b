"""Artifacts that several cells share, such as a token store, TF-IDF features or a pre-training: made once, keyed by
content."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from xmcbench.environment import package_versions
from xmcbench.errors import DataError, StorageError
from xmcbench.storage.atomic import atomic_folder, make_folder
from xmcbench.storage.canonical import sha256_file, sha256_json
from xmcbench.storage.lock import exclusive, in_use
from xmcbench.storage.source import source_of
from xmcbench.storage.temporary import hold_folder, remove_folder, scratch_folder

#: The folder of files that artifacts share, and the size from which files are compared.
CONTENT, _SHARED_FROM = "content", 1 << 20
#: The folder of unfinished work, and the lock of a temporary folder.
UNFINISHED, TEMPORARY_LOCK = "unfinished", ".lock"


class Artifacts:
    """A store of artifact folders under one root.

    ``reused_s`` sums the seconds that artifacts taken from the store took when they were made, so that no method looks
    cheap because another one paid. ``used`` lists what was taken or made, as ``kind/hash``. Without a root the store is
    temporary and removed with the object.

    Large files with the same content are kept once: they are hard links to a file in ``content``.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.reused_s = 0.0
        self.used: list[str] = []
        self._locks: list[IO[str]] = []
        weakref.finalize(self, _release, self._locks)
        if root is None:
            held, root = scratch_folder()
            weakref.finalize(self, remove_folder, held, root)
        self.root = root

    def get(
        self, kind: str, identity: Mapping[str, object], build: Callable[[Path], None], uses: tuple[object, ...] = ()
    ) -> Path:
        """The folder of the artifact with this kind and identity; ``build`` fills it if it does not exist.

        identity: the data and the parameters that the content depends on, as JSON values: digests of texts, lengths,
        seeds. The source of ``build`` and of ``uses`` (the classes and functions that it calls), and the versions
        of the packages that they import, are added to it: an artifact of other code is never taken.

        If two processes want the same artifact, the second waits for the first. While this process runs, ``xmcbench
        clean`` keeps it. Raises StorageError if it cannot be written, DataError if the existing one is damaged.
        """
        key = _with_code(identity, build, *uses)
        folder = self.root / kind / sha256_json(key)[:32]
        lock = folder.with_suffix(".lock")
        made = False
        held = in_use(lock)
        while not (folder / "cost.json").exists():
            held.close()
            with exclusive(lock):
                if not (folder / "cost.json").exists():
                    self._make(folder, key, build)
                    made = True
            held = in_use(lock)
        self._locks.append(held)
        self.used.append(f"{kind}/{folder.name}")
        if made:
            return folder
        try:
            self.reused_s += float(json.loads((folder / "cost.json").read_text())["wall_s"])
            os.utime(folder / "cost.json")  # when it was last used
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"the artifact {folder} is damaged: {error}", "delete the folder: it will be regenerated"
            ) from error
        return folder

    def put(
        self,
        kind: str,
        identity: Mapping[str, object],
        write: Callable[[Path], None],
        wall_s: float,
        uses: tuple[object, ...] = (),
    ) -> None:
        """Keep what was made anyway, for whoever asks for it by ``get``, unless it is there.

        write: fills the folder; it stands in the module that has the ``build`` of whoever asks. wall_s: what it cost.
        Raises StorageError when it cannot be written.
        """
        key = _with_code(identity, write, *uses)
        folder = self.root / kind / sha256_json(key)[:32]
        with exclusive(folder.with_suffix(".lock")):
            if not (folder / "cost.json").exists():
                self._make(folder, key, write, wall_s)
        self.used.append(f"{kind}/{folder.name}")

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A temporary folder, removed when the block ends. Raises StorageError."""
        make_folder(self.root)
        try:
            held, folder = hold_folder(self.root, ".")
        except OSError as error:
            raise StorageError.from_os_error(error, self.root) from error
        try:
            with closing(in_use(folder / TEMPORARY_LOCK)):
                yield folder
        finally:
            remove_folder(held, folder)

    def unfinished(self, kind: str, identity: Mapping[str, object], *uses: object) -> Path:
        """The folder of unfinished work on an artifact, for a build that can continue after it was killed.

        The folder belongs to this identity and to the source of ``uses``: work of other code is never continued. It is
        not created here; while this process runs, ``xmcbench clean`` keeps it. Raises StorageError.
        """
        folder = self.root / UNFINISHED / f"{kind}-{sha256_json(_with_code(identity, *uses))[:32]}"
        self._locks.append(in_use(folder.with_suffix(".lock")))
        return folder

    def _make(
        self, folder: Path, key: Mapping[str, object], build: Callable[[Path], None], wall_s: float | None = None
    ) -> None:
        already_reused, start = self.reused_s, time.perf_counter()
        with atomic_folder(folder) as temporary:
            build(temporary)
            # The cost of an artifact includes that of the artifacts it was made from.
            own_s = time.perf_counter() - start + self.reused_s - already_reused
            cost = {"wall_s": own_s if wall_s is None else wall_s, "identity": dict(key)}
            for file in [path for path in temporary.rglob("*") if path.is_file()]:
                self._keep_once(file)
            (temporary / "cost.json").write_text(json.dumps(cost, indent=1, sort_keys=True) + "\n")

    def _keep_once(self, file: Path) -> None:
        """Replace a large file with a link to another one of the same content, if there is one."""
        if file.stat().st_size < _SHARED_FROM:
            return
        known = self.root / CONTENT / sha256_file(file)
        link = file.with_name(f".{file.name}.link")
        try:
            known.parent.mkdir(exist_ok=True)
            if not known.exists():
                os.link(file, known)
            else:
                os.link(known, link)
                os.replace(link, file)
        except OSError:
            link.unlink(missing_ok=True)  # a file system without hard links: the file stays as it is


def _release(locks: list[IO[str]]) -> None:
    for lock in locks:
        lock.close()


def _with_code(identity: Mapping[str, object], *uses: object) -> dict[str, object]:
    code = source_of(*uses)
    return {**identity, "source": code.digest, "packages": package_versions(code.packages)}
