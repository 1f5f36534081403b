"""List methods, datasets, layouts, or results; `ls methods NAME` shows the parameters of a method.

`ls results --metrics` computes metrics from the stored ranks, also those that no record has.

  xmcbench ls results --runs leaderboards --metrics F1@5,coverage@5,MRR
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xmcbench.command import flags, report, request
from xmcbench.errors import StorageError, UsageError
from xmcbench.output.layout import fill, format_table, terminal_width

if TYPE_CHECKING:
    from xmcbench.parameters import Parameter
    from xmcbench.records import Record

#: Fields too wide for a column; printed below the table.
_ASIDE = ("parameters", "origin", "reason", "hint", "other_packages")
#: Fields of results that head a table each.
_HEADINGS = ("dataset", "dataset_sha256", "setting", "filter")
#: Metrics of results where none are named.
_METRICS = ["P@1", "R@100"]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench ls``."""
    listings = ("methods", "datasets", "layouts", "results")
    parser.add_argument("what", choices=listings, metavar="LISTING", help="methods, datasets, layouts or results")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a method, to show its parameters and presets")
    flags.add(parser, "runs", "metrics", "plugin", "json")


def run(arguments: argparse.Namespace) -> int:
    """Print the listing."""
    if arguments.metrics and arguments.what != "results":
        raise UsageError("--metrics is for results", "xmcbench ls results --metrics F1@5")
    if arguments.name is not None:
        return _method(arguments)
    listing, code = _LISTINGS[arguments.what](arguments)
    if arguments.json:
        print(json.dumps(listing, indent=1, sort_keys=True))
    elif listing:
        _print(listing, arguments.metrics or _METRICS)
    else:
        print(f"no {arguments.what}")
    return code


def _print(listing: list[dict[str, Any]], metrics: list[str]) -> None:
    """Print a line per entry; `ls methods NAME` has the parameters of a method."""
    groups: dict[str, list[dict[str, Any]]] = {}
    versions = Counter(name for name, _ in {(entry.get("dataset"), entry.get("dataset_sha256")) for entry in listing})
    for entry in listing:
        heading = ""
        if "dataset" in entry:
            data = f" (data {entry['dataset_sha256'][:12]})" if versions[entry["dataset"]] > 1 else ""
            heading = f"{entry['dataset']}{data}, {entry['setting']}, filter {entry['filter']}"
        groups.setdefault(heading, []).append(entry)
    blocks = [block for heading, entries in groups.items() for block in (heading, _table(entries, metrics)) if block]
    for name in (name for name in _ASIDE if name != "parameters"):
        aside: dict[str, list[str]] = {}
        for entry in listing:
            if entry.get(name):
                aside.setdefault(_format(entry[name]), []).append(entry.get("name") or entry["method"])
        lines = [name.replace("_", " ")]
        for value, owners in aside.items():
            lines.append(_paragraph(f"{', '.join(dict.fromkeys(owners)):<20}  {value}", "  ", " " * 24))
        blocks += ["\n".join(lines)] if aside else []
    print(*blocks, sep="\n\n")


def _table(entries: list[dict[str, Any]], metrics: list[str]) -> str:

    aside = (*_ASIDE, *_HEADINGS) if "dataset" in entries[0] else _ASIDE
    columns = [name for name in entries[0] if name not in aside]
    rows = [[_format(entry[name], name in metrics) for name in columns] for entry in entries]
    sides = ["right" if all(_is_figure(entry[name]) for entry in entries) else "left" for name in columns]
    return format_table(rows, [name.replace("_", " ") for name in columns], sides)


def _paragraph(text: str, first: str, others: str) -> str:
    """Return a text in lines of the terminal, 100 characters at most, each with its indent."""
    width = min(100, terminal_width() or 100)
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )


