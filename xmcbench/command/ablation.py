"""Run the rows of a method's ablation and print them with the components that each row has.

A method defines its rows as changes of its parameters. Work that rows share is done once. Finished rows are not run
again: after Ctrl-C, the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from xmcbench.command import flags, request

if TYPE_CHECKING:
    from xmcbench.results import Ablated


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench ablation``."""
    what = parser.add_argument_group("what is compared")
    flags.add_dataset(what)
    what.add_argument("--method", metavar="NAME", help="default: the only method that defines an ablation")
    flags.add_setting(what, default="ez", help="default: %(default)s")
    flags.add_methods(what)
    flags.add_config(what)
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    flags.add_dry_run(how)
    shown = parser.add_argument_group("what is shown")
    flags.add_shown(shown)


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute every row; 1 if one failed."""
    from xmcbench.command import report
    from xmcbench.experiment import AblationRun, only_ablation

    options = request.options(arguments)
    registry = request.noted(options.registry())
    method = arguments.method or only_ablation(registry)
    grids = [request.grid(each, (method,)) for each in arguments.grids]
    planned = AblationRun.planned(grids, options, registry, arguments.filter)
    if arguments.dry_run:
        return report.dry_run(planned, arguments.json)
    report.warn_skipped(planned.plan.skipped)
    results = report.carried_out(planned)
    if arguments.json:
        by_row = {row: report.records_json(each, results.standing) for row, each in results.by_row.items()}
        skipped = report.skipped_json(planned.plan.skipped)
        report.print_json(
            {"filter": report.filter_json(planned.filter, results.parts()), "rows": by_row, "skipped": skipped}
        )
    else:
        shown = [f"{_headline(part)}\n\n{part.tables()}".strip() for part in results.parts()]
        print(*shown, *results.problems(), sep="\n\n")
    return 0 if results.ok else 1


def _headline(part: Ablated) -> str:
    dataset, setting = part.records[0].cell.dataset, part.records[0].cell.setting
    return (
        f"{dataset}, {setting.title}, filter {part.filter}. "
        "Percent ± half-width of the 95% interval over test instances and, with several seeds, seeds."
    )
