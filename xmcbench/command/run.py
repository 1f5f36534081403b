"""Run methods on a data set under a setting, and print the table.

Finished cells are kept below --runs and not run again: the same command after Ctrl-C goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from xmcbench.command import request
from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.setting import Setting


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench run``."""
    what = parser.add_argument_group("what is compared")
    what.add_argument("--dataset", default=request.DEFAULT_DATASET, metavar="NAME|FOLDER", help="default: %(default)s")
    what.add_argument("--setting", required=True, choices=("ez", "fs", "full"), help="zero-shot, few-shot or all pairs")
    what.add_argument("--ratio", type=float, metavar="R", help="share of labels or pairs that fs draws, in (0, 1]")
    what.add_argument("--by", choices=("label", "pair"), help="what fs draws (default: label)")
    what.add_argument("--methods", default="all", metavar="A,B|all", help="NAME or NAME:PRESET, or all that can run")
    request.add_methods(what)
    what.add_argument("--config", metavar="FILE.toml", help="the same settings from a file; flags go first")
    how = parser.add_argument_group("how it runs")
    request.add_execution(how)
    how.add_argument("--dry-run", action="store_true", help="say what would run, and do nothing")
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--filter", choices=("none", "self", "file"), help="default: what the data set's card says")
    shown.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute; 1 if a cell failed or none has a result."""
    from xmcbench.command import report
    from xmcbench.data import load_dataset
    from xmcbench.records import Store
    from xmcbench.registry import Registry
    from xmcbench.runner.execution import execute
    from xmcbench.runner.plan import Request, plan
    from xmcbench.setting import Setting

    setting = Setting.of(arguments.setting, arguments.ratio, arguments.by)
    wanted = Request(
        setting,
        request.methods(arguments.methods),
        arguments.preset,
        request.overrides(arguments.set),
        request.seeds(arguments.seed),
    )
    limits = request.limits(arguments)
    registry = Registry(arguments.plugin)
    dataset = load_dataset(arguments.dataset)
    filter_name = arguments.filter or dataset.card.filter
    dataset.filter(filter_name)  # refuses one it does not have before anything runs
    store = Store(arguments.runs)
    planned = plan(wanted, dataset, registry, store, arguments.force)
    report.warn_skipped(planned.skipped)
    if not planned.cells:
        raise UsageError("no method can run", "the lines above say what is missing")
    if arguments.dry_run:
        print(report.plan_json(planned, store) if arguments.json else report.plan_table(planned, store))
        return 0
    progress = report.Progress(len(planned.cells))
    records = execute(planned, dataset, arguments.dataset, store, arguments.plugin, limits, progress, arguments.force)
    if arguments.json:
        skipped = [{"method": each.method, "reason": each.reason, "hint": each.hint} for each in planned.skipped]
        print(json.dumps({"filter": filter_name, "records": records, "skipped": skipped}, indent=1, sort_keys=True))
    else:
        stale = [each.name for each in planned.cells if each.state == "stale"]
        print(_headline(dataset, setting, filter_name), report.tables(records, filter_name, stale), sep="\n\n")
    statuses = {record["status"] for record in records}
    return 0 if "ok" in statuses and not statuses & {"failed", "timeout"} else 1


def _headline(dataset: Dataset, setting: Setting, filter_name: str) -> str:
    from xmcbench.metrics import protocol

    counts = dataset.counts()
    return (
        f"{dataset.name} ({counts['train']:,} train, {counts['test']:,} test, {counts['labels']:,} labels), "
        f"{setting.title}, filter {filter_name}, metric protocol {protocol.VERSION}. "
        "Per cent ± half-width of the 95% interval over test instances."
    )
