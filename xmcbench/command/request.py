"""What the flags that commands share (``flags``) ask for."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.experiment import Options
    from xmcbench.plugins.registry import Registry
    from xmcbench.records.selection import Conditions
    from xmcbench.runner.grid import Grid
    from xmcbench.runner.place import Limits
    from xmcbench.runner.schedule import Jobs
    from xmcbench.setting import Setting


def registry(plugins: Iterable[Path] = (), time_limit_s: float | None = None) -> Registry:
    """All methods by name. Prints a note where a plug-in file replaces an installed one."""
    from xmcbench.plugins.registry import Registry

    return noted(Registry(plugins, time_limit_s))


def noted(registry: Registry) -> Registry:
    """The same registry, once its notes have been printed."""
    for note in registry.notes:
        print(f"xmcbench: {note}", file=sys.stderr)
    return registry


def conditions(arguments: argparse.Namespace) -> Conditions:
    """Where ``add_choice`` looks for rows. Raises UsageError."""
    from xmcbench.records.selection import Conditions

    return Conditions(place(arguments), chosen_setting(arguments), _chosen_seeds(arguments))


def row_choice(arguments: argparse.Namespace) -> dict[str, Any]:
    """What ``add_choice`` has read, as arguments of ``compare``. Raises UsageError."""
    named = ("setting", "ratio", "by", "filter")
    chosen = {name: getattr(arguments, name) for name in named}
    return {"dataset": place(arguments), **chosen, "seed": _chosen_seeds(arguments)}


def _chosen_seeds(arguments: argparse.Namespace) -> tuple[int, ...] | None:
    return seeds(arguments.seed) if arguments.seed else None


def chosen_setting(arguments: argparse.Namespace) -> Setting | None:
    """The setting that ``add_choice`` has read, None for any. Raises UsageError."""
    from xmcbench.setting import Setting

    return Setting.optional(arguments.setting, arguments.ratio, arguments.by)


def grid(arguments: argparse.Namespace, methods: tuple[str, ...], settings: Sequence[Setting] | None = None) -> Grid:
    """The grid of a command line. settings: default is those of --setting, --ratio and --by. Raises UsageError."""
    from xmcbench.runner.grid import Grid

    given = _settings(arguments) if settings is None else settings
    sets = overrides(arguments.set)
    return Grid(datasets(arguments), given, methods, arguments.preset, sets, seeds(arguments.seed))


def datasets(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The names and places of --dataset, places with --columns, or the dataset whose card says that it is the default.

    A path that exists is one place, even if it has a comma or ends in a space. Raises UsageError.
    """
    from xmcbench.data.catalog import default_dataset
    from xmcbench.data.sources.finding import place_of

    text = arguments.dataset
    if text is None:
        names: tuple[str, ...] = (default_dataset(),)
    elif place_of(text).path.exists():
        names = (text,)
    else:
        names = _names("--dataset", text, "--dataset lf-debian-2k,lf-debian-20k")
    return _with_columns(names, arguments.columns)


def named(arguments: argparse.Namespace) -> dict[str, str]:
    """The places of a --dataset that may be repeated, by the name of the dataset. Raises UsageError for two of one."""
    from xmcbench.data.catalog import load_dataset, normalize_name

    found: dict[str, str] = {}
    for each in _with_columns(arguments.dataset, arguments.columns):
        name = load_dataset(each).name
        other = found.setdefault(name, each)
        if Path(normalize_name(other)).resolve() != Path(normalize_name(each)).resolve():
            raise UsageError(f"{other} and {each} are two datasets with the name {name}", "choose one of them")
    return found


def only_dataset(arguments: argparse.Namespace) -> str:
    """The name or place of --dataset, for a command that takes one. Raises UsageError."""
    first, *others = datasets(arguments)
    if others:
        raise UsageError(f"--dataset {arguments.dataset} names several datasets", f"this command takes one: {first}")
    return first


def place(arguments: argparse.Namespace) -> str | None:
    """The name or place of a --dataset without a default, with --columns; None if not given. Raises UsageError."""
    return next(iter(_with_columns((arguments.dataset,) if arguments.dataset else (), arguments.columns)), None)


def reference(place: str, columns: str | None) -> str:
    """A name or place of a dataset together with --columns. Raises UsageError."""
    return _with_columns((place,), columns)[0]


