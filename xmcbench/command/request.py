"""Read the flags that commands share (``flags``)."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError
from xmcbench.output.escaping import visible

if TYPE_CHECKING:
    from xmcbench.comparison import Comparison
    from xmcbench.environment import Compute
    from xmcbench.experiment import Options
    from xmcbench.plugins.registry import Registry
    from xmcbench.records.selection import Conditions
    from xmcbench.records.staleness import Staleness
    from xmcbench.runner.target import Limits, Target
    from xmcbench.setting import Setting

#: Between datasets. A comma behind an equals sign is the value of an option, such as ?separator=, of a table.
_DIVIDER = re.compile("(?<!=),")


def registry(plugins: Iterable[Path] = (), time_limit_s: float | None = None) -> Registry:
    """Return all methods by name. Prints a note where a plug-in file replaces an installed one or has no method."""
    from xmcbench.plugins.registry import Registry

    found = Registry(plugins, time_limit_s)
    for note in found.notes:
        print(f"xmcbench: {visible(note)}", file=sys.stderr)
    return found


def options(arguments: argparse.Namespace) -> Options:
    """Return how cells are executed. Raises UsageError."""
    from xmcbench.experiment import Options

    names = {"runs", "force", "refresh", "jobs", "cells_per_gpu", "on"} & vars(arguments).keys()  # `fit` has few
    given = {name: getattr(arguments, name) for name in names}
    return Options(plugins=tuple(arguments.plugin), limits=limits(arguments), compute=compute(arguments), **given)


def limits(arguments: argparse.Namespace) -> Limits:
    """Return the limits of a cell. Raises UsageError."""
    from xmcbench.runner.target import Limits

    return Limits(arguments.time_limit, arguments.memory_limit)


def compute(arguments: argparse.Namespace) -> Compute:
    """Return the device and processes of a cell."""
    from xmcbench.environment import Compute

    return Compute(arguments.device, arguments.processes)


def target(arguments: argparse.Namespace, runs: Path) -> Target:
    """Return where a command runs a single cell. runs: the folder of its result. Raises UsageError."""
    from xmcbench.records import Store
    from xmcbench.runner.target import Target

    return Target(Store(runs), limits(arguments), compute(arguments))


def staleness(arguments: argparse.Namespace) -> Staleness:
    """Return today's code, by which the records of --runs are judged. Raises UsageError and StorageError."""
    return registry(vars(arguments).get("plugin", ())).staleness(arguments.runs)


def conditions(arguments: argparse.Namespace, staleness: Staleness) -> Conditions:
    """Return the conditions for rows that ``add_choice`` has read. Raises UsageError."""
    from xmcbench.records.selection import Conditions
    from xmcbench.setting import Setting, seeds_of

    setting = Setting.optional(arguments.setting, arguments.ratio, arguments.by)
    seeds = seeds_of(arguments.seed) if arguments.seed else None
    return Conditions(place(arguments), setting, seeds, staleness)


def comparison(arguments: argparse.Namespace, force: bool = False) -> Comparison:
    """Compare the rows of ``add_rows``, and note missing methods. force: across datasets. Raises UsageError."""
    from xmcbench.command import report
    from xmcbench.comparison import compare

    names = ("runs", "setting", "ratio", "by", "seed", "filter")
    chosen = {name: getattr(arguments, name) for name in names}
    judged = staleness(arguments)
    rows = (arguments.first, arguments.second)
    found = compare(*rows, dataset=place(arguments), **chosen, force=force, staleness=judged)
    report.note_unknown([*found.first.records, *found.second.records], judged)
    return found


def grid(arguments: argparse.Namespace, methods: Sequence[str], **changes: object) -> dict[str, Any]:
    """Return the grid of a command line, as arguments of ``xmcbench.run``. changes: other values. Raises UsageError."""
    names = ("setting", "ratio", "by", "preset", "seed")
    given = {name: vars(arguments).get(name) for name in names}  # a curve has no setting
    places = datasets(arguments)
    if limit := vars(arguments).get("limit"):
        places = tuple(_with_options(place, "--limit", {"limit": str(limit)}) for place in places)
    whole = {"dataset": places, **given, "methods": methods, "set": overrides(arguments.set)}
    return {**whole, **changes}


