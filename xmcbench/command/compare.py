"""Compare two rows instance by instance: which metrics differ, by how much, how surely; then what the rows differ in.

A row is a method (NAME, NAME:VARIANT, or NAME: for the one without a variant), the beginning of a record's key, or a
record's file. Seeds of a few-shot setting are compared seed by seed. --setting and --ratio choose among settings.

  xmcbench compare tfidf bm25 --setting ez
  xmcbench compare tfidf:pecos bm25 --dataset lf-debian-20k --setting ez --runs leaderboards
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.command.selection import Selected
    from xmcbench.metrics.paired import Difference

#: Fields that are the result, not its circumstances; ``cell.seed`` is told apart.
_RESULT = ("key", "sha256", "metrics", "predictions", "notes", "measured", "schema", "reason", "log")


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench compare``."""
    parser.add_argument("first", metavar="A")
    parser.add_argument("second", metavar="B")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    parser.add_argument("--dataset", metavar="NAME|FOLDER", help="default: the one that both have results on")
    parser.add_argument("--setting", choices=("ez", "fs", "full"), help="default: the one that both have results in")
    parser.add_argument("--ratio", type=float, metavar="R", help="of --setting fs")
    parser.add_argument("--by", choices=("label", "pair"), help="of --setting fs (default: label)")
    parser.add_argument("--seed", metavar="S[,S..]", help="default: the seeds that both have")
    parser.add_argument("--filter", choices=("none", "self", "file"), help="default: what the data set's card says")
    parser.add_argument("--force", action="store_true", help="put two protocols or data sets side by side all the same")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Choose, score again, test, print; the exit code says nothing about the difference."""
    from xmcbench.command.request import seeds
    from xmcbench.command.selection import Choice, choose
    from xmcbench.leaderboard.rows import row_name
    from xmcbench.setting import Setting

    setting = Setting.of(arguments.setting, arguments.ratio, arguments.by) if arguments.setting else None
    if setting is None and (arguments.ratio is not None or arguments.by):
        raise UsageError("--ratio and --by belong to --setting fs")
    choice = Choice(arguments.dataset, setting, seeds(arguments.seed) if arguments.seed else None, arguments.force)
    first, second = choose(arguments.runs, arguments.first, arguments.second, choice)
    unpaired = _obstacle(first, second)
    if unpaired and not arguments.force:
        raise UsageError(f"the two rows differ in their {unpaired}", "--force puts them side by side, without a test")
    differences, rows, filter_name = _differences(arguments, first, second, bool(unpaired))
    apart = list(_apart(first.records, second.records))
    if arguments.json:
        document = {
            "first": first.keys,
            "second": second.keys,
            "filter": filter_name,
            "instances": rows,
            "metrics": {name: _as_json(each) for name, each in differences.items()},
            "apart": {place: [one, other] for place, one, other in apart},
        }
        print(json.dumps(document, indent=1, sort_keys=True))
        return 0
    for letter, row in (("A", first), ("B", second)):
        record = row.records[0]
        where = f"{record['cell']['dataset']}, {Setting(**record['cell']['setting']).title}"
        print(f"{letter}: {row_name(record)}, {where}, seed {', '.join(map(str, row.seeds))}")
    print()
    print(_table(differences, rows, filter_name, bool(unpaired)))
    print(f"\n{_verdict(differences)}" if not unpaired else f"\nno test: the rows differ in their {unpaired}")
    print("\nWhat differs:" if apart else "\nThe rows differ in nothing else that a record holds.")
    for place, one, other in apart:
        print(f"  {place}: {_shown(one)} | {_shown(other)}")
    return 0


def _obstacle(first: Selected, second: Selected) -> str:
    """What stands in the way of pairing the instances of two rows."""
    one, other = first.records[0], second.records[0]
    if one["cell"]["dataset"] != other["cell"]["dataset"]:
        return f"data sets: {one['cell']['dataset']} and {other['cell']['dataset']}"
    if one["cell"]["dataset_sha256"] != other["cell"]["dataset_sha256"]:
        return f"versions of {one['cell']['dataset']}"
    if one["protocol"] != other["protocol"]:
        return f"protocols: {_shown(one['protocol'])} and {_shown(other['protocol'])}"
    return ""


def _differences(
    arguments: argparse.Namespace, first: Selected, second: Selected, unpaired: bool
) -> tuple[dict[str, Difference], int, str]:
    """The difference of every metric, the instances it is over, and the filter."""
    from xmcbench.data import load_dataset
    from xmcbench.metrics import paired
    from xmcbench.metrics.paired import Difference
    from xmcbench.runner.rescoring import run_scores

    if unpaired:
        nan = float("nan")
        filters = [arguments.filter or row.records[0]["protocol"]["filter"] for row in (first, second)]
        one, other = (row.means(name) for row, name in zip((first, second), filters, strict=True))
        found = {
            name: Difference(one[name], other[name], one[name] - other[name], nan, nan, nan, False, True)
            for name in one
            if name in other
        }
        return found, 0, " and ".join(dict.fromkeys(filters))
    dataset = load_dataset(arguments.dataset or first.records[0]["cell"]["dataset"])
    filter_name = arguments.filter or dataset.card.filter
    one, other = (run_scores(row.records, row.store, dataset, filter_name) for row in (first, second))
    subsets = [[record["cell"]["subset_sha256"] for record in row.records] for row in (first, second)]
    matched = subsets[0] == subsets[1] and len(set(subsets[0])) == len(subsets[0]) > 1
    return paired.compare(one, other, matched=matched), one[0].scored, filter_name


def _as_json(difference: Difference) -> dict[str, float | bool | None]:
    """The fields of a difference; what was not tested is null."""
    return {name: None if math.isnan(value) else value for name, value in difference._asdict().items()}


def _table(differences: Mapping[str, Difference], rows: int, filter_name: str, unpaired: bool) -> str:
    from tabulate import tabulate

    from xmcbench.metrics import METRICS, protocol

    lines = []
    for name in (metric for metric in METRICS if metric in differences):
        each = differences[name]
        figures = [f"{100 * each.first:.2f}", f"{100 * each.second:.2f}", f"{100 * each.delta:+.2f}"]
        if not unpaired:
            figures += [f"{100 * each.low:+.2f} to {100 * each.high:+.2f}", f"{each.p:.4f}"]
        lines.append([name, *figures])
    heads = ["Metric", "A", "B", "A - B", *([] if unpaired else ["95% interval", "p"])]
    head = f"Per cent; filter {filter_name}, metric protocol {protocol.VERSION}"
    head += "." if unpaired else f", paired over {rows:,} test instances."
    aligned = ("left", *["right"] * (len(heads) - 1))
    return f"{head}\n\n{tabulate(lines, heads, disable_numparse=True, colalign=aligned)}"


def _verdict(differences: Mapping[str, Difference]) -> str:
    found = [name for name, each in differences.items() if each.p < 0.05]
    if not found:
        return "No metric differs at the 5% level (test over instances)."
    return (
        f"At the 5% level these differ: {', '.join(found)} (p is not corrected for the number of "
        f"metrics, of {len(differences)} that do not differ one in twenty would)."
    )


def _apart(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, object, object]]:
    """Where two rows differ, but for their results: (place, one, other), of the first seed where they differ there."""
    found: dict[str, tuple[object, object]] = {}
    for one, other in zip(first, second, strict=False):
        for name in sorted({*one, *other} - {*_RESULT}):
            for place, mine, theirs in _leaves(one.get(name), other.get(name), name):
                found.setdefault(place, (mine, theirs))
    for place in sorted(found):
        yield place, *found[place]


def _leaves(first: object, second: object, place: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted({*first, *second}):
            yield from _leaves(first.get(name), second.get(name), f"{place}.{name}")
    elif first != second:
        yield place, first, second


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_shown, value)) or "none"
    text = str(value)
    # A hash says that something differs; all of it is for machines.
    return f"{text[:12]}..." if len(text) == 64 else text
