"""The flags that several commands share. ``request`` reads their values."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_Number = TypeVar("_Number", int, float)
#: Help texts for a row.
ROW = "a row: NAME, NAME:VARIANT, the beginning of a record's key, or a record's file"
OTHER_ROW = "another row, named in the same way"
#: The defaults of the flags for limits and devices: a flag with another value was given.
LIMITS: dict[str, object] = {"time_limit": 86400, "memory_limit": None}
DEVICE: dict[str, object] = {"device": "auto", "processes": 1}


def texts(text: str) -> list[str]:
    """Parse a list of texts, each once."""
    found = [*dict.fromkeys(word.strip() for word in text.split(",") if word.strip())]
    if not found:
        raise ArgumentTypeError(f"the list {text!r} is empty")
    return found


def _list_of(kind: type[_Number], said: str) -> Callable[[str], list[_Number]]:
    def parse(text: str) -> list[_Number]:
        try:
            return list(dict.fromkeys(map(kind, text.split(","))))
        except ValueError:
            raise ArgumentTypeError(f"{text!r} must be comma-separated {said}") from None

    return parse


#: Parse a list, each value once.
numbers, integers = _list_of(float, "numbers"), _list_of(int, "integers")


def positive(text: str) -> int:
    """Parse a number that is at least 1."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if number < 1:
        raise ArgumentTypeError(f"{number} must be at least 1")
    return number


def jobs(text: str) -> int | str:
    """Parse a number of jobs, or ``auto``."""
    return text if text == "auto" else positive(text)


def limit(text: str) -> float | None:
    """Parse a limit; None for infinity."""
    number = float(text)
    return None if number == math.inf else number


def _flag(said: str, **options: Any) -> dict[str, Any]:
    return {"help": said, **options}


#: The options of the flags that are the same everywhere, by name.
_SHARED = {
    "cells-per-gpu": _flag("cells at once on one GPU (default: 1)", type=positive, default=1, metavar="N"),
    "columns": _flag(
        "columns of a table: text, title, labels, uid; for example text=abstract,labels=subjects",
        metavar="ROLE=COLUMN[,..]",
    ),
    "config": _flag(
        "read flags from a file, one `name = value` each, and grids from [[grid]] tables; flags given here win",
        metavar="FILE.toml",
    ),
    "dev": _flag(
        "test on a share of the training instances, such as 0.1, and leave the test instances alone: for choosing "
        "among methods and parameters",
        metavar="SHARE",
    ),
    "device": _flag(
        "default: auto, a CUDA GPU if there is one; mps: the GPU of an Apple chip",
        choices=("auto", "cpu", "cuda", "mps"),
        default=DEVICE["device"],
    ),
    "dry-run": _flag("show what would run, and do nothing", action="store_true"),
    "filter": _flag(
        "predictions left out: none, the instance itself, pairs in a file (default: the card's)",
        choices=("none", "self", "file"),
    ),
    "force": _flag("run finished cells again", action="store_true"),
    "jobs": _flag(
        "number of cells to run at once; they share the cores (auto: as many as the cores allow; default: 1, and "
        "auto with --on ray)",
        type=jobs,
        metavar="N|auto",
    ),
    "json": _flag("one JSON document on stdout", action="store_true"),
    "metrics": _flag(
        "metrics shown, from ranks: those of the protocol, and F1@k, hit@k, coverage@k, micro-R@k, micro-F1@k, "
        "macro-R@k, PSR@k, psnDCG@k with k up to 100, MRR, R-precision",
        type=texts,
        metavar="M[,M..]",
    ),
    "on": _flag(
        "where cells run: this machine; the Ray cluster at RAY_ADDRESS, or a new one here; or the cluster at an "
        "address (default: local)",
        default="local",
        metavar="local|ray|ray://HOST:PORT",
    ),
    "plugin": _flag(
        "a file that defines methods; may be repeated", action="append", default=[], type=Path, metavar="FILE"
    ),
    "preset": _flag("paper, reference, quick, ... (default: quick if the method has it)", metavar="P"),
    "processes": _flag(
        "processes of a cell on this machine, one per GPU, that train encoders and embed texts (default: 1)",
        type=positive,
        default=DEVICE["processes"],
        metavar="N",
    ),
    "refresh": _flag("run stale cells again: those whose code has changed", action="store_true"),
    "runs": _flag("default: ./runs", type=Path, default=Path("runs"), metavar="DIR"),
}


