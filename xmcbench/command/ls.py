"""List methods, data sets, or results."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

#: What is too wide for a column and stands below the table.
_ASIDE = ("parameters", "origin", "hint")


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench ls``."""
    parser.add_argument("what", choices=("methods", "datasets", "results"))
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    parser.add_argument("--plugin", action="append", default=[], type=Path, metavar="FILE", help="a method as one file")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Print the listing."""
    listing = {"methods": _methods, "datasets": _datasets, "results": _results}[arguments.what](arguments)
    if arguments.json:
        print(json.dumps(listing, indent=1, sort_keys=True))
        return 0
    if not listing:
        print(f"no {arguments.what}")
        return 0
    from tabulate import tabulate

    columns = [name for name in listing[0] if name not in _ASIDE]
    rows = [[_shown(entry[name]) for name in columns] for entry in listing]
    print(tabulate(rows, columns, disable_numparse=True))
    for name in _ASIDE:
        aside = {entry["name"]: entry[name] for entry in listing if entry.get(name)}
        if aside:
            print(f"\n{name}")
            for owner, value in aside.items():
                print(
                    textwrap.fill(
                        _shown(value),
                        100,
                        initial_indent=f"  {owner:20}",
                        subsequent_indent=" " * 22,
                        break_on_hyphens=False,
                        break_long_words=False,
                    )
                )
    return 0


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each['default']}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def _methods(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from xmcbench import parameters
    from xmcbench.registry import Registry

    listing = []
    for entry in Registry(arguments.plugin):
        method = entry.method
        status = entry.problem or (f"needs: pip install {' '.join(entry.missing.values())}" if entry.missing else "ok")
        listing.append(
            {
                "name": entry.name,
                "title": (method.title or entry.name) if method else "",
                "pairs": method.supervision if method else "",
                "presets": sorted(method.presets) if method else [],
                "parameters": {
                    name: {"type": each.type_name, "default": each.default}
                    for name, each in parameters.declared(method).items()
                }
                if method
                else {},
                "status": status,
                "origin": entry.origin,
            }
        )
    return listing


def _datasets(_: argparse.Namespace) -> list[dict[str, Any]]:
    from xmcbench.data import known_datasets

    listing = []
    for each in known_datasets():
        counts = each.card.counts if each.card else {}
        listing.append(
            {
                "name": each.slug,
                "train": counts.get("train"),
                "test": counts.get("test"),
                "labels": counts.get("labels"),
                "status": each.problem or "ok",
                "hint": each.hint,
            }
        )
    return listing


def _results(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from xmcbench.errors import UsageError
    from xmcbench.leaderboard.rows import row_name
    from xmcbench.records import Store
    from xmcbench.registry import Registry
    from xmcbench.setting import Setting
    from xmcbench.source import source_digest

    if not arguments.runs.is_dir():
        raise UsageError(f"there is no runs folder {arguments.runs}", "--runs names the folder `xmcbench run` wrote")
    today = {entry.name: source_digest(entry.method) for entry in Registry(arguments.plugin) if entry.method}
    listing = []
    for record in Store(arguments.runs).records():
        cell, name = record["cell"], record["protocol"]["filter"]
        stale = record["method"]["source_sha256"] != today.get(cell["method"], record["method"]["source_sha256"])
        values = record["metrics"][name]["values"] if record["status"] == "ok" else {}
        listing.append(
            {
                "dataset": cell["dataset"],
                "setting": Setting(**cell["setting"]).slug,
                "method": row_name(record),
                "seed": cell["seed"],
                "status": "stale" if stale and record["status"] == "ok" else record["status"],
                "P@1": 100 * values["P@1"] if values else None,
                "R@100": 100 * values["R@100"] if values else None,
                "filter": name,
                "total s": record["measured"]["total_s"],
                "reason": record["reason"],
            }
        )
    return listing
