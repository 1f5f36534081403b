"""Test a method, given by name or as a plug-in file, against the contract on a tiny corpus.

It runs in a separate process with a time limit, under the preset `quick` if the method has one. One check scores it
on random test pairs, where no honest method beats chance.

  xmcbench check tfidf
  xmcbench check my_method.py --set my-method.steps=5
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from xmcbench.command import flags, request

_SHOWN = {"ok": "ok     ", "failed": "FAILED ", "missing": "missing"}


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench check``."""
    parser.add_argument("method", metavar="NAME|FILE.py")
    flags.add_set(parser)
    flags.add_limits(parser, default_s=600)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Run the contract test; 1 if a check fails or cannot run here."""
    from xmcbench.contract import Question, check
    from xmcbench.errors import UsageError

    plugin = Path(arguments.method) if arguments.method.endswith(".py") else None
    given, limits = request.overrides(arguments.set), request.limits(arguments)
    registry = request.registry([plugin] if plugin else [], limits.time_s)
    entries = [entry for entry in registry if entry.plugin] if plugin else [registry[arguments.method]]
    for name in given.keys() - {entry.name for entry in entries}:
        raise UsageError(
            f"--set {name}: {name} is not checked", "--set METHOD.PARAM=VALUE, with a method that is checked"
        )
    for entry in entries:
        if entry.description is not None:
            entry.description.resolve(entry.name, given.get(entry.name, {}))
    reports = {
        entry.name: check(
            Question(
                name=entry.name,
                plugin=str(plugin.resolve()) if plugin else None,
                parameters=given.get(entry.name, {}),
                time_s=limits.time_s,
                memory_gib=limits.memory_gib,
            )
        )
        for entry in entries
    }
    statuses = {finding.status for findings in reports.values() for finding in findings}
    if arguments.json:
        print(json.dumps({name: msgspec.to_builtins(findings) for name, findings in reports.items()}, indent=1))
        return 0 if statuses == {"ok"} else 1
    for name, findings in reports.items():
        print(name)
        for finding in findings:
            print(f"  {_SHOWN[finding.status]}  {finding.name}" + (f": {finding.reason}" if finding.reason else ""))
    if "failed" in statuses:
        print("the contract is broken")
    else:
        print("something is missing, so some checks did not run" if "missing" in statuses else "the contract holds")
    return 0 if statuses == {"ok"} else 1
