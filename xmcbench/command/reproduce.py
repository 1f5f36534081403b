"""Run a recorded cell again, and compare its figures.

KEY is the first letters of a record's key, as on its page. On the same class of machine no figure may change by more
than 0.05 points. On another class, no metric may differ significantly: from the recorded seeds if there are several,
otherwise over the test instances. The new run goes to --out; exit code 1 if the figures differ.

  xmcbench reproduce 3f2a91c0d4e5 --runs leaderboards
"""

from __future__ import annotations

import argparse
from pathlib import Path

from xmcbench.command import flags, report, request
from xmcbench.command.leaderboard import BOARD


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench reproduce``."""
    parser.add_argument("key", metavar="KEY", help="the beginning of a record's key")
    flags.path(parser, "runs", "DIR", "default: ./leaderboards if there are records in it, otherwise ./runs")
    flags.path(parser, "out", "DIR", "runs folder of the new run (default: ./reproduced)", default=Path("reproduced"))
    parser.add_argument("--dataset", metavar="NAME|PLACE", help="default: the name in the record")
    flags.add(parser, "columns")
    flags.add_limits(parser)
    flags.add(parser, "device", "processes", "plugin", "json")


def run(arguments: argparse.Namespace) -> int:
    """Run, compare, print."""
    from xmcbench.analysis.reproduction import reproduce

    found = reproduce(
        arguments.key,
        # Pages of the board, in a clone of the project, print this command.
        runs=arguments.runs or (BOARD if (BOARD / "records").is_dir() else Path("runs")),
        into=request.target(arguments, arguments.out),
        registry=request.registry(arguments.plugin),
        dataset=request.place(arguments),
    )
    report.show(found, arguments.json)
    return 0 if found.agrees else 1
