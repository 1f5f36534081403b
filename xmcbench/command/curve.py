"""Run methods at several shares of known labels or pairs, and draw the coverage curves.

Share 0 is the zero-shot setting, share 1 is all pairs. Methods that never look at pairs run once and are flat lines.
Finished cells are not run again, so after Ctrl-C the same command continues. --no-run draws the finished cells and
lists the missing ones.
"""

from __future__ import annotations

import argparse

from xmcbench.command import flags, report, request
from xmcbench.errors import UnknownName, UsageError
from xmcbench.output.layout import fill


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench curve``."""
    what = parser.add_argument_group("what is compared")
    flags.add_dataset(what)
    what.add_argument("--methods", type=flags.texts, required=True, metavar="A,B", help="NAME or NAME:PRESET")
    what.add_argument(
        "--ratio",
        "--ratios",
        type=flags.numbers,
        default="0,0.01,0.05,0.1,0.25,0.5,1",
        metavar="R,R",
        help="known shares of labels or pairs, 0 to 1 (default: %(default)s)",
    )
    what.add_argument(
        "--by", choices=("label", "pair"), default="label", help="which of them are sampled (default: %(default)s)"
    )
    flags.add_methods(what)
    flags.add(what, "config")
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    flags.add(how, "dry-run")
    flags.switch(how, "no-run", "run nothing, draw the finished cells")
    drawn = parser.add_argument_group("what is drawn")
    flags.add_metric(drawn, "P@5,R@100", "M[,M..]", type=flags.texts)
    flags.add(drawn, "filter")
    flags.path(drawn, "out", "DIR", "folder for the figures (default: curves/ in the runs folder)")
    flags.switch(drawn, "png", "also write PNG (needs resvg-py)")
    flags.switch(drawn, "pdf", "also write PDF (needs cairosvg)")
    flags.add(drawn, "json")


def run(arguments: argparse.Namespace) -> int:
    """Run the missing cells and draw; 1 if a cell failed or there is nothing to draw."""
    from xmcbench.arguments import make_grids
    from xmcbench.experiment import plan_curve
    from xmcbench.leaderboard import rendering
    from xmcbench.leaderboard.curves import table
    from xmcbench.leaderboard.markup import plain
    from xmcbench.metrics import METRICS
    from xmcbench.setting import Setting

    if arguments.no_run:
        unused = "{} runs cells, and --no-run runs nothing"
        request.check_unused(arguments, unused, "use one of them", force=False, refresh=False)
    ratios, metrics = sorted(arguments.ratio), arguments.metric
    if unknown := [metric for metric in metrics if metric not in METRICS]:
        raise UnknownName("metric", unknown[0], METRICS)
    formats = [kind for kind in rendering.FORMATS if getattr(arguments, kind)]
    for kind in formats:
        rendering.require(kind)
    options = request.options(arguments)
    if len({(given.by, *given.ratio) for given in arguments.grids}) > 1:
        raise UsageError("a curve has one axis: its grids cannot differ in --by or --ratio", "draw one curve for each")
    shares = [Setting.at(ratio, arguments.by) for ratio in ratios]
    grids, _ = make_grids([request.grid(given, given.methods) for given in arguments.grids], options, shares)
    registry = request.registry(options.plugins, options.limits.time_s)
    planned = plan_curve(grids, options, registry, arguments.filter, arguments.by, ratios, not arguments.no_run)
    if arguments.dry_run:
        return report.dry_run(planned, arguments.json)
    report.show_notes(cell.dataset for cell in planned.plan.cells)
    report.warn_skipped(planned.plan.skipped)
    results = planned.load_finished() if arguments.no_run else report.execute(planned)
    out = arguments.out or arguments.runs / "curves"
    drawn = [made for part in results.parts() for metric in metrics if (made := part.curve(metric))]
    if arguments.json:
        files = results.draw(metrics, out, formats)
        records = report.records_json(results.records, results.staleness)
        report.print_json({**report.results_json(results), "records": records, "files": [*map(str, files)]})
        return 0 if drawn and results.ok else 1
    for made in drawn:
        points = table(made)
        print(fill(f"{points.caption}\n"))
        print(plain(points), *(f"missing: {point}" for point in made.missing), "", sep="\n")
    if not drawn:
        print("no results to draw")
    for path in results.draw(metrics, out, formats):  # after the figures, which do not depend on the files
        print(path)
    print(*results.problems(), sep="\n", end="\n" if results.problems() else "")
    return 0 if drawn and results.ok else 1
