"""Write results in formats that other programs read.

  xmcbench export records --out results.parquet            a line per cell; or results.csv, or a folder for the
                                                           Hugging Face hub
  xmcbench export table --setting ez --metric P@1,R@100 --out table.tex
                                                           methods x datasets, for LaTeX with booktabs and siunitx
  xmcbench export paper --runs paper --out appendix        commands, environments, references, and the records
  xmcbench export mlflow --to mlruns                       runs of MLflow: a folder, or the address of a server
  xmcbench export run tfidf --setting ez --out run.txt     stored predictions as a run of trec_eval
  xmcbench export qrels --dataset lf-debian-2k --out qrels.txt
  xmcbench export judgments --out judgments.jsonl          scores of a judge, for --set rerank.judgments=FILE

The run is after the filter and cut at 100 predictions. Instances and labels are named by their uids; where these are
not unique or contain white space, by row numbers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import flags, report, request
from xmcbench.errors import UsageError
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.records import Record, Store


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench export``."""
    verbs = parser.add_subparsers(dest="action", metavar="WHAT", required=True)
    records = verbs.add_parser("records", help="records, as Parquet, CSV or a dataset of the Hugging Face hub")
    flags.add(records, "runs", "plugin")
    table = verbs.add_parser("table", help="a table of methods and datasets in one setting, for a paper in LaTeX")
    flags.add(table, "runs")
    table.add_argument(
        "--dataset",
        type=flags.texts,
        default=[],
        metavar="A,B",
        help="default: all but -dev datasets and samples",
    )
    flags.add_setting(table, several=False, required=True, help="zero-shot, few-shot or all pairs")
    table.add_argument(
        "--methods", type=flags.texts, default=[], metavar="A,B", help="rows in their order, each NAME or NAME:PRESET"
    )
    table.add_argument("--metric", type=flags.texts, default=["P@1", "R@100"], metavar="M,N", help="default: P@1,R@100")
    table.add_argument("--decimals", type=int, choices=(0, 1, 2), default=1, help="default: %(default)s")
    flags.switch(table, "spread", "with the half-width of the interval of each figure")
    flags.add(table, "plugin")
    paper = verbs.add_parser("paper", help="files for an appendix: commands, environments, references, records")
    flags.add(paper, "runs", "plugin")
    flags.path(paper, "out", "FOLDER", "folder to write", required=True)
    flags.switch(paper, "force", "replace files in FOLDER")
    tracked = verbs.add_parser("mlflow", help="records, as runs of MLflow (needs xmcbench[mlflow])")
    flags.add(tracked, "runs")
    tracked.add_argument("--to", required=True, metavar="URI", help="tracking server, or a folder")
    tracked.add_argument("--experiment", default="xmcbench", metavar="NAME", help="default: xmcbench")
    flags.add(tracked, "plugin")
    ranked = verbs.add_parser("run", help="the predictions of a stored run, as trec_eval reads them")
    ranked.add_argument("method", metavar="METHOD", help="a row, as in `xmcbench compare`")
    flags.add_choice(ranked)
    qrels = verbs.add_parser("qrels", help="the test pairs of a dataset, as trec_eval reads them")
    flags.add_dataset(qrels, several=False)
    judgments = verbs.add_parser("judgments", help="the scores that the judges of a runs folder gave")
    flags.add(judgments, "runs")
    for verb in (records, table, ranked, qrels, judgments):
        flags.path(verb, "out", "FILE", "file to write", required=True)
        flags.switch(verb, "force", "replace FILE")


def run(arguments: argparse.Namespace) -> int:
    """Write the file, or the runs of MLflow."""
    if arguments.action == "mlflow":
        return _mlflow(arguments)
    report.check_new(arguments.out, arguments.force)
    actions = {
        "records": _records,
        "table": _table,
        "paper": _paper,
        "run": _run,
        "qrels": _qrels,
        "judgments": _judgments,
    }
    return actions[arguments.action](arguments)


def _records(arguments: argparse.Namespace) -> int:
    from xmcbench.analysis.export import write_records

    store, records = _read(arguments.runs)
    write_records(records, arguments.out, request.staleness(arguments))
    print(f"{format_count(len(records), 'record')} in {arguments.out}")
    return report.warn_left_out(store)


