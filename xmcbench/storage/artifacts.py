"""Artifacts that several cells share, such as a token store, TF-IDF features or a pre-training: made once, keyed by
content."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from xmcbench.environment import package_versions
from xmcbench.errors import StorageError
from xmcbench.storage import artifact_store
from xmcbench.storage.artifact_store import COST, UNFINISHED, check_kind, find_damage, name_artifact, read_cost
from xmcbench.storage.atomic import atomic_folder, writing
from xmcbench.storage.canonical import canonical_json, sha256_json
from xmcbench.storage.locks import CLAIM, Claim, hold_shared
from xmcbench.storage.source import source_of
from xmcbench.storage.temporary import folder_in, make_scratch, remove_folder

#: Seconds between two looks at what another process makes: a tenth of the wait so far, within these bounds.
_LOOK_S, _RARE_S, _SHARE = 0.1, 5.0, 0.1


class _TakenOver(Exception):
    """Another machine makes the artifact, because this process stopped touching its claim."""


class Artifacts:
    """A store of artifact folders under one root.

    ``reused_s`` sums the seconds that artifacts taken from the store took when they were made, so that no method looks
    cheap because another one paid. ``used`` lists the artifacts that were taken or made, as ``kind/hash``. Without a
    root the store is temporary and removed with the object.

    Large files with the same content are kept once: they are hard links to a file in ``content``. Every cell can read
    what is below the root. Rankings, temporary files, and checkpoints of trainings that become no artifact, in which
    pairs or other methods had a part, therefore go to the folder of the training.

    supplier: called with the name of an artifact before it is made; it may put the folder there from elsewhere.
    single_use: the digest of texts that nobody else asks about; artifacts of them are removed with the object. check:
    called before an artifact that was made is kept; an exception keeps it out of the store. own: the folder of the
    training; the root without one. parts: those of the methods that this one uses, by name.
    """

    def __init__(
        self,
        root: Path | None = None,
        supplier: Callable[[str], None] | None = None,
        single_use: str = "",
        check: Callable[[], None] | None = None,
        own: Path | None = None,
        parts: Mapping[str, Path] | None = None,
    ) -> None:
        self.reused_s, self._waited_s = 0.0, 0.0
        self.used: list[str] = []
        self._locks = ExitStack()
        weakref.finalize(self, self._locks.close)
        if root is None:
            root = make_scratch()
            weakref.finalize(self, remove_folder, root)
        self.root, self._supplier, self._single_use, self._check = root, supplier, single_use, check
        self._own, self._parts = own or root, parts or {}
        # The store for temporary files and checkpoints: that of the artifact that is being made.
        self._store = self._own
        self._temporary: Artifacts | None = None

    def get(
        self,
        kind: str,
        identity: Mapping[str, object],
        build: Callable[[Path], None],
        uses: tuple[object, ...] = (),
        own: bool = False,
    ) -> Path:
        """Return the folder of the artifact with this kind and identity; ``build`` fills it if it does not exist.

        identity: the data and the parameters that the content depends on, as JSON values. The source of ``build`` and
        of ``uses`` (the classes and functions that it calls), and the versions of the packages that they import, are
        added to it: an artifact of other code is never taken. own: keep it in the folder of the training, out of the
        reach of other cells.

        If two processes want the same artifact, the second waits for the first. While this process runs, ``xmcbench
        clean`` keeps it. A damaged artifact is made again, with a message on stderr. Raises StorageError, and
        ValueError for a kind that cannot name a folder.
        """
        if self._is_single_use(identity):
            self._temporary = self._temporary or Artifacts()
            return self._temporary.get(kind, identity, build, uses)
        key = _with_code(identity, build, *uses)
        folder = self._folder(kind, key, own)
        made, waited_before = False, self._waited_s
        lock = hold_shared(folder.with_suffix(".lock"))
        try:
            while (cost := read_cost(folder)) is None:
                if made:
                    damage = find_damage(folder)
                    raise StorageError(f"the artifact {folder} is damaged right after it was made: {damage}")
                made = self._make(folder, key, build, waited_s=self._waited_s - waited_before)
        except BaseException:
            lock.close()
            raise
        self._locks.enter_context(lock)
        self.used.append(name_artifact(folder, self.root))
        if not made:
            # While it waited, this process has spent that time itself.
            self.reused_s += max(0.0, cost.wall_s - (self._waited_s - waited_before))
            with suppress(OSError):  # a store of somebody else
                os.utime(folder / COST)  # the time of its last use
        return folder

    def put(
        self,
        kind: str,
        identity: Mapping[str, object],
        write: Callable[[Path], None],
        wall_s: float,
        uses: tuple[object, ...] = (),
        own: bool = False,
    ) -> None:
        """Keep a result that was made anyway, for later calls of ``get``; another one that is there gives way to it.

        write: fills the folder; it stands in the module of the ``build`` that ``get`` is called with. wall_s: its cost.
        Raises StorageError.
        """
        if self._is_single_use(identity):
            return
        key = _with_code(identity, write, *uses)
        folder = self._folder(kind, key, own)
        with closing(hold_shared(folder.with_suffix(".lock"))):
            there = read_cost(folder)
            if there is not None:
                with writing(folder), folder_in(folder.parent) as made:
                    write(made)
                    if artifact_store.digest_files(made) != there.files:
                        artifact_store.discard(folder)
                        there = None
            if there is None:
                self._make(folder, key, write, wall_s)
        self.used.append(name_artifact(folder, self.root))

    @contextmanager
    def of_part(self, name: str) -> Iterator[None]:
        """Work in the folder of a part for a block; without one, in that of the method that it is a part of."""
        own = self._own
        self._own = self._parts.get(name, own)
        try:
            with self._working_in(self._own):
                yield
        finally:
            self._own = own

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A temporary folder, removed when the block ends. Raises StorageError."""
        with folder_in(self._store) as folder, closing(hold_shared(folder / artifact_store.TEMPORARY_LOCK)):
            yield folder

    def unfinished(self, kind: str, identity: Mapping[str, object], *uses: object) -> Path:
        """Return the folder of unfinished work on an artifact, for a build that can continue after it was killed.

        The folder belongs to this identity and to the source of ``uses``: work of other code is never continued. It is
        not created here; while this process runs, ``xmcbench clean`` keeps it. Raises StorageError.
        """
        check_kind(kind)
        folder = self._store / UNFINISHED / f"{kind}-{sha256_json(_with_code(identity, *uses))[:32]}"
        self._locks.enter_context(hold_shared(folder.with_suffix(".lock")))
        return folder

    def _folder(self, kind: str, key: Mapping[str, object], own: bool) -> Path:
        check_kind(kind)
        return (self._own if own else self.root) / kind / sha256_json(key)[:32]

    def _is_single_use(self, identity: Mapping[str, object]) -> bool:
        return bool(self._single_use) and self._single_use in canonical_json(identity)

    def _make(
        self,
        folder: Path,
        key: Mapping[str, object],
        build: Callable[[Path], None],
        wall_s: float | None = None,
        waited_s: float = 0.0,
    ) -> bool:
        """Make an artifact that is missing or damaged; return False if another process has made it, or makes it.

        waited_s: how long this process has waited for the other one, which is then given some more time.
        """
        # ``build`` may hold the interpreter, and with it the thread that touches the claim.
        with Claim(folder.with_suffix(CLAIM), while_alive=True) as claim:
            if not claim.held:
                start = time.perf_counter()
                time.sleep(min(_RARE_S, max(_LOOK_S, _SHARE * waited_s)))
                self._waited_s += time.perf_counter() - start
                return False
            if read_cost(folder) is not None:
                return False
            artifact_store.discard_damaged(folder)
            if self._supplier is not None:
                self._supplier(name_artifact(folder, self.root))
                if read_cost(folder) is not None:
                    return False
            already_reused, start = self.reused_s, time.perf_counter()
            with suppress(_TakenOver), atomic_folder(folder) as temporary:
                with self._working_in(folder.parents[1]):
                    build(temporary)
                if self._check is not None:
                    self._check()
                if not claim.is_ours():
                    raise _TakenOver
                # The cost of an artifact includes that of the artifacts it was made from.
                own_s = time.perf_counter() - start + self.reused_s - already_reused
                files = artifact_store.digest_files(temporary)
                if folder.parents[1] == self.root:
                    for name, written in files.items():
                        artifact_store.share_file(temporary / name, written, self.root / artifact_store.CONTENT)
                artifact_store.write_cost(temporary, own_s if wall_s is None else wall_s, key, files)
                return True
        return False

    @contextmanager
    def _working_in(self, store: Path) -> Iterator[None]:
        before, self._store = self._store, store
        try:
            yield
        finally:
            self._store = before


def _with_code(identity: Mapping[str, object], *uses: object) -> dict[str, object]:
    code = source_of(*uses)
    return {**identity, "source": code.digest, "packages": package_versions(code.packages)}
