"""Rank methods over several datasets: average rank, win rate, Friedman's test and the critical difference.

Figures of different datasets are not averaged, only ranks. A method that lacks a result on one of the datasets is not
ranked; it follows the others, with a gap, or is only counted if its parameters were changed. The datasets are those
that overall.toml in --runs names for the setting, if it does.

  xmcbench rank --setting ez --runs leaderboards
  xmcbench rank --setting fs --ratio 0.01 --metric R@100 --dataset lf-debian-2k,lf-debian-20k --svg ranks.svg
"""

from __future__ import annotations

import argparse
import json

from xmcbench.command import flags, report, request
from xmcbench.command.terminal import print_results
from xmcbench.errors import UnknownName


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench rank``."""
    flags.add(parser, "runs")
    parser.add_argument(
        "--dataset",
        metavar="NAME[,NAME..]",
        help="default: those of overall.toml, otherwise all of the setting but -dev datasets and samples",
    )
    flags.add_setting(parser, several=False, required=True, help="zero-shot, few-shot or all pairs")
    flags.add_metric(parser)
    flags.path(parser, "svg", "FILE", "also draw the ranks with the critical difference")
    flags.switch(parser, "force", "replace FILE")
    flags.add(parser, "plugin", "json")


def run(arguments: argparse.Namespace) -> int:
    """Rank and print."""
    from xmcbench.leaderboard import markup, overall
    from xmcbench.leaderboard.files import check_svg
    from xmcbench.metrics import METRICS
    from xmcbench.records import Store
    from xmcbench.storage.atomic import write_text

    if arguments.metric not in METRICS:
        raise UnknownName("metric", arguments.metric, METRICS)
    store = Store(arguments.runs)
    store.check_exists()
    if arguments.svg:
        check_svg(arguments.svg)
        report.check_new(arguments.svg, arguments.force)
    records = report.select_latest(store.records())
    staleness = request.staleness(arguments)
    given = [name.strip() for name in (arguments.dataset or "").split(",") if name.strip()]
    setting = request.only_setting(arguments)
    listed = overall.read_list(arguments.runs).get(setting.slug)
    datasets = given or listed
    if datasets is None:
        report.note_unlisted(records, setting)
    with store.noting_left_out():
        made = overall.overall(records, setting, arguments.metric, datasets, staleness)
    kinds = {made.setting.kind, "ez"}  # a method that ignores pairs has its zero-shot result in any setting
    ranked = [
        record for record in records if record.cell.dataset in made.datasets and record.cell.setting.kind in kinds
    ]
    report.note_unknown(ranked, staleness)
    if arguments.svg:
        write_text(arguments.svg, overall.chart(made).draw())
    if arguments.json:
        print(json.dumps(overall.as_json(made), indent=1))
    else:
        table = overall.table(made)
        notes = "\n".join(f"{line.name}: {note}" for line in table.lines for note in line.notes)
        print_results(table.caption, markup.plain(table), notes)
    return report.warn_left_out(store)
