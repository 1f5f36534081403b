"""Records that others send: a folder, an archive of one, or its address; and their admission to a board.

A record is let in if it can be read, follows from its predictions (``runner.audit``), is not called like another
method, and if every page and table that it is part of can be made. What is refused is refused by name, and the others
go in.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from xmcbench.data import load_dataset
from xmcbench.data.archives import download, unpack
from xmcbench.data.card import is_limited
from xmcbench.data.catalog import is_name
from xmcbench.errors import DataError, StorageError, UsageError, XmcbenchError
from xmcbench.leaderboard.consistency import latest
from xmcbench.leaderboard.files import Format, files
from xmcbench.leaderboard.pages import pages
from xmcbench.output.escaping import skeleton, terminal
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record, Store
from xmcbench.records.packing import pack
from xmcbench.runner.audit import audit
from xmcbench.runner.scorer import Scorer
from xmcbench.storage.atomic import copy
from xmcbench.storage.reading import ARRAYS
from xmcbench.storage.temporary import scratch

_URLS = ("https://", "http://")
#: Letters of a text that stands on a page.
_LONGEST = 200


@dataclass(frozen=True)
class Candidate:
    """A record that was sent: its file, the runs folder that it lies in, and what its dataset is loaded by.

    there: whether the board has the result: this record, or its own one with the same predictions, which stays.
    """

    path: Path
    record: Record
    sent: Store
    source: str
    there: bool


@dataclass
class Admission:
    """The records of runs folders, sorted: ``accepted``; ``refused`` (file -> why); ``unfinished``, which hold no
    result."""

    accepted: list[Candidate] = field(default_factory=list)
    refused: dict[Path, XmcbenchError] = field(default_factory=dict)
    unfinished: dict[Path, str] = field(default_factory=dict)


def examine(
    roots: Iterable[Path],
    board: Store,
    registry: Registry,
    scorer: Scorer,
    datasets: Mapping[str, str],
    *,
    force: bool = False,
) -> Admission:
    """Sort the records of runs folders. Nothing is written.

    datasets: name -> name or folder that it is loaded by, where that is not its name. force: let in another record of
    a cell that the board has. Raises StorageError for folders that cannot be read, and where the board itself cannot
    be shown.
    """
    found, loaded = Admission(), {}
    sent_before: dict[str, Path] = {}
    here = board.records()
    registered = {entry.name: entry.title for entry in registry if entry.description}
    titles = {record.cell.method: record.method.title for record in here} | registered
    for root in roots:
        sent = Store(root)
        for path, record in sent.entries():
            try:
                if isinstance(record, StorageError):
                    raise record
                if not record.ok:
                    found.unfinished[path] = f"{record.status}: {record.reason}"
                    continue
                name = record.cell.dataset
                if is_limited(name):
                    raise StorageError("it is of --limit, on some documents of a dataset", "a board takes whole ones")
                source = datasets.get(name, name)
                if name not in loaded:
                    if name not in datasets and not is_name(name):  # a place could be any on this machine
                        said = f"there is no dataset {terminal(name)} here"
                        raise StorageError(said, "name its place: --dataset PLACE")
                    loaded[name] = load_dataset(source)
                _check_texts(record)
                if record.cell.method not in registered:  # the audit knows what those are called
                    _check_names(record, titles)
                audit(record, sent, loaded[name], source, registry, scorer)
                there = _find_there(record, board, force)
                if twin := sent_before.get(record.key):
                    raise StorageError(f"{twin} is a record of the same cell", "send only one of them")
                sent_before[record.key] = path
            except XmcbenchError as error:
                found.refused[path] = error
                continue
            titles.setdefault(record.cell.method, record.method.title)
            found.accepted.append(Candidate(path, there or record, sent, source, there is not None))
    taken = {candidate.record.key for candidate in found.accepted}
    others = [record for record in here if record.cell.dataset in loaded and record.key not in taken]
    # A board leaves records of earlier versions out.
    kept, _ = latest([*others, *(candidate.record for candidate in found.accepted)])
    keys = {record.key for record in kept}
    shown = [record for record in others if record.key in keys]
    if problem := _unshowable(shown):
        raise StorageError(f"the records of {board.root} cannot be shown: {problem}", "fix them first")
    found.accepted = _showable(found.accepted, shown, found.refused)
    return found


def add(accepted: Sequence[Candidate], board: Store, scorer: Scorer) -> None:
    """Copy records with their predictions to the board, and write their ranks there; then pack records and ranks.

    Raises StorageError where something cannot be written, and for a cell that a run holds there.
    """
    for candidate in accepted:
        record, cell = candidate.record, candidate.record.cell
        assert record.predictions is not None
        with board.claim(cell) as claim, board.staging() as staged:
            if not claim.held:
                raise StorageError(f"{board.place(cell)}: a run holds this cell", "wait until it has ended")
            copy(candidate.sent.predictions_path(cell), staged.predictions_path(cell))
            scorer.score(cell, staged.root, candidate.source, record.predictions.depth)  # writes the ranks
            board.write(record, staged)
    pack(board)


def _check_texts(record: Record) -> None:
    """Raise StorageError for a text that does not fit into a line of a table."""
    machine = record.environment.hardware
    texts = {
        "title": record.method.title,
        "variant": record.method.variant,
        "processor": machine.processor,
        "operating system": machine.system,
        **{f"accelerator {number}": name for number, name in enumerate(machine.accelerators, 1)},
    }
    for what, text in texts.items():
        if text != " ".join(text.split()) or not text.isprintable() or len(text) > _LONGEST:
            raise StorageError(
                f"its {what} is {text[:_LONGEST]!a}",
                f"use one line of at most {_LONGEST} visible characters, with single spaces",
            )


def _check_names(record: Record, titles: Mapping[str, str]) -> None:
    """Raise StorageError for a method whose name or title looks like that of another one. titles: method -> title."""

    def plain(name: str) -> str:
        return skeleton(name.partition("(")[0])  # a title without the variant in parentheses

    if not plain(record.method.title):
        raise StorageError(f"its title {record.method.title!r} has no letter or digit")
    for method, title in titles.items():
        for what, own, other in (("name", record.cell.method, method), ("title", record.method.title, title)):
            if method != record.cell.method and plain(own) == plain(other):
                raise StorageError(
                    f"its method's {what} {own!r} looks like that of {method}: {other!r}", "choose another"
                )


def _find_there(record: Record, board: Store, force: bool) -> Record | None:
    """Return the board's record of the cell if its result is the same one. Raises StorageError if it is another one,
    without ``force``."""
    here = board.find_intact(record.cell)
    if here is None or not here.finished or here.predictions is None or record.predictions is None:
        return None
    # Figures follow from predictions, as the audit has found; times may differ.
    if here == record or (here.predictions.sha256 == record.predictions.sha256 and not force):
        return here
    if force:
        return None
    said = f"{board.place(record.cell)} already holds another record of this cell, with other predictions"
    raise StorageError(f"{said}, from {here.measured.started}", "--force replaces it")


def _showable(
    candidates: Sequence[Candidate], shown: Sequence[Record], refused: dict[Path, XmcbenchError]
) -> list[Candidate]:
    """Return the candidates that can be shown together with those before them; the others are refused."""
    if not _unshowable([*shown, *(candidate.record for candidate in candidates)]):
        return [*candidates]
    kept: list[Candidate] = []
    for candidate in candidates:
        problem = _unshowable([*shown, *(other.record for other in kept), candidate.record])
        if problem:
            refused[candidate.path] = StorageError(f"it cannot be shown: {problem}")
        else:
            kept.append(candidate)
    return kept


def _unshowable(records: Sequence[Record]) -> str:
    """Return why the board of these records cannot be made in some format; empty if it can."""
    try:
        made = pages(records)
        for layout in get_args(Format):
            for name, content in files(made, layout).items():
                content.encode()
                if name.endswith(".svg"):
                    ET.fromstring(content)
    except Exception as error:  # whatever a value that nobody thought of does to the code of a table or a drawing
        return str(error) if isinstance(error, XmcbenchError) else f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def runs_folders(sources: Sequence[str]) -> Iterator[list[Path]]:
    """The runs folders of sources, for a block: folders in place, archives and downloads in a scratch folder.

    An archive is what ``data.archives`` unpacks, at most 2 GiB, which ``--max-unpacked`` raises; it holds a runs
    folder, or one folder that is one. Raises UsageError for a source that holds no records, DataError for a download or
    an archive that cannot be read.
    """
    with scratch() as temporary:
        yield [_folder(source, temporary / str(number)) for number, source in enumerate(sources)]


def _folder(source: str, place: Path) -> Path:
    """Return the folder of a source, or the only one in it, that holds records. place: for what is unpacked."""
    path = Path(source)
    if source.startswith(_URLS):
        path = download(source, place / "archive", limit=ARRAYS)
    if path.is_file():
        try:
            unpack(path, place / "unpacked", ARRAYS)
        except OSError as error:
            raise DataError(f"cannot unpack {source}: {error.strerror}") from error
        path = place / "unpacked"
    inside = [below for below in path.iterdir() if below.is_dir()] if path.is_dir() else []
    for folder in (path, *(inside if len(inside) == 1 else [])):
        if (folder / "records").is_dir() and any((folder / "records").rglob("*.json*")):
            return folder
    raise UsageError(f"there are no records in {source}", "a runs folder is what `xmcbench run --runs` wrote")
