"""What ``run``, ``ablation`` and ``curve`` share: the flags for what runs and how, and their parsing."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError

if TYPE_CHECKING:
    from xmcbench.api import Options
    from xmcbench.environment import Compute
    from xmcbench.runner.execution import Limits
    from xmcbench.setting import Setting


def add_dataset(group: Any) -> None:
    """The flag for the dataset, for an argument group."""
    group.add_argument(
        "--dataset", metavar="NAME|FOLDER", help="name (see `ls datasets`) or folder (default: the small bundled one)"
    )


def add_setting(group: Any, **options: Any) -> None:
    """The flags for the setting, for an argument group; options: of --setting itself."""
    group.add_argument("--setting", choices=("ez", "fs", "full"), **options)
    group.add_argument("--ratio", type=float, metavar="R", help="share of labels or pairs for fs, in (0, 1]")
    group.add_argument("--by", choices=("label", "pair"), help="whether fs samples labels or pairs (default: label)")


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
    group.add_argument("--force", action="store_true", help="run finished cells again")
    group.add_argument("--refresh", action="store_true", help="run stale cells again: those whose code has changed")


def add_device(group: Any) -> None:
    """The flags for where a cell computes, for an argument group."""
    group.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: auto, a GPU if there is one"
    )
    group.add_argument(
        "--processes", type=int, default=1, metavar="N", help="training processes on this machine (default: 1)"
    )


def add_set(group: Any) -> None:
    """The flag for parameters, for an argument group."""
    group.add_argument(
        "--set", action="append", default=[], metavar="METHOD.PARAM=VALUE", help="set a parameter; may be repeated"
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


def add_rows(group: Any) -> None:
    """Two rows, and the flags that choose among their results, for a parser."""
    group.add_argument("first", metavar="A")
    group.add_argument("second", metavar="B")
    add_choice(group)


def add_choice(group: Any) -> None:
    """The flags that choose among the results of a row, for a parser."""
    group.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    group.add_argument("--dataset", metavar="NAME|FOLDER", help="default: the one that has results")
    group.add_argument("--setting", choices=("ez", "fs", "full"), help="default: the one that has results")
    group.add_argument("--ratio", type=float, metavar="R", help="of --setting fs")
    group.add_argument("--by", choices=("label", "pair"), help="of --setting fs (default: label)")
    group.add_argument("--seed", metavar="S[,S..]", help="seeds (default: all that there are)")
    add_filter(group)


def row_choice(arguments: argparse.Namespace) -> dict[str, Any]:
    """What ``add_choice`` has read, as arguments of ``compare``. Raises UsageError."""
    named = ("dataset", "setting", "ratio", "by", "filter")
    chosen = seeds(arguments.seed) if arguments.seed else None
    return {**{name: getattr(arguments, name) for name in named}, "seed": chosen}


def chosen_setting(arguments: argparse.Namespace) -> Setting | None:
    """The setting that ``add_choice`` has read, None for any. Raises UsageError."""
    from xmcbench.setting import Setting

    if arguments.setting is None and (arguments.ratio is not None or arguments.by):
        raise UsageError("--ratio and --by need --setting fs")
    return Setting.of(arguments.setting, arguments.ratio, arguments.by) if arguments.setting else None


def add_shown(group: Any) -> None:
    """The flags for filter and form of what is printed, for an argument group."""
    add_filter(group)
    group.add_argument("--json", action="store_true", help="one JSON document on stdout")


def dataset(arguments: argparse.Namespace) -> str:
    """The name or folder of --dataset, or of the dataset whose card says that it is the default."""
    from xmcbench.data.catalogue import default_dataset

    return arguments.dataset or default_dataset()


def setting(arguments: argparse.Namespace) -> Setting:
    """The setting of --setting, --ratio and --by. Raises UsageError."""
    from xmcbench.setting import Setting

    return Setting.of(arguments.setting, arguments.ratio, arguments.by)


def methods(text: str) -> tuple[str, ...]:
    """The names of --methods. Raises UsageError."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("--methods is empty", "--methods all, or --methods tfidf,xr-linear")
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
    """Method -> parameter -> value, from the words of --set. Raises UsageError."""
    found: dict[str, dict[str, object]] = {}
    for word in words:
        target, equals, value = word.partition("=")
        method, dot, parameter = target.partition(".")
        if not equals or not dot or not parameter:
            raise UsageError(f"--set {word!r} is not METHOD.PARAM=VALUE", "for example --set bm25.k1=1.2")
        found.setdefault(method, {})[parameter] = value
    return found


def options(arguments: argparse.Namespace) -> Options:
    """How cells run. Raises UsageError."""
    from xmcbench.api import Options

    return Options(
        arguments.runs,
        tuple(arguments.plugin),
        limits(arguments),
        compute(arguments),
        arguments.force,
        arguments.refresh,
    )


def compute(arguments: argparse.Namespace) -> Compute:
    """Where cells compute. Raises UsageError."""
    from xmcbench.environment import Compute

    if arguments.processes < 1:
        raise UsageError(f"--processes {arguments.processes} must be at least 1")
    return Compute(arguments.device, arguments.processes)


def limits(arguments: argparse.Namespace) -> Limits:
    """The limits of a cell. Raises UsageError."""
    from xmcbench.runner.execution import Limits

    for name, limit in (("--time-limit", arguments.time_limit), ("--memory-limit", arguments.memory_limit)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} {limit:g} must be positive", "give a number above 0, or omit it")
    given = (arguments.time_limit, arguments.memory_limit)
    return Limits(*(None if limit == math.inf else limit for limit in given))
