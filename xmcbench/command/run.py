"""Run methods on a data set under a setting, and print the table.

Finished cells are kept below --runs and not run again: the same command after Ctrl-C goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.setting import Setting

DEFAULT_DATASET = "lf-debian-2k"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench run``."""
    what = parser.add_argument_group("what is compared")
    what.add_argument("--dataset", default=DEFAULT_DATASET, metavar="NAME|FOLDER", help="default: %(default)s")
    what.add_argument("--setting", required=True, choices=("ez", "fs", "full"), help="zero-shot, few-shot or all pairs")
    what.add_argument("--ratio", type=float, metavar="R", help="share of labels or pairs that fs draws, in (0, 1]")
    what.add_argument("--by", choices=("label", "pair"), help="what fs draws (default: label)")
    what.add_argument("--methods", default="all", metavar="A,B|all", help="NAME or NAME:PRESET, or all that can run")
    what.add_argument("--preset", metavar="P", help="paper, reference, quick, ... (default: quick where there is one)")
    what.add_argument("--set", action="append", default=[], metavar="METHOD.PARAM=VALUE", help="may be repeated")
    what.add_argument("--seed", default="0", metavar="S[,S..]", help="default: 0")
    what.add_argument("--plugin", action="append", default=[], type=Path, metavar="FILE", help="a method as one file")
    what.add_argument("--config", metavar="FILE.toml", help="the same settings from a file; flags go first")
    how = parser.add_argument_group("how it runs")
    how.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    how.add_argument(
        "--time-limit", type=float, metavar="SECONDS", default=86400, help="for each cell (default: a day)"
    )
    how.add_argument("--memory-limit", type=float, metavar="GIB", help="for each cell (default: none)")
    how.add_argument("--force", action="store_true", help="run finished cells again")
    how.add_argument("--dry-run", action="store_true", help="say what would run, and do nothing")
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--filter", choices=("none", "self", "file"), help="default: what the data set's card says")
    shown.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Plan and execute; 1 if a cell failed or none has a result."""
    from xmcbench.command import report
    from xmcbench.data import load_dataset
    from xmcbench.records import Store
    from xmcbench.registry import Registry
    from xmcbench.runner.execution import Limits, execute
    from xmcbench.runner.plan import Request, plan
    from xmcbench.setting import Setting

    setting = Setting.of(arguments.setting, arguments.ratio, arguments.by)
    request = Request(
        setting,
        _names(arguments.methods),
        arguments.preset,
        _overrides(arguments.set),
        _seeds(arguments.seed),
    )
    for name, limit in (("--time-limit", arguments.time_limit), ("--memory-limit", arguments.memory_limit)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} {limit:g} leaves nothing to run in", "a number above 0, or leave it out")
    registry = Registry(arguments.plugin)
    dataset = load_dataset(arguments.dataset)
    filter_name = arguments.filter or dataset.card.filter
    dataset.filter(filter_name)  # refuses one it does not have before anything runs
    store = Store(arguments.runs)
    planned = plan(request, dataset, registry, store, arguments.force)
    report.warn_skipped(planned.skipped)
    if not planned.cells:
        raise UsageError("no method can run", "the lines above say what is missing")
    if arguments.dry_run:
        print(report.plan_json(planned, store) if arguments.json else report.plan_table(planned, store))
        return 0
    progress = report.Progress(len(planned.cells))
    limits = Limits(arguments.time_limit, arguments.memory_limit)
    records = execute(planned, dataset, arguments.dataset, store, arguments.plugin, limits, progress, arguments.force)
    if arguments.json:
        skipped = [{"method": each.method, "reason": each.reason, "hint": each.hint} for each in planned.skipped]
        print(json.dumps({"filter": filter_name, "records": records, "skipped": skipped}, indent=1, sort_keys=True))
    else:
        stale = [each.name for each in planned.cells if each.state == "stale"]
        print(_headline(dataset, setting, filter_name), report.tables(records, filter_name, stale), sep="\n\n")
    statuses = {record["status"] for record in records}
    return 0 if "ok" in statuses and not statuses & {"failed", "timeout"} else 1


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("--methods names none", "--methods all, or --methods tfidf,xr-linear")
    if "all" in names and len(names) > 1:
        raise UsageError("--methods all stands alone", "name the methods, or say all")
    return names


def _seeds(text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise UsageError(f"--seed {text!r} is no list of integers", "--seed 0 or --seed 0,1,2") from None
    if any(not 0 <= seed < 2**32 for seed in seeds):
        raise UsageError(f"--seed {text}: a seed lies in 0..2^32-1")
    return tuple(dict.fromkeys(seeds))


def _overrides(words: list[str]) -> dict[str, dict[str, object]]:
    overrides: dict[str, dict[str, object]] = {}
    for word in words:
        target, equals, value = word.partition("=")
        method, dot, parameter = target.partition(".")
        if not equals or not dot or not parameter:
            raise UsageError(f"--set {word!r} is not METHOD.PARAM=VALUE", "for example --set bm25.k1=1.2")
        overrides.setdefault(method, {})[parameter] = value
    return overrides


def _headline(dataset: Dataset, setting: Setting, filter_name: str) -> str:
    from xmcbench.metrics import protocol

    counts = dataset.counts()
    return (
        f"{dataset.name} ({counts['train']:,} train, {counts['test']:,} test, {counts['labels']:,} labels), "
        f"{setting.title}, filter {filter_name}, metric protocol {protocol.VERSION}. "
        "Per cent ± half-width of the 95% interval over test instances."
    )
