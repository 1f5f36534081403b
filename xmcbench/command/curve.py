"""Run methods at several shares of known labels or pairs, and draw the coverage curves.

Share 0 is the zero-shot setting, share 1 is all pairs. Methods that never look at pairs run once and are flat lines.
Finished cells are not run again, so after Ctrl-C the same command continues. --no-run draws the finished cells and
lists the missing ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from xmcbench.command import flags, request
from xmcbench.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench curve``."""
    what = parser.add_argument_group("what is compared")
    flags.add_dataset(what)
    what.add_argument("--methods", required=True, metavar="A,B", help="NAME or NAME:PRESET")
    what.add_argument(
        "--ratio",
        "--ratios",
        default="0,0.01,0.05,0.1,0.25,0.5,1",
        metavar="R,R",
        help="known shares of labels or pairs, 0 to 1 (default: %(default)s)",
    )
    what.add_argument(
        "--by", choices=("label", "pair"), default="label", help="which of them are sampled (default: %(default)s)"
    )
    flags.add_methods(what)
    flags.add_config(what)
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    flags.add_dry_run(how)
    how.add_argument("--no-run", action="store_true", help="run nothing, draw the finished cells")
    drawn = parser.add_argument_group("what is drawn")
    flags.add_metric(drawn, "P@5,R@100", "M[,M..]")
    flags.add_filter(drawn)
    drawn.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the figures (default: curves/ in the runs folder)"
    )
    drawn.add_argument("--png", action="store_true", help="also write PNG (needs resvg-py)")
    drawn.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Run the missing cells and draw; 1 if a cell failed or there is nothing to draw."""
    from xmcbench.command import report
    from xmcbench.experiment import CurveRun
    from xmcbench.leaderboard import raster
    from xmcbench.leaderboard.curves import table
    from xmcbench.leaderboard.markup import plain
    from xmcbench.setting import Setting

    if arguments.no_run:
        unused = "{} runs cells, and --no-run runs nothing"
        request.check_unused(arguments, unused, "use one of them", force=False, refresh=False)
    ratios, metrics = _ratios(arguments.ratio), _metrics(arguments.metric)
    if arguments.png:
        raster.require()
    options = request.options(arguments)
    if len({(each.by, each.ratio) for each in arguments.grids}) > 1:
        raise UsageError("a curve has one axis: its grids cannot differ in --by or --ratio", "draw one curve for each")
    shares = [Setting.at(ratio, arguments.by) for ratio in ratios]
    grids = [request.grid(each, request.methods(each.methods), shares) for each in arguments.grids]
    registry, runs = request.noted(options.registry()), not arguments.no_run
    planned = CurveRun.planned(grids, options, registry, arguments.filter, arguments.by, ratios, runs)
    if arguments.dry_run:
        return report.dry_run(planned, arguments.json)
    report.warn_skipped(planned.plan.skipped)
    results = planned.finished() if arguments.no_run else report.carried_out(planned)
    out = arguments.out or arguments.runs / "curves"
    drawn = [made for part in results.parts() for metric in metrics if (made := part.curve(metric))]
    if arguments.json:
        files = results.draw(metrics, out, arguments.png)
        records_json = report.records_json(results.records, results.standing)
        report.print_json(
            {
                "filter": report.filter_json(planned.filter, results.parts()),
                "records": records_json,
                "files": [str(path) for path in files],
            }
        )
        return 0 if drawn and results.ok else 1
    for made in drawn:
        points = table(made)
        print(f"{points.caption}\n")
        print(plain(points), *(f"missing: {each}" for each in made.missing), "", sep="\n")
    if not drawn:
        print("no results to draw")
    for path in results.draw(metrics, out, arguments.png):  # after the figures, which do not depend on the files
        print(path)
    print(*results.problems(), sep="\n", end="\n" if results.problems() else "")
    return 0 if drawn and results.ok else 1


def _ratios(text: str) -> list[float]:
    ratios = sorted(request.numbers("--ratio", text, "--ratio 0,0.01,0.1,1"))
    if any(not 0 <= ratio <= 1 for ratio in ratios):
        raise UsageError(f"--ratio {text}: a share must be in 0..1", "0 is zero-shot, 0.01 is 1%, 1 is all pairs")
    return ratios


def _metrics(text: str) -> list[str]:
    from xmcbench.errors import UnknownName
    from xmcbench.metrics import METRICS

    metrics = [each.strip() for each in text.split(",") if each.strip()]
    for metric in metrics:
        if metric not in METRICS:
            raise UnknownName("metric", metric, METRICS)
    if not metrics:
        raise UsageError("--metric is empty", "--metric P@5,R@100")
    return metrics
