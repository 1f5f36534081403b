"""Test a method against the contract on a tiny corpus: a name, or a plug-in file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from xmcbench.command import request


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench check``."""
    parser.add_argument("method", metavar="NAME|FILE.py")
    request.add_limits(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Run the contract test; 1 if a check fails."""
    from xmcbench.contract import check
    from xmcbench.registry import Registry

    plugin = Path(arguments.method) if arguments.method.endswith(".py") else None
    registry = Registry([plugin] if plugin else [])
    entries = [entry for entry in registry if entry.plugin] if plugin else [registry[arguments.method]]
    limits = request.limits(arguments)
    reports = {entry.name: check(entry, registry, limits) for entry in entries}
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
