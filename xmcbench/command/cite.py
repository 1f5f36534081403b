"""Print BibTeX of xmcbench, and of the methods and datasets that were used.

Without names, these are the methods and datasets of the records in --runs. A line before each entry says what it is
cited for. References of a method in a file are read from references.bib beside it, where the keywords of an entry are
the names of methods.

  xmcbench cite                                  all that the records in ./runs are of
  xmcbench cite --runs leaderboards > refs.bib
  xmcbench cite maclr lf-amazon-131k
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xmcbench.command import flags, report, request
from xmcbench.errors import UsageError

_RUNS = Path("runs")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench cite``."""
    parser.add_argument("names", nargs="*", metavar="METHOD|DATASET", help="instead of those in the records")
    flags.path(parser, "runs", "DIR", "default: ./runs, if it is there")
    flags.add(parser, "plugin")


def run(arguments: argparse.Namespace) -> int:
    """Print the entries; on stderr, the names that nothing is cited for."""
    from xmcbench.analysis.citations import check_names, cite, list_used
    from xmcbench.records import Store

    if arguments.names and arguments.runs:
        raise UsageError("names are cited without records, and --runs reads records", "use one of them")
    registry = request.registry(arguments.plugin)
    store = Store(arguments.runs or _RUNS)
    if arguments.runs:
        store.check_exists()
    names = check_names(arguments.names, registry) if arguments.names else list_used(store.records(), registry)
    made = cite(names, arguments.plugin)
    print(made)
    note_uncited(made.missing)
    return report.warn_left_out(store)


def note_uncited(missing: tuple[str, ...]) -> None:
    """Print one line for the names that nothing is cited for."""
    if missing:
        print(f"xmcbench: note: no reference is known for {', '.join(missing)}", file=sys.stderr)
