"""Show where two rows differ: in which slices of the test instances, and on which instances.

A and B are rows as in `xmcbench compare`. A slice is a group of instances by length, number of labels, training pairs
of the labels, known pairs, or words shared with the labels. For each slice, the difference A - B inside is tested
against the difference outside, with Holm's correction over all slices. Then come the instances that moved most, with
texts, true labels and ranks. It uses only the ranks that are stored with the records. Showing texts requires the
dataset, and showing rankings requires the predictions.

  xmcbench explain tfidf bm25 --setting ez
  xmcbench explain ict:small tfidf: --dataset lf-debian-20k --setting ez --runs leaderboards --html explain.html
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from xmcbench.command import flags, request
from xmcbench.output.layout import fill


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench explain``."""
    flags.add_rows(parser)
    flags.add_metric(parser)
    parser.add_argument(
        "--instances", type=int, default=5, metavar="N", help="instances listed for each direction (default: 5)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the explanation as an HTML page")
    parser.add_argument("--force", action="store_true", help="replace FILE")
    flags.add_plugin(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Select, test and print. The exit code does not depend on the difference."""
    from xmcbench.analysis.explain import explain
    from xmcbench.analysis.explanation_page import write_page
    from xmcbench.command import report

    if arguments.html:
        report.check_new(arguments.html, arguments.force)
    comparison = request.comparison(arguments)
    found = explain(comparison, arguments.metric, arguments.instances, request.place(arguments))
    print(json.dumps(found.as_json(), indent=1) if arguments.json else fill(str(found)))
    if arguments.html:
        write_page(found, arguments.html)
    return max(report.warn_left_out(store) for store in {comparison.first.store, comparison.second.store})
