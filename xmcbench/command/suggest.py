"""Suggest labels for documents: the first k labels of a method, as a TSV file.

Finished cells are kept in --runs, so the same documents are not predicted twice. Other documents are a new cell.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import flags, request
from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.output.escaping import tsv
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.records import Record, Store
    from xmcbench.topk import TopK

_HEADER = ("uid", "rank", "score", "label_uid", "label")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench suggest``."""
    what = parser.add_argument_group("what is suggested")
    flags.add_dataset(what, several=False)
    what.add_argument("--method", type=flags.texts, required=True, metavar="M", help="name, with :PRESET if needed")
    what.add_argument(
        "--documents",
        metavar="PLACE",
        help="a .txt file with one document per line, a table, or a dataset (default: the test set of --dataset)",
    )
    what.add_argument("--k", type=int, default=5, metavar="K", help="labels for each document (default: 5)")
    what.add_argument(
        "--out", type=Path, required=True, metavar="FILE.tsv", help="file to write: uid, rank, score, label uid, label"
    )
    what.add_argument("--overwrite", action="store_true", help="replace --out if it exists")
    flags.add_filter(what)
    flags.add_setting(
        what, several=False, default=None, help="default: full if there are training pairs that the method uses"
    )
    flags.add_methods(what, several=False)
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)


def run(arguments: argparse.Namespace) -> int:
    """Run the cell and write the file; 1 if the cell fails."""
    from xmcbench.analysis.rankings import load_filtered
    from xmcbench.arguments import make_grids
    from xmcbench.command import report
    from xmcbench.data.catalog import load_dataset
    from xmcbench.data.sources.finding import reference_to
    from xmcbench.experiment import plan_run
    from xmcbench.records import Store

    if not 1 <= arguments.k <= 100:
        raise UsageError(f"--k {arguments.k} must be in 1..100")
    place = request.only_dataset(arguments)
    if arguments.documents:
        place = reference_to(place, {"documents": arguments.documents})
    report.check_new(arguments.out, arguments.overwrite, "--overwrite")
    _check_out(arguments.out, place)
    options = request.options(arguments)
    registry, (method, *others) = request.registry(options.plugins, options.limits.time_s), arguments.method
    if others or method == "all":
        raise UsageError(f"--method {','.join(arguments.method)!r} is not one method", "see `xmcbench ls methods`")
    dataset = load_dataset(place)
    _check_uids(dataset)
    if arguments.setting is None:
        needs = registry[method.partition(":")[0]].usable().supervision
        arguments.setting = ["ez" if needs == "unused" or not dataset.train_corpus.pairs else "full"]
    grids, _ = make_grids([request.grid(arguments, [method], dataset=place)], options)
    planned = plan_run(grids, options, registry, None)
    report.warn_skipped(planned.plan.skipped)
    report.show_notes([dataset])
    if not planned.plan.cells:
        raise UsageError(f"{method} cannot run", "the lines above say what is missing")
    if len(planned.plan.cells) > 1:
        raise UsageError(
            f"suggest runs a single cell, but these options select {len(planned.plan.cells)}",
            "give one setting, one seed, and one value of each parameter",
        )
    store = Store(options.runs)
    if (cached := planned.plan.cells[0].record) and not _has_predictions(cached, store):
        planned = plan_run(grids, replace(options, force=True), registry, None)
    (record,) = report.execute(planned).records
    if record.predictions is None:
        print(f"xmcbench: {record.name}: {record.status}: {record.reason}", file=sys.stderr)
        return 1
    predictions = load_filtered(record, store, dataset, dataset.choose_filter(arguments.filter))
    empty = write(arguments.out, dataset, predictions, arguments.k)
    without = f"; {empty:,} of them without a suggestion" if empty else ""
    documents = format_count(len(dataset.test), "document")
    print(f"{arguments.out}: {record.name}, {record.cell.setting.title}, {documents}{without}")
    return 0


def _check_out(out: Path, place: str) -> None:
    """Raise UsageError for a file that would later be read as a part of the dataset."""
    from xmcbench.data.sources.finding import place_of
    from xmcbench.data.sources.tables import PARTS

    data = place_of(place).path.resolve()
    folder = data if data.is_dir() else data.parent
    part = out.name.partition(".")[0].casefold()
    if part in PARTS and out.resolve().parent == folder:
        raise UsageError(f"{out} would be taken for a part of the dataset", "choose another name, as suggested.tsv")


def _has_predictions(record: Record, store: Store) -> bool:
    """Return whether the predictions of a record are there: `xmcbench clean` removes them, but not the record."""
    from xmcbench.analysis.rankings import load_stored

    try:
        return load_stored(record, store) is not None
    except StorageError as error:
        print(f"xmcbench: {error.message}; the cell runs again", file=sys.stderr)
        return False


def _check_uids(dataset: Dataset) -> None:
    """Print a note on uids that would act in a terminal or a spreadsheet, so that they are changed in the file.

    Raises DataError for a uid that the file cannot hold.
    """
    changed = []
    for noun, texts in (("document", dataset.test), ("label", dataset.labels)):
        for uid in texts.uids:
            if any(sign in uid for sign in "\t\r\n"):
                raise DataError(
                    f"the uid {uid[:60]!r} of a {noun} has a tab or a line break, which a TSV file cannot hold",
                    "change the uid; in a table without labels.csv, it is the text of the label",
                )
            if tsv(uid) != uid:
                changed.append(uid)
    if changed:
        note = "uids that would act in a terminal or a spreadsheet are changed in the file"
        print(f"xmcbench: note: {note}: {len(changed):,}, such as {changed[0][:60]!r}", file=sys.stderr)


def write(path: Path, dataset: Dataset, predictions: TopK, k: int) -> int:
    """Write a line for each suggested label, inert in terminals and spreadsheets.

    Returns the number of documents without a suggestion.
    """
    from xmcbench.data.sources.text_lines import one_line
    from xmcbench.storage.atomic import atomic_file

    uids, empty = [tsv(uid) for uid in dataset.labels.uids], 0
    texts = [tsv(one_line(title)) for title in dataset.labels.titles]
    with atomic_file(path) as stream:
        stream.write(("\t".join(_HEADER) + "\n").encode())
        for row, uid in enumerate(dataset.test.uids):
            labels, scores = predictions.indices[row, :k].tolist(), predictions.scores[row, :k].tolist()
            empty += labels[:1] == [-1]
            for rank, (label, score) in enumerate(zip(labels, scores, strict=True), 1):
                if label >= 0:
                    cells = (tsv(uid), str(rank), f"{score:.6g}", uids[label], texts[label])
                    stream.write(("\t".join(cells) + "\n").encode())
    return empty
