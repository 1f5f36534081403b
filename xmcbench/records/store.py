"""The records of a runs folder, and the files that come with them: reading, and writing whole or not at all."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from xmcbench.errors import DataError, StorageError, UsageError, XmcbenchError
from xmcbench.records.layout import OF_CELL, Layout
from xmcbench.records.packed import LINES, Line, read_lines
from xmcbench.records.ranks import Ranks, Truth
from xmcbench.records.record import Cell, RanksFacts, Record
from xmcbench.records.record_json import DamagedRecord, as_json, check_readable, read_record, seal
from xmcbench.setting import Setting, Subset
from xmcbench.storage.arrays import read_pattern
from xmcbench.storage.artifact_store import sweep_stores
from xmcbench.storage.atomic import make_folder, on_disk_of, write_json, writing
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.locks import hold_shared, sweep_claims
from xmcbench.storage.temporary import folder_in, sweep, temporary_path

#: The hint for a folder that holds no results.
NO_RUNS = "--runs is the folder that `xmcbench run` wrote"


class Store(Layout):
    """The runs folder at ``root``, created on the first write.

    left_out: file -> why ``records`` could not read it. Commands that show records report it.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.left_out: dict[Path, StorageError] = {}
        self._lines: dict[Path, tuple[tuple[int, int, int], list[Line]]] = {}

    def check_exists(self) -> None:
        """Raise UsageError if there is no such folder."""
        if not self.root.is_dir():
            raise UsageError(f"no runs folder at {self.root}", NO_RUNS)

    def check_writable(self) -> None:
        """Make the folder if it is missing. Raises StorageError, naming it, where nothing can be written into it."""
        if self.root.exists() and not self.root.is_dir():
            raise StorageError(f"{self.root} is not a folder", "choose another place for results")
        with self.staging():
            pass

    @contextmanager
    def noting_left_out(self) -> Iterator[None]:
        """Add to an error that is raised inside what ``records`` could not read: the record asked for may be there."""
        try:
            yield
        except XmcbenchError as error:
            for damage in self.left_out.values():
                error.add_note(f"left out: {damage}")
            raise

    def sweep(self) -> None:
        """Remove what runs that were killed left half written, and their claims; what is being written stays."""
        sweep(self.root)
        for name in ("records", "ranks", "predictions", "subsets", "logs"):
            sweep(self.root / name, depth=2)
        sweep_claims(self.root / "logs", "*/*/*", OF_CELL)
        sweep(self.root / "truth")
        sweep_stores(self.root)

    @contextmanager
    def subset(self, dataset: str, subset: Subset | None) -> Iterator[Path | None]:
        """The file of a subset's pairs, written if missing; inside the block ``xmcbench clean`` keeps it."""
        if subset is None:
            yield None
            return
        path = self.root / "subsets" / dataset / f"{subset.name}-{subset.digest[:12]}.npz"
        with closing(hold_shared(path.with_suffix(".lock"))):
            try:
                is_there = read_pattern(path, subset.pattern.columns).digest == subset.digest
            except DataError:  # missing or damaged
                is_there = False
            if not is_there:
                subset.save(path)
            yield path

    @contextmanager
    def staging(self) -> Iterator[Store]:
        """A store for the result of one cell until ``write`` takes it over; gone when the block ends.

        Raises StorageError when it cannot be made.
        """
        with folder_in(self.root) as folder:
            yield Store(folder)

    def stagings(self) -> list[Path]:
        """The folders of all results that are not taken over yet."""
        return sorted(self.root.glob(".*.tmp"))

    def find(self, cell: Cell) -> Record | None:
        """The cell's record, or None. A file of its own takes precedence over a packed record.

        Raises StorageError for a file that cannot be read, or that holds the record of another cell.
        """
        # In this order: packing writes the line, then removes the file.
        path = self.record_path(cell)
        record = _read(path)
        if record is None:
            return self._find_packed(cell)
        self.check_place(path, record)
        return record

    def find_intact(self, cell: Cell) -> Record | None:
        """The cell's record; None where it is damaged too, because then it has no result that could be lost."""
        try:
            return self.find(cell)
        except DamagedRecord:
            return self._find_packed(cell)

    def _find_packed(self, cell: Cell) -> Record | None:
        records = (line.record for line in self.read_packed(self.lines_path(cell)))
        return next((record for record in records if isinstance(record, Record) and record.key == cell.key), None)

    def read_packed(self, path: Path) -> list[Line]:
        """The lines of a packed file, which is read once unless it changes. Raises StorageError."""
        try:
            state = path.stat()
        except OSError:
            return read_lines(path)
        version = (state.st_mtime_ns, state.st_size, state.st_ino)
        if self._lines.get(path, (None, []))[0] != version:
            self._lines[path] = version, read_lines(path)
        return self._lines[path][1]

    def is_packed(self) -> bool:
        """Return whether it is a board: whether there are packed records."""
        return any((self.root / "records").glob(f"*/*{LINES}"))

    def write(self, record: Record, staged: Store | None = None) -> Record:
        """Write the cell's record, whole or not at all, and return it with its checksum.

        staged: the store that has its predictions and ranks, which come along. Raises StorageError, for a record that
        could not be read back too.

        A record with a result is only replaced by another one with a result: one that failed or ran out of time is
        returned, and the earlier result stays.
        """
        try:
            check_readable(record)
        except ValueError as error:
            raise StorageError(f"the record of {record.name} cannot be written: {error}") from error
        written = seal(record)
        if written.finished and staged is not None:
            self._take_over(written, staged)
        elif written.finished or not self._has_result(record.cell):
            write_json(self.record_path(record.cell), as_json(written))
        return written

    def _take_over(self, record: Record, staged: Store) -> None:
        cell = record.cell
        write_json(staged.record_path(cell), as_json(record))  # a full disk is found before anything is replaced
        predictions = self.predictions_path(cell)
        moved: list[tuple[Path, Path]] = []
        if record.ranks is not None:
            moved += [(staged.ranks_path(cell), self.ranks_path(cell))]
            truth = record.ranks.truth_sha256
            if not self._has_truth(cell.dataset, truth):
                moved += [(staged.truth_path(cell.dataset, truth), self.truth_path(cell.dataset, truth))]
        moved += [(staged.record_path(cell), self.record_path(cell)), (staged.predictions_path(cell), predictions)]
        for _, target in moved:
            make_folder(target.parent)
        try:
            with ExitStack() as stack:
                # Folders may be on other disks, which may be full: all files are there before any is replaced.
                near = [(stack.enter_context(on_disk_of(target, source)), target) for source, target in moved]
                # A process killed between the moves leaves a cell that runs again, or a record without predictions: a
                # packed one stays until the new one is there. Never is one beside the predictions of another.
                for path in (self.record_path(cell), predictions, self.ranks_path(cell)):
                    stack.enter_context(_aside(path))
                try:
                    for file, target in near:
                        with writing(target):
                            os.replace(file, target)
                except BaseException:  # Ctrl-C too
                    for path in (self.record_path(cell), predictions, self.ranks_path(cell)):
                        with suppress(OSError):
                            path.unlink()  # the new one
                    raise
        except OSError as error:
            raise StorageError.from_os_error(error, self.root) from error

    def _has_truth(self, dataset: str, digest: str) -> bool:
        try:
            return Truth.load(self.truth_path(dataset, digest)).digest == digest
        except StorageError:
            return False  # missing or damaged

    def _has_result(self, cell: Cell) -> bool:
        earlier = self.find_intact(cell)
        return earlier is not None and earlier.finished

    def has_predictions(self, record: Record) -> bool:
        """Return whether the predictions of a record are here, unchanged."""
        path = self.predictions_path(record.cell)
        try:
            return record.predictions is not None and sha256_file(path) == record.predictions.sha256
        except (OSError, ValueError):
            return False

    def record_files(self, suffix: str = ".json") -> list[Path]:
        """The files of all records that have their own, by name, or those with packed records, by their suffix.

        Raises StorageError for an unreadable folder.
        """

        def refuse(error: OSError) -> None:
            reason = error.strerror or error
            raise StorageError(f"cannot read the folder {error.filename}: {reason}", "its records would be left out")

        folder = self.root / "records"
        if not folder.exists():
            return []
        found, seen = [], set()
        for parent, below, names in os.walk(folder, onerror=refuse, followlinks=True):
            state = os.stat(parent)
            if (state.st_dev, state.st_ino) in seen:  # a link to a folder above, or to one that was read
                below.clear()
                continue
            seen.add((state.st_dev, state.st_ino))
            found += [Path(parent, name) for name in names if name.endswith(suffix)]
        return sorted(found)

    def records(self, dataset: str | None = None, setting: Setting | None = None) -> list[Record]:
        """Every record, in the order of the file names; one that is damaged or misplaced goes to ``left_out``.

        dataset, setting: only its records, by its name in any case; no others are read. Raises StorageError for a
        folder that cannot be read.
        """
        found, self.left_out = [], {}
        for place, record in self.entries(dataset, setting):
            try:
                if isinstance(record, StorageError):
                    raise record
                self.check_place(place, record)
                found.append(record)
            except StorageError as error:
                self.left_out[place] = error
        return sorted(found, key=lambda record: record.cell.path)

    def entries(
        self, dataset: str | None = None, setting: Setting | None = None
    ) -> list[tuple[Path, Record | StorageError]]:
        """Every record, or the error that it could not be read, with its place: its file, or a packed file and a line.

        dataset, setting: as for ``records``. Raises StorageError for a folder that cannot be read.
        """

        def is_asked(path: Path) -> bool:
            of_dataset, of_setting = path.relative_to(self.root / "records").parts[:2]
            named = setting is None or of_setting.removesuffix(LINES) == setting.slug
            return named and (dataset is None or dataset.casefold() == of_dataset.casefold())

        found: list[tuple[Path, Record | StorageError]] = []
        own = set[Path]()
        with _without_garbage_collection():
            for path in filter(is_asked, self.record_files()):
                try:
                    record = _read(path)
                except StorageError as error:
                    found.append((path, error))
                    continue
                if record is not None:  # else it was removed meanwhile
                    own.add(path)
                    found.append((path, record))
            # After the files: a record that is packed meanwhile is not missed.
            for path in filter(is_asked, self.record_files(LINES)):
                try:
                    lines = self.read_packed(path)
                except StorageError as error:
                    found.append((path, error))
                    continue
                for line in lines:
                    if isinstance(line.record, StorageError) or self.record_path(line.record.cell) not in own:
                        found.append((line.place, line.record))
        return found

    def check_place(self, path: Path, record: Record) -> None:
        """Raise StorageError for a file that is not where the record belongs that it holds."""
        place = self.record_path(record.cell)
        if path.suffix == place.suffix and path != place:
            raise StorageError(f"{path} holds a record that belongs at {place}", "is it a copy? move or delete it")

    def dataset_named(self, name: str) -> str | None:
        """The dataset that has the records of this name, as its first one spells it; None if there are none."""
        folder = self.root / "records" / name.lower()
        for path in sorted(folder.glob("*/*.json")):
            with suppress(StorageError):
                return read_record(path).cell.dataset
        for path in sorted(folder.glob(f"*{LINES}")):
            with suppress(StorageError):
                for line in self.read_packed(path):
                    if isinstance(line.record, Record):
                        return line.record.cell.dataset
        return None

    def truth(self, record: Record) -> Truth:
        """The true pairs that a record was scored against. Raises StorageError if they are missing or different."""
        digest = self._facts(record).truth_sha256
        path = self.truth_path(record.cell.dataset, digest)
        truth = Truth.load(path)
        if truth.digest != digest:
            raise StorageError(f"{path}: checksum mismatch", "restore the file or run the cell again")
        return truth

    def ranks(self, record: Record, truth: Truth) -> Ranks:
        """The ranks of a record. Raises StorageError if they are missing or not those of the record."""
        path, packed = self.ranks_path(record.cell), self.archive_path(record.cell)
        if path.exists() or not packed.exists():
            try:
                return self.ranks_in(record, truth, path)
            except StorageError:
                if not packed.exists():
                    raise
        # A run that was killed leaves ranks of its own without their record, beside a packed one.
        return self.ranks_in(record, truth, packed, path.name)

    def _facts(self, record: Record) -> RanksFacts:
        if record.ranks is None:
            raise StorageError(f"{self.record_path(record.cell)} has no ranks", "run the cell again with --force")
        return record.ranks

    def ranks_in(self, record: Record, truth: Truth, path: Path, member: str = "") -> Ranks:
        """The ranks of a record in a file, or in a member of an archive. Raises StorageError as ``ranks`` does."""
        digest = self._facts(record).sha256
        ranks = Ranks.load(path, len(truth.pairs.labels), len(truth.frequency), member)
        if ranks.digest != digest:
            raise StorageError(
                f"{path / member}: checksum mismatch", "restore the file or run the cell again with --force"
            )
        return ranks


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep the collector from walking over thousands of new records again and again, which takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _aside(path: Path) -> Iterator[None]:
    """Move a file out of its place for the block, and back if the block puts no other one there."""
    if not path.is_file():
        yield
        return
    kept = temporary_path(path)
    os.replace(path, kept)
    try:
        yield
    finally:
        if path.exists():
            with suppress(OSError):
                kept.unlink()
        else:
            os.replace(kept, path)


def _read(path: Path) -> Record | None:
    """A record; None where there is none. Raises what ``read_record`` raises."""
    try:
        return read_record(path)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise
