"""Run methods on datasets under settings, and print a table for each dataset and setting.

Datasets, settings, ratios, seeds and values of --set can be lists: what runs is their product. Finished cells are kept
in --runs and not run again: after Ctrl-C, the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from xmcbench.command import flags, report, request
from xmcbench.command.terminal import print_results
from xmcbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xmcbench.plugins.registry import Registry
    from xmcbench.results import Results
    from xmcbench.runner.grid import Grid


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench run``."""
    what = parser.add_argument_group("what is compared")
    flags.add_dataset(what)
    what.add_argument(
        "--limit",
        type=flags.positive,
        metavar="N",
        help="use N training and N test instances at most, drawn; such results are named NAME+limitN, and on no board",
    )
    flags.add_setting(what, required=True, help="zero-shot, few-shot or all pairs")
    what.add_argument(
        "--methods",
        type=flags.texts,
        default=["all"],
        metavar="A,B|all",
        help="names, each with :PRESET if needed, or all that can run (default: all)",
    )
    flags.add_methods(what)
    flags.add(what, "config")
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    flags.add(how, "dry-run")
    how.add_argument(
        "--shard",
        metavar="I/N",
        help="run the I-th of N parts of the cells; the others run elsewhere, on the same --runs",
    )
    how.add_argument("--only", choices=("pretrain",), help="run only the shared pre-training")
    shown = parser.add_argument_group("what is shown")
    flags.add(shown, "filter", "json")
    shown.add_argument(
        "--metrics",
        type=flags.texts,
        metavar="M[,M..]",
        help="columns of the table, such as P@1,R@100,PSP@5; `ls results --metrics` also has those beyond the protocol",
    )
    shown.add_argument(
        "--best",
        metavar="M",
        help="also name the best row of each method by this metric; needs --dev or a dataset such as lf-debian-20k-dev",
    )


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute; 1 if a cell failed or no cell has a result."""
    from xmcbench.arguments import make_grids
    from xmcbench.choice import check_choosable, choices
    from xmcbench.experiment import plan_run
    from xmcbench.runner.schedule import Shard

    options = request.options(arguments)
    if arguments.best is not None:
        _check_best(arguments)
    _check_metrics(arguments.metrics or ())
    shard = Shard.parse(arguments.shard) if arguments.shard is not None else None
    grids, _ = make_grids([request.grid(given, given.methods) for given in arguments.grids], options)
    registry = request.registry(options.plugins, options.limits.time_s)
    try:
        planned = plan_run(grids, options, registry, arguments.filter)
    except DataError:
        if arguments.dry_run and (code := _forecast(grids, registry, arguments)) is not None:
            return code
        raise
    if arguments.best is not None:
        check_choosable(arguments.best, (cell.dataset for cell in planned.plan.cells))
    if not arguments.dry_run:  # its table has them
        report.warn_skipped(planned.plan.skipped)
    report.show_notes(cell.dataset for cell in planned.plan.cells)
    if shard is not None:
        planned = replace(planned, plan=shard.of(planned.plan))
    if not planned.plan.cells:
        print(f"xmcbench: shard {arguments.shard} has no cells", file=sys.stderr)
    if arguments.dry_run:
        return report.dry_run(planned, arguments.json)
    if arguments.only is not None:
        return report.run_pretraining(planned, arguments.json)
    results = report.execute(planned)
    results = replace(results, metrics=tuple(arguments.metrics or results.metrics))
    chosen = choices(results, arguments.best) if arguments.best is not None else []
    if arguments.json:
        best = {"best": [choice.as_json() for choice in chosen]} if chosen else {}
        records = report.records_json(results.records, results.staleness)
        report.print_json({**report.results_json(results), "records": records, **best})
    else:
        shown = [f"{_headline(part)}\n\n{part.tables()}".strip() for part in results.parts()]
        print_results(*shown, *results.problems(), *chosen)
    return 0 if results.ok or not planned.plan.cells else 1


def _check_best(arguments: argparse.Namespace) -> None:
    from xmcbench.choice import check_choosable

    if arguments.shard is not None:
        raise UsageError("--best needs all cells, and --shard runs a part", "ask for it when all shards are done")
    if arguments.only is not None:
        raise UsageError(f"--best needs results, and --only {arguments.only} makes none", "leave one of them out")
    check_choosable(arguments.best, ())


def _check_metrics(names: Sequence[str]) -> None:
    from xmcbench.metrics import METRICS, additional

    additional.check_names(names)
    if beyond := [name for name in names if name not in METRICS]:
        hint = f"xmcbench ls results --metrics {beyond[0]} computes it from the ranks"
        raise UsageError(f"{beyond[0]} is not a metric of the protocol", hint)


def _forecast(grids: Sequence[Grid], registry: Registry, arguments: argparse.Namespace) -> int | None:
    """Print what cells cost by the cards of data that are not here; None where no card has the counts."""
    from xmcbench.analysis import scale
    from xmcbench.command import forecast
    from xmcbench.runner.grid import requests_of

    requests = requests_of(grids)
    counts = scale.find_counts(requests)
    if not counts:
        return None
    if arguments.shard is not None:
        message = "--shard needs the data, on which it depends what shard a cell is in"
        raise UsageError(message, "leave it out: the forecast is of all cells")
    return forecast.show(requests, counts, registry, arguments.runs, arguments.json)


def _headline(part: Results) -> str:
    from xmcbench.metrics import protocol

    counts, setting = part.records[0].counts, part.records[0].cell.setting
    return (
        f"{part.records[0].cell.dataset} ({counts['train']:,} train, {counts['test']:,} test, "
        f"{counts['labels']:,} labels), {setting.title}, filter {part.filter}, metric protocol {protocol.VERSION}. "
        "Percent ± half-width of the 95% interval over test instances and, with several seeds, seeds."
    )
