"""Compare two rows on the same instances.

For every metric it prints the difference with its interval and p-value, then what else differs between the rows.

A row is a method (NAME, NAME:VARIANT, or NAME: for the row without a variant), the first letters of a record's key, or
a record's file. VARIANT is the text in parentheses in a table, or a part of it between commas.

Differences are A - B. With several seeds the test is over instances and seeds. It uses only the ranks that are stored
with the records. --setting and --ratio choose a setting if there are results in several.

  xmcbench compare tfidf bm25 --setting ez
  xmcbench compare tfidf:pecos bm25 --dataset lf-debian-20k --setting ez --runs leaderboards
"""

from __future__ import annotations

import argparse

from xmcbench.command import flags, report, request


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench compare``."""
    flags.add_rows(parser)
    flags.switch(parser, "force", "compare across datasets or filters, without a test")
    flags.add(parser, "plugin", "json")


def run(arguments: argparse.Namespace) -> int:
    """Select, test and print. The exit code does not depend on the difference."""
    found = request.comparison(arguments, arguments.force)
    report.print_json(found.as_json()) if arguments.json else report.show(found, as_json=False)
    return max(report.warn_left_out(store) for store in {found.first.store, found.second.store})
