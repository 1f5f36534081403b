"""Run one cell of every stale row again, and keep the results that it covers if it gives the same result.

A change of code makes the results of a method stale, even if it changes none of them. For each method, parameters,
dataset and kind of supervision the cheapest cell is run again, from scratch: of those made on this class of machine, if
there are any. The cells of one command share what they make, in a temporary folder. If at least 99.9% of the ranks of a
cell equal the stored ones and no score changes by more than 0.05 points, the check is written into all records of its
group, which are then fresh again. The others need `run --refresh`.

  xmcbench confirm --runs leaderboards
  xmcbench confirm --runs leaderboards --dataset path/to/LF-YSO-25K --methods tfidf,bm25

The same code trains to different weights on a different processor. To compare on this machine, first run the older code
here, in a separate runs folder:

  xmcbench confirm --runs leaderboards --reference older-code
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import flags, request
from xmcbench.errors import UnknownName, UsageError, XmcbenchError

if TYPE_CHECKING:
    from xmcbench.runner.confirmation import Verdict


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench confirm``."""
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    parser.add_argument(
        "--dataset",
        action="append",
        default=[],
        metavar="NAME|PLACE",
        help="only this dataset; may be repeated (default: all that are found by name)",
    )
    flags.add_columns(parser)
    parser.add_argument("--methods", default="all", metavar="A,B|all", help="only these (default: all)")
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="DIR",
        help="a runs folder with results of the older code on this machine, to compare with where it has one",
    )
    flags.add_plugin(parser)
    flags.add_limits(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would run, and do nothing")


def run(arguments: argparse.Namespace) -> int:
    """Check every group; 1 if one is not confirmed."""
    from xmcbench.command import report
    from xmcbench.records import Store
    from xmcbench.records.store import NO_RUNS
    from xmcbench.runner import confirmation
    from xmcbench.storage.temporary import scratch

    if not (arguments.runs / "records").is_dir():
        raise UsageError(f"there are no records in {arguments.runs}", NO_RUNS)
    if arguments.reference and not (arguments.reference / "records").is_dir():
        raise UsageError(f"there are no records in {arguments.reference}", "run the older code with --runs DIR first")
    methods, limits = request.methods(arguments.methods), request.limits(arguments)
    registry, store = request.registry(arguments.plugin), Store(arguments.runs)
    reference = Store(arguments.reference) if arguments.reference else None
    datasets = request.named(arguments)
    records = store.records()
    ran = {record.cell.method for record in records}
    if unknown := [name for name in methods if name != "all" and name not in ran]:
        raise UnknownName("method", unknown[0], ran, where=f"in {arguments.runs}")
    if missing := [name for name in datasets if name not in {record.cell.dataset for record in records}]:
        raise UsageError(f"{arguments.runs} has no record of {missing[0]}", "see `xmcbench ls results`")
    standing = registry.standing(arguments.runs)
    report.note_unknown(records, standing)
    found = [
        group
        for group in confirmation.groups(records, standing)
        if (methods == ("all",) or group.records[0].cell.method in methods)
        and (not arguments.dataset or group.records[0].cell.dataset in datasets)
    ]
    if not found:
        print("nothing to confirm: no result is stale because of changed code")
    if arguments.dry_run:
        for number, group in enumerate(found, 1):
            print(f"[{number}/{len(found)}] {group.name}, {group.records[0].measured.total_s:.0f} s when it last ran")
        return report.warn_left_out(store)
    refused = 0
    with scratch() as folder:
        fresh = Store(folder)
        for number, group in enumerate(found, 1):
            place, name = f"[{number}/{len(found)}] {group.name}", group.records[0].cell.dataset
            given = datasets.get(name, name)
            try:
                verdict = confirmation.confirm(group, given, store, registry, fresh, limits, reference)
            except XmcbenchError as error:
                print(f"{place}: not confirmed: {error}", file=sys.stderr)
                refused += 1
                continue
            refused += not verdict.stands or verdict.unwritten > 0
            print(f"{place}: {_said(verdict)}", flush=True)
    return max(report.warn_left_out(store), int(refused > 0))


def _said(verdict: Verdict) -> str:
    from xmcbench.output.quantities import counted

    if verdict.problem:
        return f"not confirmed: {verdict.problem}"
    seen = f"{100 * verdict.same_ranks:.2f}% of the ranks are equal, figures differ by at most "
    seen += f"{100 * verdict.largest_change:.3f} points"
    if not verdict.stands:
        return f"not confirmed: {seen}; run it again with --refresh"
    held = f"; another run has {counted(verdict.unwritten, 'record')}: confirm again when it has ended"
    return f"confirmed: {seen}{held if verdict.unwritten else ''}"
