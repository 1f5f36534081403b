"""Run methods on a dataset under a setting, and print the table.

Finished cells are kept in --runs and not run again: after Ctrl-C, the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from xmcbench.command import request
from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.setting import Setting


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench run``."""
    what = parser.add_argument_group("what is compared")
    request.add_dataset(what)
    request.add_setting(what, required=True, help="zero-shot, few-shot or all pairs")
    what.add_argument(
        "--methods", default="all", metavar="A,B|all", help="names, each with :PRESET if needed, or all that can run"
    )
    request.add_methods(what)
    what.add_argument("--config", metavar="FILE.toml", help="read these settings from a file; flags override it")
    how = parser.add_argument_group("how it runs")
    request.add_execution(how)
    request.add_dry_run(how)
    shown = parser.add_argument_group("what is shown")
    request.add_shown(shown)


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute; 1 if a cell failed or no cell has a result."""
    from xmcbench.api import filter_of
    from xmcbench.command import report
    from xmcbench.runner.plan import Request, resolve

    options = request.options(arguments)
    wanted = Request(
        request.dataset(arguments),
        request.setting(arguments),
        request.methods(arguments.methods),
        arguments.preset,
        request.overrides(arguments.set),
        request.seeds(arguments.seed),
    )
    registry = report.registry(options)
    resolve([wanted], registry)  # what is wrong is said before any data are loaded
    planned = options.planned([wanted], registry)
    if not planned.cells:
        report.warn_skipped(planned.skipped)
        raise UsageError("no method can run", "the lines above say what is missing")
    dataset = planned.cells[0].dataset
    filter_name = filter_of(dataset, arguments.filter)
    report.warn_skipped(planned.skipped)
    report.show_notes(dataset)
    if arguments.dry_run:
        return report.dry_run(planned, arguments)
    results = report.carried_out(planned, options, filter_name)
    if arguments.json:
        skipped = report.skipped_json(planned.skipped)
        records = report.records_json(results.records, results.standing)
        report.print_json({"filter": filter_name, "records": records, "skipped": skipped})
    else:
        print(_headline(dataset, wanted.setting, filter_name), results, sep="\n\n")
    return 0 if results.ok else 1


def _headline(dataset: Dataset, setting: Setting, filter_name: str) -> str:
    from xmcbench.metrics import protocol

    counts = dataset.counts()
    return (
        f"{dataset.name} ({counts['train']:,} train, {counts['test']:,} test, {counts['labels']:,} labels), "
        f"{setting.title}, filter {filter_name}, metric protocol {protocol.VERSION}. "
        "Percent ± half-width of the 95% interval over test instances and, with several seeds, seeds."
    )
