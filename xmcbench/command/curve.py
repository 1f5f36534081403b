"""Run methods at several shares of known labels or pairs, and draw the coverage curves.

Share 0 is the zero-shot setting, 1 all pairs. Methods that never look at pairs run once and are flat lines. Finished
cells are not run again, so the same command after Ctrl-C goes on; --no-run draws what there is and names what is
missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import request
from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.records import Record, Standing, Store
    from xmcbench.registry import Registry
    from xmcbench.runner.plan import Plan


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench curve``."""
    what = parser.add_argument_group("what is compared")
    request.add_dataset(what)
    what.add_argument("--methods", required=True, metavar="A,B", help="NAME or NAME:PRESET")
    what.add_argument(
        "--ratios",
        default="0,0.01,0.05,0.1,0.25,0.5,1",
        metavar="R,R",
        help="shares that are known (default: %(default)s)",
    )
    what.add_argument("--by", choices=("label", "pair"), default="label", help="what is drawn (default: %(default)s)")
    request.add_methods(what)
    how = parser.add_argument_group("how it runs")
    request.add_execution(how)
    how.add_argument("--no-run", action="store_true", help="run nothing, draw what there is")
    drawn = parser.add_argument_group("what is drawn")
    drawn.add_argument("--metric", default="P@5,R@100", metavar="M[,M..]", help="default: %(default)s")
    request.add_filter(drawn)
    drawn.add_argument("--out", type=Path, metavar="DIR", help="where figures go (default: curves/ in the runs folder)")
    drawn.add_argument("--png", action="store_true", help="figures as PNG too (needs resvg-py)")


def run(arguments: argparse.Namespace) -> int:
    """Execute what is missing, draw; 1 if a cell failed or there is nothing to draw."""
    from xmcbench.command import report
    from xmcbench.leaderboard import raster
    from xmcbench.records import Standing, Store
    from xmcbench.registry import Registry
    from xmcbench.runner.execution import Place, execute

    ratios, metrics = _ratios(arguments.ratios), _metrics(arguments.metric)
    if arguments.png:
        raster.require()
    limits, compute = request.limits(arguments), request.compute(arguments)
    dataset, filter_name = request.filtered(arguments)
    store, registry = Store(arguments.runs), Registry(arguments.plugin)
    plans = _plans(arguments, dataset, registry, store, ratios)
    standing = Standing({name: source for _, each in plans for name, source in each.standing.sources.items()})
    records: list[Record] = []
    expected = []
    for ratio, planned in plans:
        for each in planned.cells:  # a finished one is called as when it ran
            finished = each.record if each.state != "to run" else None
            expected.append((finished.name if finished else each.name, ratio, each.cell.seed))
        if arguments.no_run:
            records += [each.record for each in planned.cells if each.record]
            continue
        place, progress = Place(dataset, arguments.dataset, store, limits, compute), report.Progress(len(planned.cells))
        records += execute(planned, place, progress, arguments.force)
    out = arguments.out or arguments.runs / "curves"
    drawn = _draw(records, arguments.by, metrics, filter_name, ratios, expected, standing, out, arguments.png)
    for name, problem in report.stale(records, standing):
        print(f"{name}: {problem}")
    lost = [record for record in records if not record.ok]
    for record in lost:
        where = f"{record.cell.setting.slug}, seed {record.cell.seed}"
        print(f"{record.name}, {where}: {record.status}: {record.reason}")
    return 0 if drawn and not {record.status for record in lost} & {"failed", "timeout"} else 1


def _draw(
    records: list[Record],
    by: str,
    metrics: list[str],
    filter_name: str,
    ratios: list[float],
    expected: list[tuple[str, float, int]],
    standing: Standing,
    out: Path,
    png: bool,
) -> bool:
    """Write the figure of every metric and print its points."""
    from xmcbench.leaderboard import drawing, raster, write
    from xmcbench.leaderboard.curves import curve, table
    from xmcbench.leaderboard.markup import plain

    drawn = [curve(records, by, metric, filter_name, ratios, expected, standing) for metric in metrics]
    for made in drawn:
        if made is None:
            print("there is no result to draw")
            return False
        files = drawing(made)
        write(out, files)
        names = [*files]
        if png:
            names.append(f"{made.stem}.png")
            raster.write_png(files[f"{made.stem}.svg"], out / names[-1])
        print(f"{made.metric} on {made.dataset}, in per cent, by share of the {made.by}s; filter {made.filter}\n")
        print(plain(table(made)), *(f"missing: {each}" for each in made.missing), sep="\n")
        print(f"\n{', '.join(str(out / name) for name in names)}\n")
    return True


def _plans(
    arguments: argparse.Namespace, dataset: Dataset, registry: Registry, store: Store, ratios: list[float]
) -> list[tuple[float, Plan]]:
    """What runs at each share: methods that never look at pairs once, those that need pairs not at 0."""
    from xmcbench.leaderboard.curves import setting_at
    from xmcbench.runner.plan import Request, plan

    names = request.methods(arguments.methods)
    if "all" in names:
        raise UsageError("a curve is drawn of methods that are named", "--methods tfidf,xr-linear")
    supervision = {name: registry[name.partition(":")[0]].usable().supervision for name in names}
    overrides, seeds = request.overrides(arguments.set), request.seeds(arguments.seed)
    for name in overrides:
        if name not in {each.partition(":")[0] for each in names}:
            raise UsageError(f"--set names {name!r}, which is not among the methods of this curve")
    plans = []
    for flat in (True, False):
        for ratio in [0.0] if flat else ratios:
            chosen = [
                name
                for name in names
                if (supervision[name] == "unused") == flat and (ratio or supervision[name] != "required")
            ]
            if chosen:
                own = {name: each for name, each in overrides.items() if name in {x.partition(":")[0] for x in chosen}}
                setting = setting_at(ratio, arguments.by)
                wanted = Request(setting, chosen, arguments.preset, own, seeds[:1] if flat else seeds, beside=names)
                plans.append((ratio, plan(wanted, dataset, registry, store, arguments.force, arguments.refresh)))
    return plans


def _ratios(text: str) -> list[float]:
    try:
        ratios = sorted({float(each) for each in text.split(",")})
    except ValueError:
        raise UsageError(f"--ratios {text!r} is no list of shares", "--ratios 0,0.01,0.1,1") from None
    if any(not 0 <= ratio <= 1 for ratio in ratios):
        raise UsageError(f"--ratios {text}: a share lies in 0..1", "0 is zero-shot, 0.01 is 1%, 1 is all pairs")
    return ratios


def _metrics(text: str) -> list[str]:
    from xmcbench.errors import UnknownName
    from xmcbench.metrics import METRICS

    metrics = [each.strip() for each in text.split(",") if each.strip()]
    for metric in metrics:
        if metric not in METRICS:
            raise UnknownName("metric", metric, METRICS)
    if not metrics:
        raise UsageError("--metric names none", "--metric P@5,R@100")
    return metrics