def datasets(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the places of --dataset, or the default one; an existing path is one place. Raises UsageError."""
    from xmcbench.data.catalog import default_dataset

    text = default_dataset() if arguments.dataset is None else arguments.dataset
    names = [text] if _is_one_place(text) else [name.strip() for name in _DIVIDER.split(text) if name.strip()]
    if not names:
        raise UsageError("the name of the dataset is empty", "--dataset lf-debian-2k,lf-debian-20k")
    found = _with_columns([*dict.fromkeys(names)], arguments.columns)
    return tuple(_hold_out(reference, arguments.dev) for reference in found)


def _is_one_place(text: str) -> bool:
    """Return whether a text is the path of something that exists, with options that name no other."""
    path, question, options = text.rpartition("?")
    places = [text, *([path] if question and not _DIVIDER.search(options) else [])]
    return any(os.path.exists(os.path.expanduser(place)) for place in places)


def places_by_name(arguments: argparse.Namespace) -> dict[str, str]:
    """Return name -> place of the datasets of a --dataset that may be repeated. Raises UsageError for two of one."""
    from xmcbench.data.catalog import load_dataset, normalize_name

    found: dict[str, str] = {}
    for place in _with_columns(arguments.dataset, arguments.columns):
        name = load_dataset(place).name
        other = found.setdefault(name, place)
        if Path(normalize_name(other)).resolve() != Path(normalize_name(place)).resolve():
            raise UsageError(f"{other} and {place} are two datasets with the name {name}", "choose one of them")
    return found


def only_dataset(arguments: argparse.Namespace) -> str:
    """Return the name or place of --dataset, for a command that takes one. Raises UsageError."""
    first, *others = datasets(arguments)
    if others:
        raise UsageError(f"--dataset {arguments.dataset} names several datasets", f"this command takes one: {first}")
    return first


def place(arguments: argparse.Namespace) -> str | None:
    """Return the name or place of a --dataset without a default, with --columns and --dev. Raises UsageError."""
    found = _with_columns((arguments.dataset,) if arguments.dataset else (), arguments.columns)
    share = vars(arguments).get("dev")  # not every command can hold instances out
    if share is not None and not found:
        raise UsageError("--dev needs --dataset", "give the dataset whose training instances are held out")
    return _hold_out(found[0], share) if found else None


def reference(place: str, columns: str | None) -> str:
    """Return a name or place of a dataset together with --columns. Raises UsageError."""
    return _with_columns((place,), columns)[0]


def _hold_out(reference: str, share: str | None) -> str:
    from xmcbench.data.catalog import DEV

    return reference if share is None else _with_options(reference, "--dev", {DEV: share})


def _with_columns(references: Sequence[str], columns: str | None) -> tuple[str, ...]:
    """Return names as they are, and places with --columns. Raises UsageError where there are names only."""
    from xmcbench.data.catalog import is_name

    if columns is None:
        return tuple(references)
    if not references:
        raise UsageError("--columns needs --dataset", "give the table that it is about")
    found = {}
    for word in columns.split(","):
        role, equals, column = word.partition("=")
        if not equals or not role.strip() or not column.strip():
            raise UsageError(f"--columns {word!r} is not ROLE=COLUMN", "for example text=abstract,labels=subjects")
        if role.strip() in found:
            raise UsageError(f"--columns names {role.strip()} twice", "give each role once")
        found[role.strip()] = column.strip()
    names = [reference for reference in references if is_name(reference)]
    if len(names) == len(references):
        raise UsageError(f"--columns is for tables, and {names[0]} is a name", "leave it out, or give a file or folder")
    return tuple(name if name in names else _with_options(name, "--columns", found) for name in references)


def _with_options(reference: str, flag: str, options: Mapping[str, str]) -> str:
    """Return a reference with the options of a flag. Raises UsageError if it has another value of one of them."""
    from xmcbench.data.sources.finding import place_of, reference_to

    there = place_of(reference).options
    for name, value in options.items():
        if there.get(name, value) != value:
            raise UsageError(f"{flag} has {name}={value}, and {reference} another {name}", "choose one of them")
    return reference_to(reference, options)


def only_setting(arguments: argparse.Namespace) -> Setting:
    """Return the setting of --setting, --ratio and --by, for a command that takes one. Raises UsageError."""
    from xmcbench.setting import settings

    setting, *others = settings(arguments.setting, arguments.ratio or (), arguments.by or ())
    if others:
        raise UsageError("several settings are given", f"this command takes one: {setting.title}")
    return setting


def overrides(words: list[str]) -> dict[str, dict[str, object]]:
    """Return method -> parameter -> value, or a list of them, from the words of --set. Raises UsageError."""
    found: dict[str, dict[str, list[str]]] = {}
    for word in words:
        target, equals, value = word.partition("=")
        method, dot, parameter = target.partition(".")
        if not equals or not dot or not parameter:
            raise UsageError(f"--set {word!r} is not METHOD.PARAM=VALUE", "for example --set bm25.k1=1.2")
        found.setdefault(method, {}).setdefault(parameter, []).append(value)
    return {
        method: {parameter: given if len(given) > 1 else given[0] for parameter, given in values.items()}
        for method, values in found.items()
    }


def check_unused(arguments: argparse.Namespace, message: str, hint: str, **defaults: object) -> None:
    """Raise UsageError for a flag without an effect. message: with {} for the flag. defaults: name -> default."""
    for name, default in defaults.items():
        if getattr(arguments, name) != default:
            raise UsageError(message.format(f"--{name.replace('_', '-')}"), hint)
