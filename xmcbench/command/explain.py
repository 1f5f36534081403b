"""Show where two rows differ, in slices and instances; of one row, how well it predicts each label.

A and B are rows as in `xmcbench compare`. A slice is a group of instances by length, number of labels, training pairs
of the labels, known pairs, or words shared with the labels. For every slice, the difference A - B inside is tested
against the difference outside, with Holm's correction over all slices. Then come the instances that moved most, with
texts, true labels and ranks. It uses only the ranks that are stored with the records. Showing texts requires the
dataset, and showing rankings requires the predictions.

With one row, the figures of each label follow: true pairs, and precision, recall and F1 among the first k predictions,
with the label that is most often predicted first in its place. Precision and confusions need stored predictions.
With --threshold-from, a threshold on scores is chosen on the same row of another dataset.

  xmcbench explain tfidf bm25 --setting ez
  xmcbench explain tfidf --setting ez --csv labels.csv
  xmcbench explain tfidf --dataset docs.csv --setting full --threshold-from "docs.csv?dev=0.3"
  xmcbench explain ict:small tfidf: --dataset lf-debian-20k --setting ez --runs leaderboards --html explain.html
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xmcbench.command import flags, report, request

if TYPE_CHECKING:
    from xmcbench.records.selection import Conditions, Selected

#: The defaults of the flags for two rows.
_OF_TWO: dict[str, Any] = {"metric": "P@1", "instances": 5, "html": None}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench explain``."""
    flags.add_rows(parser, optional=True)
    flags.add_metric(parser, default=_OF_TWO["metric"])
    parser.add_argument(
        "--instances",
        type=int,
        default=_OF_TWO["instances"],
        metavar="N",
        help="instances listed per direction (default: 5)",
    )
    flags.path(parser, "html", "FILE", "also write the explanation as an HTML page")
    parser.add_argument("-k", type=int, default=5, metavar="K", help="of one row: predictions that count (default: 5)")
    flags.path(parser, "csv", "FILE", "of one row: also write a line per label")
    parser.add_argument(
        "--threshold-from",
        metavar="PLACE",
        help="of one row: choose a threshold on the scores of its row on this dataset, such as docs.csv?dev=0.3, and "
        "print micro and macro F1 at it",
    )
    flags.switch(parser, "force", "replace FILE")
    flags.add(parser, "plugin", "json")


def run(arguments: argparse.Namespace) -> int:
    """Select, test and print. The exit code does not depend on the difference."""
    if arguments.second is None:
        return _by_label(arguments)
    request.check_unused(arguments, "{} is for one row", "leave out the second one", k=5, csv=None, threshold_from=None)
    from xmcbench.analysis.explain import explain
    from xmcbench.analysis.explanation_page import write_page

    if arguments.html:
        report.check_new(arguments.html, arguments.force)
    comparison = request.comparison(arguments)
    found = explain(comparison, arguments.metric, arguments.instances, request.place(arguments))
    report.show(found, arguments.json)
    if arguments.html:
        write_page(found, arguments.html)
    return max(report.warn_left_out(store) for store in {comparison.first.store, comparison.second.store})


def _by_label(arguments: argparse.Namespace) -> int:
    from xmcbench.analysis.by_label import explain_by_label
    from xmcbench.records import Store
    from xmcbench.records.selection import choose_row

    request.check_unused(arguments, "{} is for two rows", "name another row", **_OF_TWO)
    if arguments.csv:
        report.check_new(arguments.csv, arguments.force)
    if arguments.by == "label" and arguments.setting != "fs":
        arguments.by = None  # not the unit of a few-shot setting, but what is asked for
    store = Store(arguments.runs)
    conditions = request.conditions(arguments, request.staleness(arguments))
    row = choose_row(store, arguments.first, conditions)
    if arguments.threshold_from is not None:
        return _threshold(arguments, row, conditions)
    found = explain_by_label(row, arguments.filter, arguments.k, request.place(arguments))
    report.show(found, arguments.json)
    if arguments.csv:
        found.write_csv(arguments.csv)
    return report.warn_left_out(store)


def _threshold(arguments: argparse.Namespace, row: Selected, conditions: Conditions) -> int:
    from xmcbench.analysis.threshold import find_threshold
    from xmcbench.records.selection import choose_row

    request.check_unused(arguments, "{} is for figures by label", "leave it out", k=5, csv=None)
    other = request.reference(arguments.threshold_from, arguments.columns)
    chosen_on = choose_row(row.store, arguments.first, replace(conditions, dataset=other))
    found = find_threshold(chosen_on, row, arguments.filter, (other, request.place(arguments)))
    report.show(found, arguments.json)
    return report.warn_left_out(row.store)