def _is_figure(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _format(value: object, percent: bool = False) -> str:
    if percent and isinstance(value, float):
        return f"{100 * value:.2f}"
    if isinstance(value, dict):
        parts = {name: part["default"] if isinstance(part, dict) else part for name, part in value.items()}
        return " ".join(f"{name}={part}" for name, part in parts.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def _methods(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    from xmcbench.runner.rows import status

    listing = []
    for entry in request.registry(arguments.plugin):
        method, found = entry.description, status(entry)
        listing.append(
            {
                "name": entry.name,
                "title": entry.title if method else "",
                "pairs": method.supervision if method else "",
                "presets": sorted(method.presets) if method else [],
                "parameters": {name: _parameter(declared) for name, declared in method.parameters.items()}
                if method
                else {},
                "status": found.partition(":")[0],
                "origin": entry.origin,
                "reason": found.partition(": ")[2],
            }
        )
    return listing, 0


def _method(arguments: argparse.Namespace) -> int:

    if arguments.what != "methods":
        raise UsageError(f"{arguments.what} takes no name: {arguments.name!r}", "xmcbench ls methods NAME")
    entry = request.registry(arguments.plugin)[arguments.name]
    method = entry.description
    if method is None:
        raise UsageError(f"{entry.name}: {entry.problem}")
    declared, presets = method.parameters, method.presets
    if arguments.json:
        document = {
            "name": entry.name,
            "origin": entry.origin,
            "supervision": method.supervision,
            "deterministic": method.deterministic,
            "packages": method.packages,
            "presets": presets,
            "choices": method.choices,
            "parameters": {name: _parameter(parameter) for name, parameter in declared.items()},
        }
        print(json.dumps(document, indent=1, sort_keys=True))
        return 0
    about = method.doc.partition("\n\n")[0]
    print(fill(f"{entry.name}: {entry.title}, pairs {method.supervision}, {entry.origin}\n\n{about}\n"))
    for name, parameter in declared.items():
        unit, default = parameter.unit and f"in {parameter.unit}", f"default {_default(parameter.default)}"
        facts = [parameter.type_name, parameter.range, unit, default]
        print(fill(f"{entry.name}.{name}: {', '.join(filter(None, facts))}"))
        said = " ".join(filter(None, [parameter.doc.text, parameter.doc.source and f"[{parameter.doc.source}]"]))
        if said:
            print(_paragraph(said, "    ", "    "))
    if presets:
        names = [name for name in declared if any(name in values for values in presets.values())]
        rows = [
            [name, *(_default(values[name]) if name in values else "" for values in presets.values())] for name in names
        ]
        print(f"\n{format_table(rows, ['preset', *presets])}")
        for preset, origin in method.choices.items():
            print(fill(f"\nValues of {preset} come from:\n{textwrap.indent(origin, '    ')}"))
    return 0


def _default(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "type": parameter.type_name,
        "default": parameter.default,
        "range": parameter.range,
        "unit": parameter.unit,
        "doc": parameter.doc.text,
        "source": parameter.doc.source,
    }


def _datasets(_: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    from xmcbench.data import known_datasets

    known = known_datasets()
    default = next((dataset.slug for dataset in known if dataset.card and dataset.card.default), None)
    listing = []
    for dataset in known:
        counts = dataset.card.counts if dataset.card else {}
        listing.append(
            {
                "name": dataset.slug,
                "train": counts.get("train"),
                "test": counts.get("test"),
                "labels": counts.get("labels"),
                "default": dataset.slug == default,
                "status": dataset.problem or "ok",
                "hint": dataset.hint,
            }
        )
    return listing, 0


def _layouts(_: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    from xmcbench.data.exchange import formats
    from xmcbench.data.sources.finding import layouts

    written = formats()
    listing = [
        {
            "name": name,
            "written": "yes" if name in written else "no",
            "options": ", ".join(sorted(cls.options)),
            "description": cls.title,
        }
        for name, cls in layouts().items()
    ]
    return listing, 0


def _results(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    from xmcbench import environment
    from xmcbench.leaderboard.groups import group_by
    from xmcbench.leaderboard.names import names as name_rows
    from xmcbench.metrics import additional
    from xmcbench.records import Store
    from xmcbench.runner.scoring import StoredScores

    names = arguments.metrics or _METRICS
    additional.check_names(names)
    store, listing = Store(arguments.runs), []
    store.check_exists()
    stored = StoredScores(store)
    registry = request.registry(arguments.plugin)
    staleness, here = registry.staleness(arguments.runs), environment.packages()
    records = store.records()
    registry.ask_about_parts(record.cell for record in records)
    report.note_unknown(records, staleness)
    # A block of the listing is one table, in which rows of one name are told apart.
    blocks = group_by(records, _find_block)
    called = {block: name_rows(group_by(own, lambda record: record.cell.row)) for block, own in blocks.items()}
    for record in records:
        problem = ""
        values: Mapping[str, float | None] = record.metrics[record.protocol.filter].values if record.ok else {}
        if record.ok and arguments.metrics:
            try:
                values = stored.compute(record, names)
            except StorageError as error:
                values, problem = {}, str(error)
        other = {
            name: version for name, version in record.environment.packages.items() if here.get(name, version) != version
        }
        listing.append(
            {
                "dataset": record.cell.dataset,
                "dataset_sha256": record.cell.dataset_sha256,
                "setting": record.cell.setting.slug,
                "method": called[_find_block(record)][record.cell.row],
                "seed": record.cell.seed,
                "key": record.key[:12],
                "status": "stale" if record.ok and staleness.problem(record) else record.status,
                **{name: values.get(name) for name in names},
                "filter": record.protocol.filter,
                "total_s": record.measured.total_s,
                "reason": record.reason or staleness.problem(record) or problem,
                "other_packages": other,
            }
        )
    return listing, report.warn_left_out(store)


def _find_block(record: Record) -> tuple[str, ...]:
    """Return the values of a record under ``_HEADINGS``."""
    cell = record.cell
    return cell.dataset, cell.dataset_sha256, cell.setting.slug, record.protocol.filter


_LISTINGS = {"methods": _methods, "datasets": _datasets, "layouts": _layouts, "results": _results}
