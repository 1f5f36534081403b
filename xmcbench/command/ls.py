"""List methods, datasets, or results."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

#: What is too wide for a column and is printed below the table.
_ASIDE = ("parameters", "origin", "hint", "other_packages")
#: Fractions, which are shown in per cent.
_PER_CENT = ("P@1", "R@100")


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
    rows = [[_shown(entry[name], name in _PER_CENT) for name in columns] for entry in listing]
    print(tabulate(rows, [name.replace("_", " ") for name in columns], disable_numparse=True))
    for name in _ASIDE:
        aside: dict[str, list[str]] = {}
        for entry in listing:
            if entry.get(name):
                aside.setdefault(_shown(entry[name]), []).append(entry.get("name") or entry["method"])
        if aside:
            print(f"\n{name.replace('_', ' ')}")
            for value, owners in aside.items():
                owner = ", ".join(dict.fromkeys(owners))
                print(
                    textwrap.fill(
                        value,
                        100,
                        initial_indent=f"  {owner:20}",
                        subsequent_indent=" " * 22,
                        break_on_hyphens=False,
                        break_long_words=False,
                    )
                )
    return 0


def _shown(value: object, per_cent: bool = False) -> str:
    if per_cent and isinstance(value, float):
        return f"{100 * value:.2f}"
    if isinstance(value, dict):
        parts = {name: each["default"] if isinstance(each, dict) else each for name, each in value.items()}
        return " ".join(f"{name}={each}" for name, each in parts.items())
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
    from xmcbench import environment
    from xmcbench.errors import UsageError
    from xmcbench.records import Standing, Store
    from xmcbench.registry import Registry

    if not arguments.runs.is_dir():
        raise UsageError(f"there is no runs folder {arguments.runs}", "--runs names the folder `xmcbench run` wrote")
    standing, here = Standing(Registry(arguments.plugin).sources()), environment.packages()
    listing = []
    for record in Store(arguments.runs).records():
        values = record.metrics[record.protocol.filter].values if record.ok else {}
        other = {name: each for name, each in record.environment.packages.items() if here.get(name, each) != each}
        listing.append(
            {
                "dataset": record.cell.dataset,
                "setting": record.cell.setting.slug,
                "method": record.name,
                "seed": record.cell.seed,
                "status": "stale" if record.ok and standing.problem(record) else record.status,
                "P@1": values.get("P@1"),
                "R@100": values.get("R@100"),
                "filter": record.protocol.filter,
                "total_s": record.measured.total_s,
                "reason": record.reason or standing.problem(record),
                "other_packages": other,
            }
        )
    return listing
