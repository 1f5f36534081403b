"""Estimate how many test instances and seeds show a difference, from the variance of stored results.

Without A and B, it covers all pairs of rows of each dataset and setting. The answer is for the test that
`xmcbench compare` makes, at the 5% level. It uses only the ranks that are stored with the records.

  xmcbench power --detect 2 --dataset lf-debian-20k --setting ez --runs leaderboards
  xmcbench power tfidf: bm25 --detect 1 --dataset lf-debian-20k --setting ez --runs leaderboards
"""

from __future__ import annotations

import argparse
import json

from xmcbench.command import flags, report, request
from xmcbench.errors import UsageError
from xmcbench.output.layout import fill


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench power``."""
    parser.add_argument("first", nargs="?", metavar="A", help=f"{flags.ROW} (default: all pairs of rows)")
    parser.add_argument("second", nargs="?", metavar="B", help=flags.OTHER_ROW)
    parser.add_argument("--detect", type=float, required=True, metavar="POINTS", help="the difference, in points")
    flags.add_metric(parser)
    parser.add_argument("--power", type=float, default=80.0, metavar="PERCENT", help="default: 80")
    flags.add_choice(parser)
    flags.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    """Compute and print."""
    from xmcbench.analysis.power import find_needed
    from xmcbench.records import Store

    if (arguments.first is None) != (arguments.second is None):
        raise UsageError("power needs two rows, or none", "xmcbench power A B --detect 0.5")
    store, rows, detect = Store(arguments.runs), (arguments.first, arguments.second), arguments.detect / 100
    conditions, power = request.conditions(arguments, request.staleness(arguments)), arguments.power / 100
    found = find_needed(*rows, detect, arguments.metric, power, store, conditions, arguments.filter)
    if arguments.json:
        print(json.dumps([needed.as_json() for needed in found], indent=1))
    else:
        print(fill("\n\n\n".join(map(str, found))))
    return report.warn_left_out(store)