def _with_columns(references: Sequence[str], columns: str | None) -> tuple[str, ...]:
    """Names as they are, and places with --columns. Raises UsageError where there are names only."""
    from xmcbench.data.catalog import is_name
    from xmcbench.data.sources.finding import reference_to

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
    names = [each for each in references if is_name(each)]
    if len(names) == len(references):
        raise UsageError(f"--columns is for tables, and {names[0]} is a name", "leave it out, or give a file or folder")
    return tuple(each if each in names else reference_to(each, found) for each in references)


def only_setting(arguments: argparse.Namespace) -> Setting:
    """The setting of --setting, --ratio and --by, for a command that takes one. Raises UsageError."""
    setting, *others = _settings(arguments)
    if others:
        raise UsageError("several settings are given", f"this command takes one: {setting.title}")
    return setting


def _settings(arguments: argparse.Namespace) -> tuple[Setting, ...]:
    from xmcbench.setting import settings

    kinds, by = arguments.setting, arguments.by
    return settings(
        _names("--setting", kinds, "--setting ez,full") if kinds is not None else (),
        numbers("--ratio", arguments.ratio, "--ratio 0.01,0.05") if arguments.ratio is not None else (),
        _names("--by", by, "--by label,pair") if by is not None else (),
    )


def numbers(flag: str, text: str, example: str) -> tuple[float, ...]:
    """The numbers of a flag, each once. Raises UsageError."""
    try:
        return tuple(dict.fromkeys(float(each) for each in text.split(",")))
    except ValueError:
        raise UsageError(f"{flag} {text!r} must be comma-separated numbers", example) from None


def _names(flag: str, text: str, example: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"{flag} is empty", example)
    return names


def methods(text: str) -> tuple[str, ...]:
    """The names of --methods. Raises UsageError."""
    names = _names("--methods", text, "--methods all, or --methods tfidf,xr-linear")
    if "all" in names and len(names) > 1:
        raise UsageError("--methods all cannot be combined with names", "name the methods, or say all")
    return names


def seeds(text: str) -> tuple[int, ...]:
    """The numbers of --seed, each once. Raises UsageError."""
    from xmcbench.setting import check_seeds

    try:
        found = tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise UsageError(f"--seed {text!r} must be comma-separated integers", "--seed 0 or --seed 0,1,2") from None
    check_seeds(found)
    return tuple(dict.fromkeys(found))


def overrides(words: list[str]) -> dict[str, dict[str, object]]:
    """Method -> parameter -> value, from the words of --set; a list where it is given several. Raises UsageError."""
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


def options(arguments: argparse.Namespace) -> Options:
    """How cells run. Raises UsageError."""
    from xmcbench.experiment import Options

    return Options(
        arguments.runs,
        tuple(arguments.plugin),
        limits(arguments),
        compute(arguments),
        arguments.force,
        arguments.refresh,
        jobs=_jobs(arguments.jobs) if arguments.jobs is not None else None,
        cells_per_gpu=_at_least_one("--cells-per-gpu", arguments.cells_per_gpu),
        on=arguments.on,
    )


def _jobs(text: str) -> Jobs:
    if text == "auto":
        return "auto"
    try:
        return _at_least_one("--jobs", int(text))
    except ValueError:
        raise UsageError(f"--jobs {text!r} is not a number", "--jobs 2, or --jobs auto") from None


def _at_least_one(flag: str, number: int) -> int:
    if number < 1:
        raise UsageError(f"{flag} {number} must be at least 1")
    return number


def compute(arguments: argparse.Namespace) -> Compute:
    """Where cells compute. Raises UsageError."""
    from xmcbench.environment import Compute

    return Compute(arguments.device, _at_least_one("--processes", arguments.processes))


def check_unused(arguments: argparse.Namespace, message: str, hint: str, **defaults: object) -> None:
    """Raise UsageError for a flag that was given and would do nothing.

    message: says so, with {} for the flag. defaults: name of the flag -> its default.
    """
    for name, default in defaults.items():
        if getattr(arguments, name) != default:
            raise UsageError(message.format(f"--{name.replace('_', '-')}"), hint)


def limits(arguments: argparse.Namespace) -> Limits:
    """The limits of a cell. Raises UsageError."""
    from xmcbench.runner.place import Limits

    given = (arguments.time_limit, arguments.memory_limit)
    return Limits(*(None if limit == math.inf else limit for limit in given))
