"""Artifacts that several cells share, such as a token store, TF-IDF features or a pre-training: made once, keyed by
content."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from xmcbench.environment import package_versions
from xmcbench.errors import StorageError
from xmcbench.output.escaping import visible
from xmcbench.output.quantities import counted
from xmcbench.processes.claim import CLAIM, Claim, sweep_claims
from xmcbench.processes.temporary_name import becomes, unused_name
from xmcbench.storage.atomic import atomic_folder
from xmcbench.storage.canonical import canonical_json, sha256_file, sha256_json
from xmcbench.storage.lock import exclusive, in_use
from xmcbench.storage.naming import check_name
from xmcbench.storage.reading import read_bytes
from xmcbench.storage.source import source_of
from xmcbench.storage.sums import Sum, damage, sums_of
from xmcbench.storage.temporary import folder_in, remove_folder, scratch_folder, sweep

#: The folder of what cells share below a runs folder, and that of trainings, each in a folder by its key.
SHARED, TRAINED = "artifacts", "trained"
#: The folder of files that artifacts share, and the size from which files are compared.
CONTENT, _SHARED_FROM = "content", 1 << 20
#: The folder of unfinished work, and the lock of a temporary folder.
UNFINISHED, TEMPORARY_LOCK = "unfinished", ".lock"
#: Seconds between two looks at what another process makes: a tenth of what the wait has taken, within these bounds.
_LOOK_S, _RARE_S, _SHARE = 0.1, 5.0, 0.1
#: What is noted of an artifact. It is written last: a folder without it is not an artifact.
COST = "cost.json"
#: The paths of artifacts, which claims on them have too.
_CLAIMED = re.compile("[^/]+/[0-9a-f]{32}")
#: The names of artifacts and trainings, of unfinished work on them, and of files that artifacts share.
_HASH, _WORK, _SUM = re.compile("[0-9a-f]{32}"), re.compile(".+-[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


class _TakenOver(Exception):
    """Another machine makes the artifact, because this process stopped touching its claim."""


class Cost(Struct, frozen=True, forbid_unknown_fields=True):
    """What an artifact cost, what it was made from, and the sums of its files. sha256: of all that, as JSON."""

    wall_s: float
    identity: dict[str, Any]
    files: dict[str, Sum]
    sha256: str = ""

    @property
    def seal(self) -> str:
        """SHA-256 (hex) of the other fields."""
        return sha256_json(msgspec.to_builtins(msgspec.structs.replace(self, sha256="")))


class Artifacts:
    """A store of artifact folders under one root.

    ``reused_s`` sums the seconds that artifacts taken from the store took when they were made, so that no method looks
    cheap because another one paid. ``used`` lists what was taken or made, as ``kind/hash``. Without a root the store is
    temporary and removed with the object.

    Large files with the same content are kept once: they are hard links to a file in ``content``.

    What pairs or other methods had a part in does not belong below the root, which every cell can read. It goes to the
    folder of the training: rankings, temporary files, and checkpoints of trainings that become no artifact.

    supplier: called with the name of an artifact before it is made; it may put the folder there from elsewhere.
    single_use: the digest of texts that nobody else asks about; what is made of them is removed with the object.
    check: called before an artifact that was made is kept; what it raises keeps it out of the store. own: the folder of
    the training; the root without one. parts: those of the methods that this one uses, by name.
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
        self._locks: list[IO[str]] = []
        weakref.finalize(self, _release, self._locks)
        if root is None:
            held, root = scratch_folder()
            weakref.finalize(self, remove_folder, held, root)
        self.root, self._supplier, self._single_use, self._check = root, supplier, single_use, check
        self._own, self._parts = own or root, parts or {}
        # Where temporary files and checkpoints go: beside what is being made.
        self._place = self._own
        self._temporary: Artifacts | None = None

    def get(
        self,
        kind: str,
        identity: Mapping[str, object],
        build: Callable[[Path], None],
        uses: tuple[object, ...] = (),
        own: bool = False,
    ) -> Path:
        """The folder of the artifact with this kind and identity; ``build`` fills it if it does not exist.

        identity: the data and the parameters that the content depends on, as JSON values: digests of texts, lengths,
        seeds. The source of ``build`` and of ``uses`` (the classes and functions that it calls), and the versions
        of the packages that they import, are added to it: an artifact of other code is never taken. own: whether it
        goes to the folder of the training, out of the reach of other cells.

        If two processes want the same artifact, the second waits for the first. While this process runs, ``xmcbench
        clean`` keeps it. A damaged artifact is made again, with a message on stderr. Raises StorageError if it cannot
        be read or written, ValueError for a kind that cannot name a folder.
        """
        if self._is_single_use(identity):
            self._temporary = self._temporary or Artifacts()
            return self._temporary.get(kind, identity, build, uses)
        key = _with_code(identity, build, *uses)
        folder = self._folder(kind, key, own)
        lock = folder.with_suffix(".lock")
        made, waited_before = False, self._waited_s
        held = in_use(lock)
        try:
            while (cost := _noted(folder)) is None:
                if made:
                    raise StorageError(f"the artifact {folder} is damaged right after it was made: {_problem(folder)}")
                made = self._make(folder, key, build, waited_s=self._waited_s - waited_before)
        except BaseException:
            held.close()
            raise
        self._locks.append(held)
        self.used.append(self._name(folder))
        if not made:
            # While it waited, this process has spent that time itself.
            self.reused_s += max(0.0, cost.wall_s - (self._waited_s - waited_before))
            with suppress(OSError):  # a store that others own
                os.utime(folder / COST)  # when it was last used
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
        """Keep what was made anyway, for whoever asks for it by ``get``, unless it is there.

        write: fills the folder; it stands in the module that has the ``build`` of whoever asks. wall_s: what it cost.
        own: as in ``get``. Raises StorageError when it cannot be written.
        """
        if self._is_single_use(identity):
            return
        key = _with_code(identity, write, *uses)
        folder = self._folder(kind, key, own)
        if _noted(folder) is None:
            with closing(in_use(folder.with_suffix(".lock"))):
                self._make(folder, key, write, wall_s)
        self.used.append(self._name(folder))

    @contextmanager
    def of_part(self, name: str) -> Iterator[None]:
        """Work in the folder of a part for a block; without one, in that of the method that it is a part of."""
        before = self._own, self._place
        self._own = self._place = self._parts.get(name, self._own)
        try:
            yield
        finally:
            self._own, self._place = before

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A temporary folder, removed when the block ends. Raises StorageError."""
        with folder_in(self._place) as folder, closing(in_use(folder / TEMPORARY_LOCK)):
            yield folder

    def unfinished(self, kind: str, identity: Mapping[str, object], *uses: object) -> Path:
        """The folder of unfinished work on an artifact, for a build that can continue after it was killed.

        The folder belongs to this identity and to the source of ``uses``: work of other code is never continued. It is
        not created here; while this process runs, ``xmcbench clean`` keeps it. Raises StorageError.
        """
        _check_kind(kind)
        folder = self._place / UNFINISHED / f"{kind}-{sha256_json(_with_code(identity, *uses))[:32]}"
        self._locks.append(in_use(folder.with_suffix(".lock")))
        return folder

    def _folder(self, kind: str, key: Mapping[str, object], own: bool) -> Path:
        _check_kind(kind)
        return (self._own if own else self.root) / kind / sha256_json(key)[:32]

    def _name(self, folder: Path) -> str:
        """The name of an artifact: what ``located`` finds it by."""
        name = f"{folder.parent.name}/{folder.name}"
        return name if folder.parents[1] == self.root else f"{TRAINED}/{folder.parents[1].name}/{name}"

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
        """Make an artifact that is missing or damaged; False if somebody else has made it, or makes it.

        waited_s: how long this process has waited for somebody else, who is then given some more time.
        """
        # What runs in ``build`` may keep the thread that touches the claim waiting.
        with Claim(folder.with_suffix(CLAIM), while_alive=True) as claim:
            if not claim.held:
                start = time.perf_counter()
                time.sleep(min(_RARE_S, max(_LOOK_S, _SHARE * waited_s)))
                self._waited_s += time.perf_counter() - start
                return False
            if _noted(folder) is not None:
                return False
            _take_away(folder)
            if self._supplier is not None:
                self._supplier(self._name(folder))
                if _noted(folder) is not None:
                    return False
            already_reused, start = self.reused_s, time.perf_counter()
            with suppress(_TakenOver), atomic_folder(folder) as temporary:
                with self._working_in(folder.parents[1]):
                    build(temporary)
                if self._check is not None:
                    self._check()
                if not claim.mine():
                    raise _TakenOver
                # The cost of an artifact includes that of the artifacts it was made from.
                own_s = time.perf_counter() - start + self.reused_s - already_reused
                files = sums_of(temporary)
                for name, each in files.items():
                    self._keep_once(temporary / name, each)
                cost = Cost(own_s if wall_s is None else wall_s, dict(key), files)
                noted = msgspec.to_builtins(msgspec.structs.replace(cost, sha256=cost.seal))
                (temporary / COST).write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n")
                return True
        return False

    @contextmanager
    def _working_in(self, place: Path) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def _keep_once(self, file: Path, noted: Sum) -> None:
        """Replace a large file with a link to another one of the same content, if there is one."""
        if noted.size < _SHARED_FROM or not file.is_relative_to(self.root):
            return
        known = self.root / CONTENT / noted.sha256
        link = file.with_name(f".{file.name}.link")
        try:
            known.parent.mkdir(exist_ok=True)
            if known.exists() and sha256_file(known) != noted.sha256:
                known.unlink()  # damaged since: artifacts that have it are made again when they are asked for
            if not known.exists():
                os.link(file, known)
            else:
                os.link(known, link)
                os.replace(link, file)
        except OSError:
            link.unlink(missing_ok=True)  # a file system without hard links: the file stays as it is


def located(folder: Path, name: str) -> Path:
    """The artifact of this name below a runs folder."""
    return folder / name if name.startswith(f"{TRAINED}/") else folder / SHARED / name


def stores(folder: Path) -> list[Path]:
    """The folders of artifacts below a runs folder: the shared one, and those of trainings."""
    with suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(filter(_HASH.fullmatch, os.listdir(folder / TRAINED)))
        return [folder / SHARED, *(folder / TRAINED / name for name in names)]
    return [folder / SHARED]


def sweep_stores(folder: Path) -> None:
    """Remove what processes that were killed left half made below a runs folder, and their claims."""
    shared, *trainings = stores(folder)
    for root in (shared, *filter(_is_unsettled, trainings)):
        sweep_artifacts(root)
    _remove_shared_rankings(shared)


def _is_unsettled(training: Path) -> bool:
    """Whether a folder holds more than artifacts and locks: there may be thousands, so that most get a look only."""
    with suppress(OSError), os.scandir(training) as kinds:
        return any(
            kind.name.startswith(".")
            or not all(name.endswith(".lock") or _HASH.fullmatch(name) for name in os.listdir(kind))
            for kind in kinds
        )
    return False


def _remove_shared_rankings(root: Path) -> None:
    """Remove rankings of earlier versions, which kept them where every cell can read them."""
    if found := [*root.glob("ranking/*/ranking.npz")]:
        said = f"removed {counted(len(found), 'ranking')} of an earlier version"
        print(f"xmcbench: {said} from {root}, where every cell could read them", file=sys.stderr)
        for file in found:
            shutil.rmtree(file.parent, ignore_errors=True)
        shutil.rmtree(root / CONTENT, ignore_errors=True)  # it may have links to the same files


def sweep_artifacts(root: Path) -> None:
    """Remove what processes that were killed left half made in the store at ``root``, and their claims."""
    sweep(root, depth=1)
    sweep_claims(root, "*/*", _CLAIMED, while_alive=True)
    for folder in filter(_is_work, (root / UNFINISHED).glob("*/")):
        with suppress(StorageError), exclusive(folder.with_suffix(".lock"), wait=False) as lock:
            for file in folder.glob(".*.tmp") if lock.held else ():
                file.unlink(missing_ok=True)  # a checkpoint that was being written


def _check_kind(kind: str) -> None:
    """Raise ValueError for a kind that cannot name a folder, or that names one which the store has for other things."""
    check_name("the kind of an artifact", kind)
    if kind.startswith(".") or kind in (UNFINISHED, CONTENT, TRAINED):
        raise ValueError(f"the kind of an artifact is {kind!r}, a name that the store uses itself")


def folders(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """Every folder that the store at ``root`` has made: its kind, its path, and the lock that its users hold.

    The kind of one that is not an artifact is ``unfinished``. Others may keep files below ``root`` too: what has none
    of our names is left out.
    """
    for folder in sorted(root.glob("*/")):
        if becomes(folder.name) == "":
            yield UNFINISHED, folder, folder / TEMPORARY_LOCK
    for folder in sorted(root.glob("*/*/")):
        kind, target = folder.parent.name, becomes(folder.name)
        if kind.startswith("."):
            continue
        if _is_work(folder) or (_HASH.fullmatch(folder.name) and (folder / COST).exists()):
            yield kind, folder, folder.with_suffix(".lock")
        elif target and _HASH.fullmatch(target):
            yield UNFINISHED, folder, folder.with_name(f"{target}.lock")


def forget_content(root: Path) -> None:
    """Remove the shared files of the store at ``root`` that no artifact links to anymore. Raises StorageError."""
    for file in (root / CONTENT).glob("*"):
        try:
            if _SUM.fullmatch(file.name) and file.stat().st_nlink == 1:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError.from_os_error(error, file) from error


def examine(root: Path) -> Iterator[tuple[Path, str]]:
    """Every artifact in the store at ``root`` with what is wrong with it: empty where all its bytes are as written."""
    for noted in sorted(root.glob(f"*/*/{COST}")):
        folder = noted.parent
        if not folder.name.startswith(".") and folder.parent.name != UNFINISHED:
            yield folder, _problem(folder, full=True)


def _is_work(folder: Path) -> bool:
    return folder.parent.name == UNFINISHED and _WORK.fullmatch(folder.name) is not None


def _noted(folder: Path) -> Cost | None:
    """What is noted of an artifact; None where there is none, or a damaged one."""
    return None if not (folder / COST).exists() or _problem(folder) else _read_cost(folder)


def _take_away(folder: Path) -> None:
    """Remove a damaged artifact, with a message on stderr. Raises StorageError."""
    if not (folder / COST).exists():
        return
    problem = _problem(folder)
    print(f"xmcbench: {folder} is damaged and will be regenerated: {visible(problem)}", file=sys.stderr)
    aside = folder.with_name(unused_name(folder.name))  # swept if we are killed
    try:
        os.replace(folder, aside)  # whoever uses it keeps the files that it has open
    except OSError as error:
        raise StorageError(
            f"the artifact {folder} is damaged: {problem}", f"it cannot be removed ({error}): delete it"
        ) from error
    shutil.rmtree(aside, ignore_errors=True)


def _problem(folder: Path, *, full: bool = False) -> str:
    try:
        cost = _read_cost(folder)
        if cost.seal != cost.sha256:
            return f"{COST} has changed"
        return damage(folder, cost.files, full=full)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return str(error)


def _read_cost(folder: Path) -> Cost:
    return msgspec.json.decode(read_bytes(folder / COST), type=Cost)


def _release(locks: list[IO[str]]) -> None:
    for lock in locks:
        lock.close()


def _with_code(identity: Mapping[str, object], *uses: object) -> dict[str, object]:
    code = source_of(*uses)
    return {**identity, "source": code.digest, "packages": package_versions(code.packages)}
