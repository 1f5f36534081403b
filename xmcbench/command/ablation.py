"""Run the rows of a method's ablation and print them with the components that each row has.

A method defines its rows as changes of its parameters. Work that rows share is done once. Finished rows are not run
again: after Ctrl-C, the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from xmcbench.command import flags, report, request
from xmcbench.command.terminal import print_results

if TYPE_CHECKING:
    from xmcbench.results import Ablated


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench ablation``."""
    what = parser.add_argument_group("what is compared")
    flags.add_dataset(what)
    what.add_argument("--method", metavar="NAME", help="default: the only method that defines an ablation")
    flags.add_setting(what, default=["ez"], help="default: ez")
    flags.add_methods(what)
    flags.add(what, "config")
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    flags.add(how, "dry-run")
    shown = parser.add_argument_group("what is shown")
    flags.add(shown, "filter", "json")


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute every row; 1 if one failed."""
    from xmcbench.arguments import make_grids
    from xmcbench.experiment import only_ablation, plan_ablation

    options = request.options(arguments)
    registry = request.registry(options.plugins, options.limits.time_s)
    method = arguments.method or only_ablation(registry)
    grids, _ = make_grids([request.grid(given, [method]) for given in arguments.grids], options)
    planned = plan_ablation(grids, options, registry, arguments.filter)
    if arguments.dry_run:
        return report.dry_run(planned, arguments.json)
    report.show_notes(cell.dataset for cell in planned.plan.cells)
    report.warn_skipped(planned.plan.skipped)
    results = report.execute(planned)
    if arguments.json:
        rows = {row: report.records_json(records, results.staleness) for row, records in results.by_row.items()}
        report.print_json({**report.results_json(results), "rows": rows})
    else:
        shown = [f"{_headline(part)}\n\n{part.tables()}".strip() for part in results.parts()]
        print_results(*shown, *results.problems())
    return 0 if results.ok else 1


def _headline(part: Ablated) -> str:
    dataset, setting = part.records[0].cell.dataset, part.records[0].cell.setting
    return (
        f"{dataset}, {setting.title}, filter {part.filter}. "
        "Percent ± half-width of the 95% interval over test instances and, with several seeds, seeds."
    )
