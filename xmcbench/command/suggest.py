"""Suggest labels for documents: the first k labels of a method, as a TSV file.

Finished cells are kept in --runs, so the same documents are not predicted twice. Other documents are a new cell.
A model that `fit` has kept (--model) needs neither a dataset nor a training, and answers over HTTP with --serve.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import flags, report, request
from xmcbench.errors import DataError, UsageError
from xmcbench.output.escaping import tsv
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.experiment import Run
    from xmcbench.models import Model
    from xmcbench.results import Results
    from xmcbench.suggestions import Suggestions
    from xmcbench.texts import Texts


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench suggest``."""
    what = parser.add_argument_group("what is suggested")
    flags.add_dataset(what, several=False)
    method = what.add_mutually_exclusive_group(required=True)
    method.add_argument("--method", type=flags.texts, metavar="M", help="name, with :PRESET if needed")
    flags.path(method, "model", "FOLDER", "a folder that `fit` wrote")
    what.add_argument(
        "--documents",
        metavar="PLACE",
        help="a .txt file with one document per line, a table, or a dataset (default: the test set of --dataset)",
    )
    what.add_argument("--k", type=int, default=5, metavar="K", help="labels per document (default: 5)")
    what.add_argument(
        "--threshold",
        type=_threshold,
        default=-math.inf,
        metavar="S",
        help="leave out labels with a lower score; `explain METHOD --threshold-from PLACE` chooses one",
    )
    flags.path(
        what,
        "out",
        "FILE.tsv",
        "file to write: uid, rank, score, label uid, label (default with --model: a table is printed)",
    )
    flags.switch(what, "overwrite", "replace --out if it exists")
    flags.add(what, "filter")
    flags.add_setting(
        what, several=False, default=None, help="default: full if there are training pairs that the method uses"
    )
    flags.add_methods(what, several=False)
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    server = parser.add_argument_group("a server for --model")
    server.add_argument("--serve", type=_port, metavar="PORT", help="answer POST requests until Ctrl-C; 0: a free port")
    server.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1, so that only this machine can ask)"
    )


