"""The flags that several commands share. What was given is read by ``request``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: What says which row is meant, for help texts.
ROW = "a row: NAME, NAME:VARIANT, the beginning of a record's key, or a record's file"
OTHER_ROW = "another row, named in the same way"
#: The defaults of the flags for limits and for where a cell computes: a flag that has another value was given.
LIMITS: dict[str, object] = {"time_limit": 86400, "memory_limit": None}
DEVICE: dict[str, object] = {"device": "auto", "processes": 1}


def add_dataset(group: Any, several: bool = True) -> None:
    """The flag for the dataset, for an argument group. several: whether the command takes a list."""
    what = "names (see `ls datasets`), or folders, files or hf:OWNER/NAME in any layout of `ls layouts`"
    one = "a name (see `ls datasets`), or a folder, file or hf:OWNER/NAME in any layout of `ls layouts`"
    group.add_argument(
        "--dataset",
        metavar=_listed("NAME|PLACE", several),
        help=f"{what if several else one} (default: the one that `ls datasets` marks)",
    )
    add_columns(group)


def add_columns(group: Any) -> None:
    """The flag for the columns of tables, for a parser or an argument group."""
    group.add_argument(
        "--columns",
        metavar="ROLE=COLUMN[,..]",
        help="columns of a table: text, title, labels, uid; for example text=abstract,labels=subjects",
    )


def add_setting(group: Any, several: bool = True, **options: Any) -> None:
    """The flags for the setting, for an argument group.

    several: whether the command takes lists. options: of --setting itself.
    """
    group.add_argument("--setting", metavar=_listed("ez|fs|full", several), **options)
    share = "shares" if several else "share"
    group.add_argument("--ratio", metavar=_listed("R", several), help=f"{share} of labels or pairs for fs, in (0, 1]")
    group.add_argument(
        "--by", metavar=_listed("label|pair", several), help="whether fs samples labels or pairs (default: label)"
    )


def add_methods(group: Any, several: bool = True) -> None:
    """The flags for parameters, seeds and plug-ins, for an argument group. several: whether it takes lists."""
    group.add_argument(
        "--preset", metavar="P", help="paper, reference, quick, ... (default: quick if the method has it)"
    )
    add_set(group, several)
    group.add_argument("--seed", default="0", metavar="S[,S..]" if several else "S", help="default: 0")
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
        help="number of cells to run at once; they share the cores (auto: as many as the cores allow; default: 1, and "
        "auto with --on ray)",
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
        "--device",
        choices=("auto", "cpu", "cuda", "mps"),
        default=DEVICE["device"],
        help="default: auto, a CUDA GPU if there is one; mps: the GPU of an Apple chip",
    )
    group.add_argument(
        "--processes",
        type=int,
        default=DEVICE["processes"],
        metavar="N",
        help="processes of a cell on this machine, one for each GPU, that train encoders and embed texts (default: 1)",
    )


def add_set(group: Any, several: bool = True) -> None:
    """The flag for parameters, for an argument group. several: whether a parameter can have several values."""
    rows = ", and several values of one parameter give one row each" if several else ""
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="METHOD.PARAM=VALUE",
        help=f"set a parameter; may be repeated{rows}",
    )


def add_limits(group: Any, default_s: object = LIMITS["time_limit"], whose: str = "each cell") -> None:
    """The flags for what a cell may take, for an argument group. whose: what the limits are for."""
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        default=default_s,
        help=f"seconds for {whose}, inf for none (default: %(default)s)",
    )
    group.add_argument("--memory-limit", type=float, metavar="GIB", help=f"GiB for {whose} (default: none)")


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
    group.add_argument("first", metavar="A", help=ROW)
    group.add_argument("second", metavar="B", help=OTHER_ROW)
    add_choice(group)


def add_choice(group: Any) -> None:
    """The flags that choose among the results of a row, for a parser."""
    group.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    group.add_argument("--dataset", metavar="NAME|PLACE", help="default: the one that has results")
    add_columns(group)
    group.add_argument("--setting", choices=("ez", "fs", "full"), help="default: the one that has results")
    group.add_argument("--ratio", type=float, metavar="R", help="share, for --setting fs")
    group.add_argument("--by", choices=("label", "pair"), help="unit, for --setting fs (default: label)")
    group.add_argument("--seed", metavar="S[,S..]", help="seeds (default: all available)")
    add_filter(group)


def add_shown(group: Any) -> None:
    """The flags for filter and form of what is printed, for an argument group."""
    add_filter(group)
    group.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _listed(metavar: str, several: bool) -> str:
    return f"{metavar}[,..]" if several else metavar