def _table(arguments: argparse.Namespace) -> int:
    from xmcbench.leaderboard.paper import latex, paper_table
    from xmcbench.leaderboard.sections import Context
    from xmcbench.runner.scoring import StoredScores
    from xmcbench.storage.atomic import write_text

    store, read = _read(arguments.runs)
    records = report.select_latest(read)
    staleness = request.staleness(arguments)
    scores = StoredScores(store)
    context = Context((), staleness, scores=scores)
    setting = request.only_setting(arguments)
    if not arguments.dataset:
        report.note_unlisted(records, setting)
    made = paper_table(records, setting, arguments.metric, context, arguments.dataset, arguments.methods)
    report.note_untested(scores)
    write_text(arguments.out, latex(made, arguments.decimals, arguments.spread))
    print(f"{format_count(len(made.rows), 'row')} in {arguments.out}")
    return report.warn_left_out(store)


def _paper(arguments: argparse.Namespace) -> int:
    from xmcbench.analysis.appendix import write_appendix
    from xmcbench.analysis.citations import cite, list_used
    from xmcbench.command.cite import note_uncited

    store, read = _read(arguments.runs)
    records = [record for record in read if record.ok]
    citations = cite(list_used(records, request.registry(arguments.plugin)), arguments.plugin)
    for path in write_appendix(store, records, citations, arguments.out):
        print(path)
    note_uncited(citations.missing)
    return report.warn_left_out(store)


def _mlflow(arguments: argparse.Namespace) -> int:
    from xmcbench.analysis.export import log_records

    store, records = _read(arguments.runs)
    staleness = request.staleness(arguments)
    new = log_records(records, str(arguments.runs), arguments.to, arguments.experiment, staleness)
    left = len(records) - new
    print(f"{format_count(new, 'record')} in {arguments.to}" + (f", {left} already there" if left else ""))
    return report.warn_left_out(store)


def _read(runs: Path) -> tuple[Store, list[Record]]:
    """Return the records of a runs folder. Raises UsageError if there are none."""
    from xmcbench.records import Store
    from xmcbench.records.store import NO_RUNS

    store = Store(runs)
    with store.noting_left_out():
        records = store.records()
        if not records:
            raise UsageError(f"there are no records in {runs}", NO_RUNS)
    return store, records


def _run(arguments: argparse.Namespace) -> int:
    from xmcbench import trec
    from xmcbench.analysis.rankings import load_filtered
    from xmcbench.data import load_dataset
    from xmcbench.records import Store
    from xmcbench.records.selection import choose_row

    conditions = request.conditions(arguments, request.staleness(arguments))
    row = choose_row(Store(arguments.runs), arguments.method, conditions, unscored=True)
    if len(row.records) > 1:
        raise UsageError(f"{arguments.method} has the seeds {', '.join(map(str, row.seeds))}", "choose one: --seed S")
    record = row.records[0]
    dataset = load_dataset(request.place(arguments) or record.cell.dataset)
    found = load_filtered(record, row.store, dataset, arguments.filter or record.protocol.filter)
    names = (trec.identifiers(dataset.test), trec.identifiers(dataset.labels))
    trec.write_run(arguments.out, found, *names, f"{record.cell.method}-s{record.cell.seed}-{record.key[:12]}")
    print(f"{format_count(len(found), 'instance')} in {arguments.out}")
    return report.warn_left_out(row.store)


def _qrels(arguments: argparse.Namespace) -> int:
    from xmcbench import trec
    from xmcbench.data import load_dataset

    dataset = load_dataset(request.only_dataset(arguments))
    pairs = dataset.test_pairs()
    trec.write_qrels(arguments.out, pairs, trec.identifiers(dataset.test), trec.identifiers(dataset.labels))
    print(f"{format_count(pairs.nnz, 'pair')} in {arguments.out}")
    return 0


def _judgments(arguments: argparse.Namespace) -> int:
    from xmcbench.analysis.export import collect_judgments
    from xmcbench.storage.atomic import write_text

    lines = collect_judgments(arguments.runs)
    if not lines:
        raise UsageError(
            f"there are no judgments in {arguments.runs}", "methods with a judge, rerank and lmtx, keep them"
        )
    write_text(arguments.out, "".join(f"{line}\n" for line in lines))
    print(f"{format_count(len(lines), 'judgment')} in {arguments.out}")
    return 0