def _threshold(text: str) -> float:
    number = float(text)
    if math.isnan(number):  # no score is above or below it
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Run the cell and write the file; 1 if the cell fails."""
    if arguments.model is not None:
        return _open_model(arguments)
    said = "{} is for --model"
    request.check_unused(arguments, said, "xmcbench fit METHOD --out FOLDER writes a model", serve=None, host=None)
    if arguments.out is None:
        raise UsageError("--out is required with --method", "for example --out suggested.tsv")
    from xmcbench.suggestions import suggest

    def execute(planned: Run) -> Results:
        dataset = planned.plan.cells[0].dataset
        read = (path.iterdir() if path.is_dir() else [path] for path in dataset.sources)
        _check_not_read(arguments.out, chain.from_iterable(read))
        _check_uids(dataset.test, dataset.labels)
        report.show_notes([dataset])
        return report.execute(planned)

    place = request.only_dataset(arguments)
    report.check_new(arguments.out, arguments.overwrite, "--overwrite")
    _check_not_read(arguments.out, _paths(place, arguments.documents))
    _check_no_part(arguments.out, place)
    options = request.options(arguments)
    registry = request.registry(options.plugins, options.limits.time_s)
    grid = request.grid(arguments, arguments.method, dataset=place)
    documents = arguments.documents
    found = suggest(grid, documents, arguments.k, arguments.filter, options, registry, execute)
    _write(replace(found, threshold=arguments.threshold), arguments.out)
    return 0


def _write(found: Suggestions, out: Path) -> None:
    found.write(out)
    empty = f"; {found.empty:,} of them without a suggestion" if found.empty else ""
    print(f"{out}: {found.name}, {found.setting}, {format_count(len(found.documents), 'document')}{empty}")


def _open_model(arguments: argparse.Namespace) -> int:
    hint = "name those of a table of documents behind it: --documents 'new.csv?text=COLUMN&uid=COLUMN'"
    request.check_unused(arguments, "{} is for --dataset, and does nothing with --model", hint, columns=None)
    no_text = dict.fromkeys(("dataset", "dev", "setting", "ratio", "by", "preset", "filter", "jobs"))
    others = {"set": [], "seed": [0], "runs": Path("runs"), "on": "local", "cells_per_gpu": 1, "force": False}
    unused = {**no_text, **others, "refresh": False, **flags.LIMITS, "processes": flags.DEVICE["processes"]}
    request.check_unused(arguments, "{} does nothing with --model", "leave it out", **unused)
    is_serving = arguments.serve is not None
    if not is_serving and arguments.host is not None:
        raise UsageError("--host is for --serve", "give a port too: --serve 8000")
    others = arguments.documents or arguments.out or arguments.overwrite or arguments.threshold > -math.inf
    if is_serving and others:
        hint = "leave out --documents, --out, --overwrite and --threshold"
        raise UsageError("--serve takes its documents from requests, and answers with scores", hint)
    if not is_serving and arguments.documents is None:
        raise UsageError("--model needs --documents or --serve", "for example --documents new.txt")
    from xmcbench.data.catalog import load_documents
    from xmcbench.models import Model

    if arguments.out is not None:
        report.check_new(arguments.out, arguments.overwrite, "--overwrite")
        _check_not_read(arguments.out, [*_paths(arguments.documents), *arguments.model.rglob("*")])
    model = Model.load(arguments.model, arguments.plugin, request.compute(arguments))
    if not model.is_current:
        note = f"{arguments.model} was trained by another source of {model.facts.method} than is installed here"
        print(f"xmcbench: note: {note}, and may predict otherwise: fit it again", file=sys.stderr)
    if is_serving:
        return _serve(model, arguments.host or "127.0.0.1", arguments.serve, arguments.k)
    texts, notes = load_documents(arguments.documents)
    for note in notes:
        print(f"xmcbench: note: {note}", file=sys.stderr)
    found = replace(model.suggest(texts, arguments.k), threshold=arguments.threshold)
    _check_uids(found.documents, found.labels)
    if arguments.out is not None:
        _write(found, arguments.out)
    else:
        print(found.table())
    return 0


def _serve(model: Model, host: str, port: int, k: int) -> int:
    from xmcbench.serving import Server

    with Server(model, host, port, k) as server:
        print(f"{model.facts.name} of {model.facts.dataset} on {server.address} (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _paths(*places: str | None) -> list[Path]:
    """Return the paths of datasets and documents, and of all that is in their folders."""
    from xmcbench.data.sources.finding import place_of

    paths = [place_of(place).path for place in places if place]
    return [*paths, *chain.from_iterable(path.iterdir() for path in paths if path.is_dir())]


def _check_not_read(out: Path, paths: Iterable[Path]) -> None:
    """Raise UsageError for a file that is read."""
    if out.resolve() in {path.resolve() for path in paths}:
        raise UsageError(f"{out} is read, and would be replaced", "choose another name, as suggested.tsv")


def _check_no_part(out: Path, place: str) -> None:
    """Raise UsageError for a file that would later be read as a part of the dataset."""
    from xmcbench.data.sources.finding import place_of
    from xmcbench.data.sources.splits import PARTS

    data = place_of(place).path.resolve()
    folder = data if data.is_dir() else data.parent
    part = out.name.partition(".")[0].casefold()
    if part in PARTS and out.resolve().parent == folder:
        raise UsageError(f"{out} would be taken for a part of the dataset", "choose another name, as suggested.tsv")


def _check_uids(documents: Texts, labels: Texts) -> None:
    """Note uids that would act in a terminal or a spreadsheet; raise DataError for a uid that the file cannot hold."""
    changed = []
    for noun, texts in (("document", documents), ("label", labels)):
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
