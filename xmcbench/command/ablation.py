"""Run the rows of a method's ablation and print them beside the components that each has.

A method names the rows itself, as changes of its parameters. What rows have in common is done once, and finished rows
are not run again: the same command after Ctrl-C goes on where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xmcbench.command import request
from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.records import Record, Standing, Store
    from xmcbench.registry import Registry
    from xmcbench.runner.plan import Plan


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench ablation``."""
    what = parser.add_argument_group("what is compared")
    request.add_dataset(what)
    what.add_argument("--method", metavar="NAME", help="default: the one installed method that names rows")
    request.add_setting(what, default="ez", help="default: %(default)s")
    request.add_methods(what)
    how = parser.add_argument_group("how it runs")
    request.add_execution(how)
    request.add_dry_run(how)
    shown = parser.add_argument_group("what is shown")
    request.add_shown(shown)


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute every row; 1 if one failed."""
    from xmcbench.command import report
    from xmcbench.records import Standing, Store
    from xmcbench.registry import Registry
    from xmcbench.runner.execution import Place, execute

    limits, compute = request.limits(arguments), request.compute(arguments)
    registry, store = Registry(arguments.plugin), Store(arguments.runs)
    name = arguments.method or _only_ablation(registry)
    ablation = registry[name.partition(":")[0]].usable().ablation
    if not ablation:
        raise UsageError(f"{name} names no rows of an ablation", "its class attribute `ablation` would")
    dataset, filter_name = request.filtered(arguments)
    plans = _plans(arguments, name, ablation, dataset, registry, store)
    if arguments.dry_run:
        if arguments.json:
            report.print_json({"rows": {row: report.plan_json(planned, store) for row, planned in plans.items()}})
            return 0
        for row, planned in plans.items():
            print(f"row {row}", report.plan_table(planned, store), sep="\n", end="\n\n")
        return 0
    records: dict[str, list[Record]] = {}
    for row, planned in plans.items():
        place, progress = Place(dataset, arguments.dataset, store, limits, compute), report.Progress(len(planned.cells))
        records[row] = execute(planned, place, progress, arguments.force)
    standing = Standing({name: source for each in plans.values() for name, source in each.standing.sources.items()})
    if arguments.json:
        rows = {row: report.records_json(each, standing) for row, each in records.items()}
        report.print_json({"filter": filter_name, "rows": rows})
    else:
        print(_table(dataset.name, filter_name, ablation, records, standing))
    return 0 if all(record.ok for each in records.values() for record in each) else 1


def _only_ablation(registry: Registry) -> str:
    found = [entry.name for entry in registry if entry.method is not None and entry.method.ablation]
    if len(found) != 1:
        known = ", ".join(found) or "none does"
        raise UsageError(f"--method is needed: methods that name rows of an ablation: {known}")
    return found[0]


def _plans(
    arguments: argparse.Namespace,
    name: str,
    ablation: Mapping[str, Mapping[str, object]],
    dataset: Dataset,
    registry: Registry,
    store: Store,
) -> dict[str, Plan]:
    """The cells of each row: the row's parameters go before those of --set, which may not name them."""
    from xmcbench.runner.plan import Request, plan

    setting = request.setting(arguments)
    method, seeds = name.partition(":")[0], request.seeds(arguments.seed)
    given = request.overrides(arguments.set)
    plans = {}
    for row, changes in ablation.items():
        own = given.get(method, {})
        for parameter in set(own) & set(changes):
            raise UsageError(f"--set {method}.{parameter} is what the rows of the ablation change")
        wanted = Request(setting, (name,), arguments.preset, {**given, method: {**own, **changes}}, seeds)
        plans[row] = plan(wanted, dataset, registry, store, arguments.force, arguments.refresh)
    return plans


def _table(
    dataset: str,
    filter_name: str,
    ablation: Mapping[str, Mapping[str, object]],
    records: Mapping[str, Sequence[Record]],
    standing: Standing,
) -> str:
    """The rows in the method's order, components first, as the paper's table; then what failed."""
    from xmcbench.leaderboard.markup import plain
    from xmcbench.leaderboard.rows import rows
    from xmcbench.leaderboard.tables import MAIN, Cell, Column, Line, Table, metric_table

    components = list(dict.fromkeys(name for changes in ablation.values() for name in changes))
    made = {row: rows(each, filter_name, standing)[0] for row, each in records.items()}
    done = {row: each for row, each in made.items() if each.figures}
    # One table of all rows, so that every row has the column of seeds if one has.
    measured = metric_table(list(done.values()), MAIN)
    lines = [
        Line(row, (*(Cell(_shown(ablation[row].get(name))) for name in components), *line.cells))
        for row, line in zip(done, measured.lines, strict=True)
    ]
    heads = [Column("", name.replace("_", " ")) for name in components]
    table = Table(measured.name, measured.caption, "Row", (*heads, *measured.columns), tuple(lines))
    problems = [f"row {row}: {each}" for row, own in made.items() for each in (*own.problems, *own.marks)]
    headline = f"{dataset}, filter {filter_name}. Per cent ± half-width of the 95% interval over test instances."
    return "\n\n".join([headline, *([plain(table)] if lines else []), *problems])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
