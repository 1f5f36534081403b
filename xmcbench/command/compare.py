"""Compare two rows instance by instance: which metrics differ, by how much, how surely; then what the rows differ in.

A row is a method (NAME, NAME:VARIANT, or NAME: for the one without a variant), the beginning of a record's key, or a
record's file. Differences are A - B. With several seeds the test is over instances and seeds. Only the ranks that are
stored with the records are needed. --setting and --ratio choose among settings.

  xmcbench compare tfidf bm25 --setting ez
  xmcbench compare tfidf:pecos bm25 --dataset lf-debian-20k --setting ez --runs leaderboards
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench compare``."""
    parser.add_argument("first", metavar="A")
    parser.add_argument("second", metavar="B")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: ./runs")
    parser.add_argument("--dataset", metavar="NAME|FOLDER", help="default: the one that both have results on")
    parser.add_argument("--setting", choices=("ez", "fs", "full"), help="default: the one that both have results in")
    parser.add_argument("--ratio", type=float, metavar="R", help="of --setting fs")
    parser.add_argument("--by", choices=("label", "pair"), help="of --setting fs (default: label)")
    parser.add_argument("--seed", metavar="S[,S..]", help="default: the seeds that both have")
    parser.add_argument("--filter", choices=("none", "self", "file"), help="default: what the dataset's card says")
    parser.add_argument("--force", action="store_true", help="put two datasets or filters side by side all the same")
    parser.add_argument("--plugin", action="append", default=[], type=Path, metavar="FILE", help="a method in a file")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Choose, test, print; the exit code says nothing about the difference."""
    from xmcbench.command.request import seeds
    from xmcbench.comparison import compare
    from xmcbench.registry import Registry

    comparison = compare(
        arguments.first,
        arguments.second,
        runs=arguments.runs,
        dataset=arguments.dataset,
        setting=arguments.setting,
        ratio=arguments.ratio,
        by=arguments.by,
        seed=seeds(arguments.seed) if arguments.seed else None,
        filter=arguments.filter,
        force=arguments.force,
        standing=Registry(arguments.plugin).standing(),
    )
    print(json.dumps(comparison.as_json(), indent=1, sort_keys=True) if arguments.json else comparison)
    return 0
