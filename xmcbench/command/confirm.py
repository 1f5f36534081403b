"""Show that changed code gives the same results, so that its results are fresh again.

A change of code makes the results of a method stale, even if it changes none of them. Canaries are tiny fixed cells
that cover every path of a method. If today's code gives their stored outcomes, its source is added to
`equivalent.json` in the runs folder, next to the earlier ones; records do not change. A method whose canaries differ
stays stale: run its cells again with `--refresh`.

  xmcbench confirm --runs leaderboards
  xmcbench confirm --runs leaderboards --methods tfidf,bm25
  xmcbench confirm --store tfidf               # the results are meant to change: keep the new outcomes

With --full, the cheapest cell of each method, parameters, dataset and kind of supervision is run again instead, from
scratch: of those made on this class of machine, if there are any. If at least 99.9% of the ranks of each cell equal the
stored ones and no figure changes by more than 0.05 points, the source is added. Plug-ins have no canaries and need it.

  xmcbench confirm --runs mine --full --plugin my_method.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from xmcbench.command import flags, report, request
from xmcbench.errors import UnknownName, UsageError, XmcbenchError

_CANARIES_AT_A_TIME = 2


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench confirm``."""
    flags.add(parser, "runs")
    parser.add_argument(
        "--methods", type=flags.texts, default=["all"], metavar="A,B|all", help="only these (default: all)"
    )
    parser.add_argument(
        "--jobs",
        type=flags.positive,
        default=_CANARIES_AT_A_TIME,
        metavar="N",
        help="canaries at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--store",
        type=flags.texts,
        metavar="A,B",
        help="store the outcomes of the canaries of these methods as the new reference",
    )
    flags.switch(parser, "full", "run whole cells again instead of canaries")
    parser.add_argument(
        "--dataset",
        action="append",
        default=[],
        metavar="NAME|PLACE",
        help="with --full: only this dataset; may be repeated (default: all; those not found by name fail)",
    )
    flags.add(parser, "columns", "plugin")
    flags.add_limits(parser)
    flags.add(parser, "dry-run")


def run(arguments: argparse.Namespace) -> int:
    """Confirm methods; 1 if one is not confirmed."""
    if arguments.store:
        unused = {"runs": Path("runs"), "methods": ["all"], "full": False, "dry_run": False}
        said, hint = "{} does nothing with --store", "--store METHOD runs the canaries of a method"
        request.check_unused(arguments, said, hint, **unused, dataset=[], columns=None, plugin=[], **flags.LIMITS)
        return _store(arguments)
    from xmcbench.records.store import NO_RUNS

    if not (arguments.runs / "records").is_dir():
        raise UsageError(f"there are no records in {arguments.runs}", NO_RUNS)
    if arguments.full:
        hint = "cells run one after the other"
        request.check_unused(arguments, "{} does nothing with --full", hint, jobs=_CANARIES_AT_A_TIME)
        return _full(arguments)
    request.check_unused(
        arguments,
        "{} can only be used with --full",
        "canaries have data of their own",
        dataset=[],
        columns=None,
        plugin=[],
        **flags.LIMITS,
    )
    return _canaries(arguments)


def _store(arguments: argparse.Namespace) -> int:
    from xmcbench.runner.canaries.cells import canary_folder
    from xmcbench.runner.canaries.confirmation import PROTOCOL_NAMES
    from xmcbench.runner.canaries.protocol import PROTOCOL, store_protocol
    from xmcbench.runner.canaries.run import store

    names = arguments.store
    _check_names(names)
    if set(names) & PROTOCOL_NAMES:
        store_protocol(canary_folder() / PROTOCOL)
        print("ranks and metrics: outcome stored")
    methods, code = [name for name in names if name not in PROTOCOL_NAMES], 0
    for method, outcomes in store(methods, arguments.jobs).items() if methods else ():
        lacking = [name for name, outcome in outcomes.items() if outcome.status != "ok"]
        print(f"{method}: {len(outcomes) - len(lacking)} outcomes stored")
        for name in lacking:
            code = 1
            print(f"{method}: {name}: {outcomes[name].status}: {outcomes[name].reason}", file=sys.stderr)
    return code


def _check_names(names: Sequence[str]) -> None:
    """Raise UnknownName for a name that is neither that of a method nor of a part of the protocol."""
    from xmcbench.runner.canaries.confirmation import PROTOCOL_NAMES

    known = [*(entry.name for entry in request.registry()), *PROTOCOL_NAMES]
    for name in names:
        if name not in known:
            raise UnknownName("method", name, known, "see `xmcbench ls methods`")


def _canaries(arguments: argparse.Namespace) -> int:
    from xmcbench.runner.canaries import confirmation

    if arguments.methods != ["all"]:
        _check_names(arguments.methods)
    changed = confirmation.find_changed(request.registry(), arguments.runs)
    asked = arguments.methods
    chosen = {name: source for name, source in changed.items() if asked == ["all"] or name in asked}
    if not chosen:
        print("nothing to confirm: no code has changed since its canaries were stored or confirmed")
        return 0
    print(f"canaries to run: {', '.join(chosen)}", file=sys.stderr)
    if arguments.dry_run:
        return 0
    verdicts = confirmation.run_canaries(chosen, arguments.jobs)
    confirmation.record_evidence(verdicts, "canaries", arguments.runs)
    for verdict in verdicts:
        print(f"{verdict.method}: {verdict}")
    return int(not all(verdict.is_equal for verdict in verdicts))


def _full(arguments: argparse.Namespace) -> int:
    from xmcbench.records import Store
    from xmcbench.runner.canaries import confirmation
    from xmcbench.storage.temporary import scratch

    methods, limits = arguments.methods, request.limits(arguments)
    registry, store = request.registry(arguments.plugin), Store(arguments.runs)
    datasets = request.places_by_name(arguments)
    records = store.records()
    ran = {record.cell.method for record in records}
    if unknown := [name for name in methods if name != "all" and name not in ran]:
        raise UnknownName("method", unknown[0], ran, where=f"in {arguments.runs}")
    if missing := [name for name in datasets if name not in {record.cell.dataset for record in records}]:
        raise UsageError(f"{arguments.runs} has no record of {missing[0]}", "see `xmcbench ls results`")
    staleness = registry.staleness(arguments.runs)
    report.note_unknown(records, staleness)
    found = [
        group
        for group in confirmation.groups(records, staleness)
        if (methods == ["all"] or group.records[0].cell.method in methods)
        and (not arguments.dataset or group.records[0].cell.dataset in datasets)
    ]
    if not found:
        print("nothing to confirm: no result is stale because of changed code")
    if arguments.dry_run:
        for number, group in enumerate(found, 1):
            print(f"[{number}/{len(found)}] {group.name}, {group.records[0].measured.total_s:.0f} s when it last ran")
        return report.warn_left_out(store)
    verdicts = []
    with scratch() as folder:
        fresh = Store(folder)
        for number, group in enumerate(found, 1):
            record = group.records[0]
            name, source = record.cell.dataset, record.method.source_sha256
            try:
                verdict = confirmation.rerun(group, datasets.get(name, name), store, registry, fresh, limits)
            except XmcbenchError as error:
                verdict = confirmation.Verdict(record.cell.method, source, "", False, str(error))
            verdicts.append(verdict)
            print(f"[{number}/{len(found)}] {group.name}: {verdict}", flush=True)
    confirmation.record_evidence(verdicts, "reruns", arguments.runs)
    return max(report.warn_left_out(store), int(not all(verdict.is_equal for verdict in verdicts)))