def add(group: Any, *names: str) -> None:
    """Add flags by name to a parser or an argument group."""
    for name in names:
        group.add_argument(f"--{name}", **_SHARED[name])


def switch(group: Any, name: str, said: str) -> None:
    """Add a flag without a value."""
    group.add_argument(f"--{name}", action="store_true", help=said)


def path(group: Any, name: str, metavar: str, said: str, **options: Any) -> None:
    """Add a flag that takes a path."""
    group.add_argument(f"--{name}", type=Path, metavar=metavar, help=said, **options)


def add_dataset(group: Any, several: bool = True) -> None:
    """Add flags for the dataset. several: whether the command takes a list."""
    what = (
        "names (see `ls datasets`), or folders, files" if several else "a name (see `ls datasets`), or a folder, file"
    )
    group.add_argument(
        "--dataset",
        metavar=_metavar("NAME|PLACE", several),
        help=f"{what} or hf:OWNER/NAME in any layout of `ls layouts` (default: the one that `ls datasets` marks)",
    )
    add(group, "columns", "dev")


def add_setting(group: Any, several: bool = True, **options: Any) -> None:
    """Add flags for the setting. several: whether the command takes lists. options: of --setting itself."""
    group.add_argument("--setting", type=texts, metavar=_metavar("ez|fs|full", several), **options)
    few = f"{'shares' if several else 'share'} of labels or pairs for fs, in (0, 1]"
    group.add_argument("--ratio", type=numbers, metavar=_metavar("R", several), help=few)
    unit = "whether fs samples labels or pairs (default: label)"
    group.add_argument("--by", type=texts, metavar=_metavar("label|pair", several), help=unit)


def add_methods(group: Any, several: bool = True) -> None:
    """Add flags for parameters, seeds and plug-ins. several: whether it takes lists."""
    add(group, "preset")
    add_set(group, several)
    group.add_argument("--seed", type=integers, default=[0], metavar=_metavar("S", several), help="default: 0")
    add(group, "plugin")


def add_execution(group: Any) -> None:
    """Add flags for the runs folder and what a cell may take."""
    add(group, "runs")
    add_limits(group)
    add(group, "device", "processes", "jobs", "on", "cells-per-gpu", "force", "refresh")


def add_set(group: Any, several: bool = True) -> None:
    """Add the flag for parameters. several: whether a parameter can have several values."""
    rows = ", and several values of one parameter give one row each" if several else ""
    said = f"set a parameter; may be repeated{rows}"
    group.add_argument("--set", action="append", default=[], metavar="METHOD.PARAM=VALUE", help=said)


def add_limits(group: Any, default_s: object = LIMITS["time_limit"], whose: str = "each cell") -> None:
    """Add flags for what a cell may take. whose: what the limits are for."""
    time = f"seconds for {whose}, inf for none (default: %(default)s)"
    group.add_argument("--time-limit", type=limit, metavar="SECONDS", default=default_s, help=time)
    group.add_argument("--memory-limit", type=limit, metavar="GIB", help=f"GiB for {whose} (default: none)")


def add_metric(group: Any, default: str = "P@1", metavar: str = "M", **options: Any) -> None:
    """Add the flag for metrics of the protocol."""
    known = "P@1, 3, 5; R@1, 3, 5, 10, 100; nDCG@1, 3, 5; or PSP@1, 3, 5"
    group.add_argument("--metric", default=default, metavar=metavar, help=f"{known} (default: {default})", **options)


def add_rows(group: Any, optional: bool = False) -> None:
    """Add two rows, and the flags that choose among their results. optional: whether the second may be left out."""
    group.add_argument("first", metavar="A", help=ROW)
    group.add_argument("second", metavar="B", help=OTHER_ROW, nargs="?" if optional else None)
    add_choice(group)


def add_choice(group: Any) -> None:
    """Add the flags that choose among the results of a row."""
    add(group, "runs")
    group.add_argument("--dataset", metavar="NAME|PLACE", help="default: the one that has results")
    add(group, "columns", "dev")
    group.add_argument("--setting", choices=("ez", "fs", "full"), help="default: the one that has results")
    group.add_argument("--ratio", type=float, metavar="R", help="share, for --setting fs")
    group.add_argument("--by", choices=("label", "pair"), help="unit, for --setting fs (default: label)")
    group.add_argument("--seed", type=integers, metavar="S[,S..]", help="seeds (default: all available)")
    add(group, "filter")


def _metavar(name: str, several: bool) -> str:
    return f"{name}[,..]" if several else name
