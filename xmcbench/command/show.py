"""Show what a row predicts for one test instance, or for a text of your own.

METHOD is a row as in `xmcbench compare`. --instance reads stored predictions; without these it shows the ranks of the
true labels. --text trains the method as its cell does and asks it; a method without a stored result is trained too.

  xmcbench show tfidf --instance 0install-core --dataset lf-debian-20k --setting ez
  xmcbench show bm25 --text "a web server in Rust"
"""

from __future__ import annotations

import argparse

from xmcbench.command import flags, report, request
from xmcbench.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench show``."""
    parser.add_argument("method", metavar="METHOD", help=flags.ROW)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--instance", metavar="UID", help="a test instance of the dataset")
    what.add_argument("--text", metavar="TEXT", help="any text: a title, or title, TAB and content")
    parser.add_argument("-k", type=int, default=10, metavar="K", help="labels shown (default: 10)")
    flags.add_choice(parser)
    flags.add(parser, "plugin")
    flags.add_limits(parser)
    flags.add(parser, "device", "processes", "json")


def run(arguments: argparse.Namespace) -> int:
    """Look the prediction up, or make it, and print it."""
    from xmcbench.analysis import prediction
    from xmcbench.records import Store

    store, registry = Store(arguments.runs), request.registry(arguments.plugin)
    staleness = registry.staleness(arguments.runs)
    conditions = request.conditions(arguments, staleness)
    if arguments.instance is not None:
        unused, hint = "{} can only be used with --text", "--instance reads a stored result and runs nothing"
        request.check_unused(arguments, unused, hint, **flags.LIMITS, **flags.DEVICE)
        shown = prediction.show_instance(
            arguments.method,
            arguments.instance,
            store=store,
            conditions=conditions,
            filter_name=arguments.filter,
            k=arguments.k,
            staleness=staleness,
        )
    else:
        if arguments.filter is not None:
            raise UsageError("--filter can only be used with --instance", "--text is not an instance of the dataset")
        place = request.target(arguments, arguments.runs)
        shown = prediction.show_text(
            arguments.method, arguments.text, place=place, registry=registry, conditions=conditions, k=arguments.k
        )
    report.show(shown, arguments.json)
    return report.warn_left_out(store)
