"""Flags that several commands share, and their parsing."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.experiment import Options
    from xmcbench.runner.grid import Grid
    from xmcbench.runner.place import Limits
    from xmcbench.runner.schedule import Jobs
    from xmcbench.setting import Setting


def add_dataset(group: Any) -> None:
    """The flag for the dataset, for an argument group."""
    group.add_argument(
        "--dataset",
        metavar="NAME|PLACE[,..]",
        help="names (see `ls datasets`), or folders, files or hf:OWNER/NAME in any layout of `ls layouts` "
        "(default: the small bundled one)",
    )
    add_columns(group)


def add_columns(group: Any) -> None:
    """The flag for the columns of tables, for a parser or an argument group."""
    group.add_argument(
        "--columns",
        metavar="ROLE=COLUMN[,..]",
        help="columns of a table: text, title, labels, uid; for example text=abstract,labels=subjects",
    )


def add_setting(group: Any, **options: Any) -> None:
    """The flags for the setting, for an argument group; options: of --setting itself."""
    group.add_argument("--setting", metavar="ez|fs|full[,..]", **options)
    group.add_argument("--ratio", metavar="R[,..]", help="shares of labels or pairs for fs, in (0, 1]")
    group.add_argument("--by", metavar="label|pair[,..]", help="whether fs samples labels or pairs (default: label)")


def add_methods(group: Any) -> None:
    """The flags for parameters, seeds and plug-ins, for an argument group."""
    group.add_argument(
        "--preset", metavar="P", help="paper, reference, quick, ... (default: quick if the method has it)"
    )
    add_set(group)
    group.add_argument("--seed", default="0", metavar="S[,S..]", help="default: 0")
    add_plugin(group)


def add_plugin(group: Any) -> None:
    """The flag for methods that are not installed, for a parser or an argument group."""
    group.add_argument(
        "--plugin",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file that defines methods; may be repeated",
    )


def add_execution(group: Any) -> None:
    """The flags for the runs folder and what a cell may take, for an argument group."""
    group.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    add_limits(group)
    add_device(group)
    group.add_argument(
        "--jobs",
        metavar="N|auto",
        help="number of cells to run at once; they share the cores (auto: one per core; default: 1, and auto with "
        "--on ray)",
    )
    group.add_argument(
        "--on",
        default="local",
        metavar="local|ray|ray://HOST:PORT",
        help="where cells run: this machine; the Ray cluster at RAY_ADDRESS, or a new one here; or the cluster at an "
        "address (default: local)",
    )
    group.add_argument(
        "--cells-per-gpu", type=int, default=1, metavar="N", help="cells at once on one GPU (default: 1)"
    )
    group.add_argument("--force", action="store_true", help="run finished cells again")
    group.add_argument("--refresh", action="store_true", help="run stale cells again: those whose code has changed")


def add_device(group: Any) -> None:
    """The flags for where a cell computes, for an argument group."""
    group.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: auto, a GPU if there is one"
    )
    group.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="processes of a cell on this machine, one for each GPU, that train encoders and embed texts (default: 1)",
    )


def add_set(group: Any) -> None:
    """The flag for parameters, for an argument group."""
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="METHOD.PARAM=VALUE",
        help="set a parameter; may be repeated, and several values of one parameter are a row each",
    )


def add_limits(group: Any, default_s: int = 86400) -> None:
    """The flags for what a cell may take, for an argument group."""
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        default=default_s,
        help="seconds for each cell, inf for none (default: %(default)s)",
    )
    group.add_argument("--memory-limit", type=float, metavar="GIB", help="GiB for each cell (default: none)")


def add_config(group: Any) -> None:
    """The flag for a settings file, for an argument group."""
    group.add_argument(
        "--config",
        metavar="FILE.toml",
        help="read flags from a file, one `name = value` each, and grids from [[grid]] tables; flags given here win",
    )


def add_dry_run(group: Any) -> None:
    """The flag that only shows the plan, for an argument group."""
    group.add_argument("--dry-run", action="store_true", help="show what would run, and do nothing")


def add_filter(group: Any) -> None:
    """The flag for the filter, for an argument group."""
    group.add_argument(
        "--filter",
        choices=("none", "self", "file"),
        help="predictions left out: none, the instance itself, pairs in a file (default: the card's)",
    )


def add_metric(group: Any, default: str = "P@1", metavar: str = "M") -> None:
    """The flag for metrics, for a parser or an argument group."""
    known = "P@1, 3, 5; R@1, 3, 5, 10, 100; nDCG@1, 3, 5; or PSP@1, 3, 5"
    group.add_argument("--metric", default=default, metavar=metavar, help=f"{known} (default: %(default)s)")


def add_rows(group: Any) -> None:
    """Two rows, and the flags that choose among their results, for a parser."""
    row = "a row: NAME, NAME:VARIANT, the beginning of a record's key, or a record's file"
    group.add_argument("first", metavar="A", help=row)
    group.add_argument("second", metavar="B", help="another row, named in the same way")
    add_choice(group)


def add_choice(group: Any) -> None:
    """The flags that choose among the results of a row, for a parser."""
    group.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    group.add_argument("--dataset", metavar="NAME|FOLDER", help="default: the one that has results")
    group.add_argument("--setting", choices=("ez", "fs", "full"), help="default: the one that has results")
    group.add_argument("--ratio", type=float, metavar="R", help="share, for --setting fs")
    group.add_argument("--by", choices=("label", "pair"), help="unit, for --setting fs (default: label)")
    group.add_argument("--seed", metavar="S[,S..]", help="seeds (default: all available)")
    add_filter(group)


def row_choice(arguments: argparse.Namespace) -> dict[str, Any]:
    """What ``add_choice`` has read, as arguments of ``compare``. Raises UsageError."""
    named = ("dataset", "setting", "ratio", "by", "filter")
    chosen = seeds(arguments.seed) if arguments.seed else None
    return {**{name: getattr(arguments, name) for name in named}, "seed": chosen}


def chosen_setting(arguments: argparse.Namespace) -> Setting | None:
    """The setting that ``add_choice`` has read, None for any. Raises UsageError."""
    from xmcbench.setting import Setting

    return Setting.optional(arguments.setting, arguments.ratio, arguments.by)


def add_shown(group: Any) -> None:
    """The flags for filter and form of what is printed, for an argument group."""
    add_filter(group)
    group.add_argument("--json", action="store_true", help="one JSON document on stdout")


def grid(arguments: argparse.Namespace, methods: tuple[str, ...], settings: Sequence[Setting] | None = None) -> Grid:
    """The grid of a command line. settings: default is those of --setting, --ratio and --by. Raises UsageError."""
    from xmcbench.runner.grid import Grid

    given = _settings(arguments) if settings is None else settings
    sets = overrides(arguments.set)
    return Grid(datasets(arguments), given, methods, arguments.preset, sets, seeds(arguments.seed))


def datasets(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The names or places of --dataset, each with --columns, or the dataset whose card says that it is the default.

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
    return tuple(reference(name, arguments.columns) for name in names)


def only_dataset(arguments: argparse.Namespace) -> str:
    """The name or place of --dataset, for a command that takes one. Raises UsageError."""
    place, *others = datasets(arguments)
    if others:
        raise UsageError(f"--dataset {arguments.dataset} names several datasets", f"this command takes one: {place}")
    return place


def reference(place: str, columns: str | None) -> str:
    """A name or place of a dataset together with --columns. Raises UsageError."""
    from xmcbench.data.sources.finding import reference_to

    found = {}
    for word in columns.split(",") if columns else ():
        role, equals, column = word.partition("=")
        if not equals or not role.strip() or not column.strip():
            raise UsageError(f"--columns {word!r} is not ROLE=COLUMN", "for example text=abstract,labels=subjects")
        found[role.strip()] = column.strip()
    return reference_to(place, found)


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
    try:
        found = tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise UsageError(f"--seed {text!r} must be comma-separated integers", "--seed 0 or --seed 0,1,2") from None
    if any(not 0 <= seed < 2**32 for seed in found):
        raise UsageError(f"--seed {text}: a seed must be in 0..2^32-1")
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
    from xmcbench.runner.opening import check_on

    return Options(
        arguments.runs,
        tuple(arguments.plugin),
        limits(arguments),
        compute(arguments),
        arguments.force,
        arguments.refresh,
        jobs=_jobs(arguments.jobs) if arguments.jobs is not None else None,
        cells_per_gpu=_at_least_one("--cells-per-gpu", arguments.cells_per_gpu),
        on=check_on(arguments.on),
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


def limits(arguments: argparse.Namespace) -> Limits:
    """The limits of a cell. Raises UsageError."""
    from xmcbench.runner.place import Limits

    for name, limit in (("--time-limit", arguments.time_limit), ("--memory-limit", arguments.memory_limit)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} {limit:g} must be positive", "give a number above 0, or omit it")
    given = (arguments.time_limit, arguments.memory_limit)
    return Limits(*(None if limit == math.inf else limit for limit in given))
