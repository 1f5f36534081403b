"""Writing a dataset in the formats of the field's programs.

xc        the raw-text layout of the Extreme Classification repository, with label matrices and a card
pecos     X.{trn,tst}.txt and output-items.txt (one text per line), Y.{trn,tst}.npz (CSR float32)
maclr     the archive of the MACLR example: {trn,tst,lbl}.json, and the test pairs by uid in all_pairs.txt
zestxml   raw/{trn_X,tst_X,Y}.txt (one text per line), {trn,tst}_X_Y.txt
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.data.card import write_card
from xmcbench.data.output import output_folder
from xmcbench.data.xc_matrix import write_filter, write_matrix
from xmcbench.data.xc_text import write_instances, write_labels
from xmcbench.errors import DataError, UnknownName
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.canonical import sha256_file

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data.dataset import Dataset
    from xmcbench.texts import Texts


def export(dataset: Dataset, out: Path, format: str, force: bool = False) -> list[Path]:  # noqa: A002 - the word for it
    """Write ``dataset`` into the new folder ``out`` in a format: xc, pecos, maclr or zestxml; returns the files.

    Raises UnknownName for another format, UsageError if ``out`` is not empty (with ``force``, its other files stay,
    and those of the same names are replaced), and DataError if the format cannot represent the data.
    """
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    with output_folder(out, force) as folder:
        FORMATS[format](dataset, folder)
        names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [out / name for name in names]


def _export_xc(dataset: Dataset, folder: Path) -> None:
    for side, texts, pairs in _sides(dataset):
        write_instances(folder / f"{side}.json.gz", _instances(texts, pairs))
        write_matrix(folder / f"{side}_X_Y.txt", pairs)
    write_labels(folder / "lbl.json.gz", zip(dataset.labels.uids, dataset.labels.titles, strict=True))
    if "file" in dataset.filters:
        write_filter(folder / "filter_labels_test.txt", dataset.filter("file"))
    files = {path.name: sha256_file(path) for path in sorted(folder.iterdir())}
    card = msgspec.structs.replace(
        dataset.card, counts=dataset.counts(), files=files, default=False, derive=None, build=None
    )
    write_card(folder / "card.toml", card)


def _export_pecos(dataset: Dataset, folder: Path) -> None:
    from scipy.sparse import save_npz

    for side, texts, pairs in _sides(dataset):
        _write_lines(folder / f"X.{side}.txt", map(_one_line, texts))
        with atomic_file(folder / f"Y.{side}.npz") as stream:
            save_npz(stream, pairs)
    _write_lines(folder / "output-items.txt", map(_one_line, dataset.labels))


def _export_maclr(dataset: Dataset, folder: Path) -> None:
    for side, texts, pairs in _sides(dataset):
        write_instances(folder / f"{side}.json", _instances(texts, pairs))
    write_labels(folder / "lbl.json", zip(dataset.labels.uids, dataset.labels.titles, strict=True))
    test_uids, label_uids = list(dataset.test.uids), list(dataset.labels.uids)
    for uid in (*test_uids, *label_uids):
        if len(uid.split()) != 1:
            raise DataError(
                f"uid {uid!r} contains a space or is empty", "all_pairs.txt of the format maclr is separated by spaces"
            )
    _write_lines(
        folder / "all_pairs.txt",
        (
            f"{uid} {label_uids[label]} 1"
            for uid, labels in zip(test_uids, _rows(dataset.test_pairs()), strict=True)
            for label in labels
        ),
    )


def _export_zestxml(dataset: Dataset, folder: Path) -> None:
    for side, texts, pairs in _sides(dataset):
        _write_lines(folder / "raw" / f"{side}_X.txt", map(_one_line, texts))
        write_matrix(folder / f"{side}_X_Y.txt", pairs)
    _write_lines(folder / "raw" / "Y.txt", map(_one_line, dataset.labels))


FORMATS: dict[str, Callable[[Dataset, Path], None]] = {
    "xc": _export_xc,
    "pecos": _export_pecos,
    "maclr": _export_maclr,
    "zestxml": _export_zestxml,
}


def _sides(dataset: Dataset) -> Iterator[tuple[str, Texts, csr_matrix]]:
    yield "trn", dataset.train, dataset.train_pairs()
    yield "tst", dataset.test, dataset.test_pairs()


def _instances(texts: Texts, pairs: csr_matrix) -> Iterator[tuple[str, str, str, list[int]]]:
    return zip(texts.uids, texts.titles, texts.contents, _rows(pairs), strict=True)


def _rows(pairs: csr_matrix) -> Iterator[list[int]]:
    for start, end in zip(pairs.indptr[:-1], pairs.indptr[1:], strict=True):
        yield pairs.indices[start:end].tolist()


def _one_line(text: str) -> str:
    # These formats have one text per line, and PECOS splits words at single spaces.
    return " ".join(text.split())


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_file(path) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode())
