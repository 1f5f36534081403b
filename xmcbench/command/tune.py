"""Search the parameters of a method on training instances that are held out; needs Optuna.

No test instance is read. Each trial is a cell like those of `run`, so the same command, or one with more trials, finds
those that are finished. Trial 0 has the values of the preset.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from xmcbench.command import flags, report, request
from xmcbench.output.layout import fill

if TYPE_CHECKING:
    from xmcbench.tuning import Trial


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench tune``."""
    what = parser.add_argument_group("what is searched")
    what.add_argument("method", metavar="METHOD", help="name, with :PRESET if needed")
    flags.add_dataset(what, several=False)
    flags.add_setting(what, several=False, default=None, help="default: full if the method uses pairs")
    what.add_argument("--trials", type=flags.positive, default=20, metavar="N", help="number of trials (default: 20)")
    what.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="PARAM[=LOW..HIGH|=A,B]",
        help="a parameter to search; may be repeated (default: all that declare a range or a few choices, except those "
        "that --set gives)",
    )
    flags.add_methods(what, several=False)
    how = parser.add_argument_group("how it runs")
    flags.add_execution(how)
    shown = parser.add_argument_group("what is shown")
    flags.add_metric(shown)
    flags.add(shown, "filter")
    flags.path(shown, "figure", "FILE.svg", "draw the metric by trial")


def run(arguments: argparse.Namespace) -> int:
    """Run the trials, and print them and the flags of the best one."""
    from xmcbench.data.catalog import load_dataset
    from xmcbench.leaderboard.files import check_chart, write_chart
    from xmcbench.tuning import hold_out, tune

    def progress(trial: Trial) -> None:
        said = f"{100 * trial.value:.2f}" if trial.value is not None else trial.reason
        print(f"trial {trial.number}: {arguments.metric} {said}", file=sys.stderr, flush=True)

    if arguments.figure is not None:
        check_chart(arguments.figure)
    options = request.options(arguments)
    registry = request.registry(options.plugins, options.limits.time_s)
    place = request.only_dataset(arguments)
    report.show_notes([load_dataset(hold_out(place))])
    grid = request.grid(arguments, [arguments.method], dataset=place)
    search, metric = arguments.search, arguments.metric
    found = tune(grid, arguments.trials, metric, search, arguments.filter, options, registry, progress=progress)
    print(found.table(), "", fill(str(found)), sep="\n")
    if arguments.figure is not None:
        write_chart(arguments.figure, found.chart())
        print(arguments.figure)
    return 0
