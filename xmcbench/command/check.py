"""Test a method against the contract on a tiny corpus: a name, or a plug-in file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench check``."""
    parser.add_argument("method", metavar="NAME|FILE.py")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Run the contract test; 1 if a check fails."""
    from xmcbench.contract import check
    from xmcbench.registry import Registry, from_file

    is_file = arguments.method.endswith(".py")
    entries = from_file(Path(arguments.method)) if is_file else [Registry()[arguments.method]]
    reports = {entry.name: check(entry) for entry in entries}
    good = all(finding.ok for findings in reports.values() for finding in findings)
    if arguments.json:
        document = {name: [vars(finding) for finding in findings] for name, findings in reports.items()}
        print(json.dumps(document, indent=1))
        return 0 if good else 1
    for name, findings in reports.items():
        print(name)
        for finding in findings:
            print(
                f"  {'ok    ' if finding.ok else 'FAILED'}  {finding.name}"
                + (f": {finding.reason}" if finding.reason else "")
            )
    print("the contract holds" if good else "the contract is broken")
    return 0 if good else 1
