"""List the contents of a runs folder by kind, size, last use and records that need them; remove some with --remove.

The table names one record per kind; --json has the path of every item and all records that need it.

Records, ranks and true pairs are results and are never removed, nor is anything that a running cell uses. What a judge
answered before its cell failed is only removed with --kind unfinished-judgments.

  xmcbench clean                                  list everything
  xmcbench clean --unneeded --remove              remove what no record needs
  xmcbench clean --kind training --older-than 30 --remove
"""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from xmcbench.command import flags, report
from xmcbench.errors import UnknownName, UsageError
from xmcbench.output.layout import format_table
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.records.cleaning import Item


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench clean``."""
    flags.add(parser, "runs")
    parser.add_argument("--kind", action="append", default=[], metavar="K", help="only this kind; may be repeated")
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="only what was last used longer ago than this")
    flags.switch(parser, "unneeded", "only what no record needs")
    flags.switch(parser, "remove", "remove the selected items (default: only list them)")
    flags.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    """List the selected items, or remove them."""
    from xmcbench.records import Store
    from xmcbench.records.cleaning import UNFINISHED_JUDGMENTS, count_freed_bytes, in_use, items, kinds, remove

    store = Store(arguments.runs)
    store.check_exists()
    if arguments.remove and not (arguments.kind or arguments.unneeded or arguments.older_than is not None):
        raise UsageError("--remove needs a selection", "use --kind, --older-than or --unneeded")
    found = items(store)
    left_out = report.warn_left_out(store)
    if left_out and arguments.unneeded and arguments.remove:
        raise UsageError("what these records need is not known, so nothing is removed", "restore or delete them first")
    known = kinds(store)
    for kind in arguments.kind:
        if kind not in known:
            raise UnknownName("kind", kind, known)
    is_selected = arguments.unneeded or arguments.older_than is not None
    chosen = [
        item
        for item in found
        if (item.kind in arguments.kind if arguments.kind else not (is_selected and item.kind == UNFINISHED_JUDGMENTS))
        and (arguments.older_than is None or item.age_days > arguments.older_than)
        and not (arguments.unneeded and item.records)
    ]
    idle = [item for item in chosen if not in_use(item)]
    if arguments.remove:
        size = count_freed_bytes(store, idle)
        busy = remove(store, chosen)
        chosen = [item for item in chosen if item not in busy]
    else:
        busy = [item for item in chosen if item not in idle]
    if arguments.json:
        entries = [
            {"kind": item.kind, "path": str(item.path), "bytes": item.size, "in_use": item in busy}
            | {"age_days": item.age_days, "records": item.records}
            for item in chosen
        ]
        print(json.dumps({"removed": arguments.remove, "in_use": len(busy), "items": entries}, indent=1))
        return left_out
    print(_table(chosen, busy))
    if arguments.remove:
        print(f"\nremoved: {format_count(len(chosen), 'item')}, {_size(size)}")
        if busy:
            print(f"kept, because a running cell uses them: {len(busy)}")
    return left_out


def _days(text: str) -> float:
    with suppress(ValueError):
        if (days := float(text)) >= 0:
            return days
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")


def _table(chosen: list[Item], busy: list[Item]) -> str:

    kinds: dict[str, list[Item]] = {}
    for item in chosen:
        kinds.setdefault(item.kind, []).append(item)
    lines = [
        [
            kind,
            len(group),
            _size(sum(item.size for item in group)),
            f"{min(item.age_days for item in group):.0f}",
            f"{max(item.age_days for item in group):.0f}",
            sum(item in busy for item in group),
            sum(not item.records and item not in busy for item in group),
            _list_records(group),
        ]
        for kind, group in sorted(kinds.items(), key=lambda kind: -sum(item.size for item in kind[1]))
    ]
    lines.append(["all", len(chosen), _size(sum(item.size for item in chosen)), *[""] * 5])
    heads = ["Kind", "items", "size", "last used, days ago", "oldest", "in use", "needed by no record", "needed by"]
    return format_table(lines, heads, ("left", *["right"] * 6, "left"))


def _list_records(group: list[Item]) -> str:
    """Return one of the records that need something of a group, and the number of other records."""
    records = sorted({record for item in group for record in item.records})
    others = f" and {len(records) - 1:,} more" if len(records) > 1 else ""
    return f"{records[0]}{others}" if records else ""


def _size(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
