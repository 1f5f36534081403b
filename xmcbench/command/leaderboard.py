"""Write the leaderboard's pages from stored records, or check that they are up to date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench leaderboard``."""
    parser.add_argument("--out", type=Path, default=Path("leaderboards"), metavar="DIR", help="default: ./leaderboards")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="the runs folder to read (default: the --out folder)")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is not up to date")


def run(arguments: argparse.Namespace) -> int:
    """Write, or compare; 1 if --check finds a difference."""
    from xmcbench.errors import UsageError
    from xmcbench.leaderboard import differences, pages, write
    from xmcbench.records import Store

    runs = arguments.runs or arguments.out
    if not (runs / "records").is_dir():
        raise UsageError(f"there are no records in {runs}", "--runs names the folder that `xmcbench run --runs` wrote")
    made = pages(Store(runs).records())
    if not arguments.check:
        write(arguments.out, made)
        print(f"{len(made)} pages in {arguments.out}, the index is {arguments.out / 'README.md'}")
        return 0
    found = differences(arguments.out, made)
    for line in found:
        print(f"xmcbench: {line}", file=sys.stderr)
    print("the pages are up to date" if not found else f"{len(found)} pages are not up to date: `xmcbench leaderboard`")
    return 1 if found else 0
