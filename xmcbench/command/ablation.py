"""Run the rows of a method's ablation and print them with the components that each row has.

A method defines its rows as changes of its parameters. Work that rows share is done once. Finished rows are not run
again: after Ctrl-C, the same command continues where it stopped.
"""

from __future__ import annotations

import argparse

from xmcbench.command import request


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench ablation``."""
    what = parser.add_argument_group("what is compared")
    request.add_dataset(what)
    what.add_argument("--method", metavar="NAME", help="default: the only method that defines an ablation")
    request.add_setting(what, default="ez", help="default: %(default)s")
    request.add_methods(what)
    how = parser.add_argument_group("how it runs")
    request.add_execution(how)
    request.add_dry_run(how)
    shown = parser.add_argument_group("what is shown")
    request.add_shown(shown)


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute every row; 1 if one failed."""
    from xmcbench.api import ablated, ablation_requests, filter_of, only_ablation
    from xmcbench.command import report
    from xmcbench.runner.plan import resolve

    options = request.options(arguments)
    registry = report.registry(options)
    requests = ablation_requests(
        request.dataset(arguments),
        arguments.method or only_ablation(registry),
        request.setting(arguments),
        registry,
        preset=arguments.preset,
        overrides=request.overrides(arguments.set),
        seeds=request.seeds(arguments.seed),
    )
    resolve([*requests.values()], registry)
    planned = options.planned([*requests.values()], registry)
    dataset = planned.cells[0].dataset
    filter_name = filter_of(dataset, arguments.filter)
    if arguments.dry_run:
        return report.dry_run(planned, arguments)
    records = report.carried_out(planned, options, filter_name).records
    results = ablated(planned, [*requests], records, filter_name, options.runs)
    if arguments.json:
        rows = {row: report.records_json(each, results.standing) for row, each in results.by_row.items()}
        report.print_json({"filter": filter_name, "rows": rows})
    else:
        headline = f"{dataset.name}, filter {filter_name}. Percent ± half-width of the 95% interval over test instances"
        print(f"{headline} and, with several seeds, seeds.", results, sep="\n\n")
    return 0 if all(record.finished for record in results.records) else 1
