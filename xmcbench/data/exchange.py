"""Converting datasets: from any layout that is read, into any that can be written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.data.card import write_card
from xmcbench.data.catalog import load_dataset
from xmcbench.data.compression import find_source
from xmcbench.data.output import check_free, output_folder
from xmcbench.data.sources.finding import layouts
from xmcbench.data.sources.source import TEST_FILTER, Source
from xmcbench.data.xc_matrix import write_filter
from xmcbench.errors import UnknownName, UsageError
from xmcbench.storage.canonical import sha256_file

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset


def formats() -> dict[str, type[Source]]:
    """The layouts that can be written, by name."""
    return {name: cls for name, cls in layouts().items() if cls.write.__func__ is not Source.write.__func__}  # type: ignore[attr-defined]


def export(dataset: Dataset, out: Path, format: str, force: bool = False, flatten: bool = False) -> list[Path]:  # noqa: A002 - the word for it
    """Write ``dataset`` into the new folder ``out`` in one of ``formats``, with its filter and a card.

    Returns the files; reading them gives the same dataset. flatten: make every run of white space in a text a
    space, where the format has one text per line. Raises UnknownName for another format, UsageError if ``out`` is not
    empty (with ``force``, its other files stay, and those of the same names are replaced), or has a filter of something
    else, and DataError if the format cannot hold the data.
    """
    known = formats()
    if format not in known:
        raise UnknownName("format", format, known)
    left = find_source(out, *TEST_FILTER)
    if left and ("file" not in dataset.filters or left.name != TEST_FILTER[0]):
        raise UsageError(f"{left} would be taken for the filter of {dataset.name}", "move it, or choose another folder")
    with output_folder(out, force) as folder:
        known[format].write(dataset, folder, flatten)
        if "file" in dataset.filters:
            write_filter(folder / TEST_FILTER[0], dataset.filter("file"))
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        sums = {path.as_posix(): sha256_file(folder / path) for path in files}
        card = msgspec.structs.replace(
            dataset.card, counts=dataset.counts(), files=sums, default=False, derive=None, build=None
        )
        write_card(folder / "card.toml", card)
    return [out / name for name in sorted([*files, Path("card.toml")])]


def convert(reference: str | Path, out: Path, force: bool = False) -> Dataset:
    """Read a dataset in any layout, and write it into the new folder ``out`` in the raw layout; returns it as read.

    Raises what ``load_dataset`` and ``export`` raise.
    """
    check_free(out, force)
    dataset = load_dataset(reference)
    export(dataset, out, "xc", force)
    return dataset
