"""Converting datasets, from any layout that is read into any that can be written, and writing them into folders.

Files that somebody else put into a folder are never removed, and only replaced on request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from xmcbench.data.card import read_card, write_card
from xmcbench.data.catalog import load_dataset
from xmcbench.data.sources.finding import layouts, source_at
from xmcbench.data.sources.source import TEST_FILTER, TRAIN_FILTER, Content, Place, Source
from xmcbench.data.xc_matrix import write_filter
from xmcbench.errors import DataError, UnknownName, UsageError, XmcbenchError
from xmcbench.label_texts import LabelTexts
from xmcbench.storage.atomic import writing
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.temporary import final_name, folder_in
from xmcbench.texts import Texts

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset

_Texts = TypeVar("_Texts", bound=Texts)


def formats() -> dict[str, type[Source]]:
    """The layouts that can be written, by name."""
    return {name: cls for name, cls in layouts().items() if cls.write.__func__ is not Source.write.__func__}  # type: ignore[attr-defined]


def export(dataset: Dataset, out: Path, format: str, force: bool = False, flatten: bool = False) -> list[Path]:  # noqa: A002 - the word for it
    """Write ``dataset`` into the new folder ``out`` in one of ``formats``, with its filter and a card.

    Returns the files; reading them gives the same dataset. flatten: make every run of white space in a text a space,
    where the format has one text per line, and leave out what labels carry besides their titles, where the format
    cannot hold it. Raises UnknownName for another format, UsageError if ``out`` has files (force: other files stay, and
    files of the same names are replaced) or some that would be taken for its own, and DataError if the format cannot
    hold the data.
    """
    known = formats()
    if format not in known:
        raise UnknownName("format", format, known)
    if dataset.labels.details and not (flatten or known[format].holds_details):
        carried = ", ".join(dataset.labels.details)
        able = ", ".join(name for name, layout in known.items() if layout.holds_details)
        hint = f"it fits into {able}; --flatten leaves it out"
        raise DataError(f"the format {format} cannot hold what labels of {dataset.name} carry: {carried}", hint)
    # Uids that are no more than row numbers are those of the rows here: the rows of a test set that was drawn have the
    # numbers of others, which a reader would take for names.
    train, test = (
        texts if corpus.uids else _number_rows(texts)
        for texts, corpus in ((dataset.train, dataset.train_corpus), (dataset.test, dataset.test_corpus))
    )
    labels = dataset.labels
    if not dataset.label_corpus.uids and "parents" not in labels.details:  # parents are uids
        labels = _number_rows(labels)
    content = Content(train, test, labels, dataset.train_pairs, dataset.test_pairs)
    with output_folder(out, force) as folder:
        known[format].write(content, folder, flatten)
        if "file" in dataset.filters:
            write_filter(folder / TEST_FILTER[0], dataset.filter("file"))
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        sums = {path.as_posix(): sha256_file(folder / path) for path in files}
        kept = {"counts": dataset.counts(), "files": sums, "held_out": dataset.card.is_for_choosing}
        changed = {**kept, "default": False, "derive": None, "build": None}
        write_card(folder / "card.toml", msgspec.structs.replace(dataset.card, **changed))
    return [out / name for name in sorted([*files, Path("card.toml")])]


def _number_rows(texts: _Texts) -> _Texts:
    import pyarrow as pa

    own, details = (texts.titles_only(), texts.details) if isinstance(texts, LabelTexts) else (texts, {})
    numbers = pa.array(map(str, range(len(texts))), pa.large_string(), size=len(texts))
    columns = {"uid": numbers, "title": own.titles.to_arrow(), "content": own.contents.to_arrow(), **details}
    return type(texts)(pa.table(columns), texts.digest)


def convert(reference: str | Path, out: Path, force: bool = False) -> Dataset:
    """Read a dataset in any layout, and write it into the new folder ``out`` in the raw layout; returns it as read."""
    check_free(out, force)
    dataset = load_dataset(reference)
    export(dataset, out, "xc", force)
    return dataset


def work_folder(out: Path) -> AbstractContextManager[Path]:
    """A temporary folder on the disk of ``out``: in that folder, or beside it where it is not there yet."""
    target = out.absolute()
    return folder_in(target if target.is_dir() else target.parent, target)


@contextmanager
def output_folder(out: Path, force: bool = False, rebuild: bool = False) -> Iterator[Path]:
    """A folder to fill; when the block ends well, its files are put into ``out``, and nothing else there changes.

    rebuild: the files of an earlier build may be replaced, which the card in ``out`` lists with their checksums. force:
    any file of the same name may be replaced. Raises UsageError for a folder that contains anything else, or a file
    that would be read as one of the new dataset; StorageError if it cannot be written.
    """
    check_free(out, force, rebuild)
    target = out.absolute()
    with work_folder(out) as folder:
        yield folder
        check_free(out, force, rebuild)  # it may have been filled meanwhile
        with writing(out):
            if not os.path.lexists(target):
                os.replace(folder, target)
                return
            # A folder that is there stays the same folder, even an empty one: someone may stand in it or have linked to
            # it. A card goes last, as it describes the other files.
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            _check_unmixed(folder, target)
            for path in sorted(files, key=lambda path: path.name == "card.toml"):
                place = target / path.relative_to(folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, place)


def _check_unmixed(folder: Path, target: Path) -> None:
    """Raise UsageError if a reader of ``target`` would take files there for some of the dataset in ``folder``.

    Such as ``lbl.json.gz`` where ``lbl.json`` is new, uids of texts that have none, or a filter.
    """
    _link_others(target, folder)
    place = Place(str(folder), folder)
    try:
        files = source_at(place).find_parts().files
    except XmcbenchError:  # such as two tables of one name: a reader says so, and takes neither
        return
    for path in (*files, *filter(None, (place.find(*TEST_FILTER), place.find(*TRAIN_FILTER)))):
        if not path.resolve().is_relative_to(folder.resolve()):
            what = f"{target / os.path.relpath(path, folder)} would be taken for a part of the new dataset"
            raise UsageError(what, "move it, or choose another folder")


def _link_others(target: Path, folder: Path) -> None:
    """Link what is in ``target`` and not in ``folder`` into that folder."""
    for path in _list_lasting(target):
        place = folder / path.name
        if not place.exists():
            place.symlink_to(path)
        elif path.is_dir() and place.is_dir():
            _link_others(path, place)


def _list_lasting(folder: Path) -> list[Path]:
    """List what is in a folder, without the temporary files and folders of this process and others."""
    return sorted(path for path in folder.iterdir() if final_name(path.name) is None)


def check_free(out: Path, force: bool = False, rebuild: bool = False) -> None:
    """Raise UsageError if a dataset cannot be written to ``out`` without replacing files of somebody else."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} already exists and is not a folder", "choose a new or empty folder")
    if force or not out.exists():
        return
    own: set[str] = set()
    if rebuild:
        with suppress(DataError):
            files = read_card(out / "card.toml").files
            own = {"card.toml", *(name for name, sha256 in files.items() if has_checksum(out / name, sha256))}
    if others := [path for path in _list_lasting(out) if path.name not in own]:
        hint = "choose a new or empty folder; --force writes beside other files and replaces those of the same name"
        raise UsageError(f"{out} already exists and contains {others[0].name}", hint)


def has_checksum(path: Path, sha256: str) -> bool:
    """Tell whether a file is there and has this SHA-256."""
    try:
        return path.is_file() and sha256_file(path) == sha256
    except OSError:
        return False
