"""Suggest labels for documents: the first k labels of a method, as a TSV file.

Finished cells are kept in --runs, so the same documents are not predicted twice. Other documents are a new cell.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import flags, request
from xmcbench.errors import DataError, UsageError
from xmcbench.output.escaping import tsv
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.experiment import Run
    from xmcbench.results import Results


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
    from xmcbench.command import report
    from xmcbench.suggestions import suggest

    def execute(planned: Run) -> Results:
        dataset = planned.plan.cells[0].dataset
        _check_uids(dataset)
        report.show_notes([dataset])
        return report.execute(planned)

    place = request.only_dataset(arguments)
    report.check_new(arguments.out, arguments.overwrite, "--overwrite")
    _check_out(arguments.out, place)
    options = request.options(arguments)
    registry = request.registry(options.plugins, options.limits.time_s)
    grid = request.grid(arguments, arguments.method, dataset=place)
    documents = arguments.documents
    found = suggest(grid, documents, arguments.k, arguments.filter, options, registry, execute)
    found.write(arguments.out)
    empty = f"; {found.empty:,} of them without a suggestion" if found.empty else ""
    number = format_count(len(found.dataset.test), "document")
    print(f"{arguments.out}: {found.record.name}, {found.record.cell.setting.title}, {number}{empty}")
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
