"""Test a method, given by name or as a plug-in file, against the contract on a tiny corpus.

It runs in a separate process with a time limit. Without :PRESET it has the values of the preset `quick`, if there is
one. One check scores it on random test pairs, where no honest method beats chance.

  xmcbench check tfidf
  xmcbench check tfidf:pecos
  xmcbench check my_method.py --set my-method.steps=5
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Set
from pathlib import Path

import msgspec

from xmcbench.command import flags, request
from xmcbench.errors import UnknownName, UsageError

_SHOWN = {"ok": "ok     ", "failed": "FAILED ", "missing": "missing", "timeout": "TIMEOUT", "skipped": "skipped"}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench check``."""
    parser.add_argument("method", metavar="NAME|FILE.py", help="a method, with :PRESET if needed, or a plug-in file")
    flags.add_set(parser, several=False)
    flags.add_limits(parser, default_s=600, whose="the whole check of a method")
    flags.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    """Run the contract test; 1 if a check fails or cannot run here."""
    from xmcbench.contract import CheckRequest, check

    name, colon, last = arguments.method.rpartition(":")
    is_file = arguments.method.endswith(".py")  # whose folder may have a colon
    name, preset = (name, last) if colon and not is_file else (arguments.method, None)
    plugin = Path(name) if name.endswith(".py") else None
    given, limits = request.overrides(arguments.set), request.limits(arguments)
    registry = request.registry([plugin] if plugin else [], limits.time_s)
    entries = [entry for entry in registry if entry.plugin] if plugin else [registry[name]]
    for method, values in given.items():
        if method not in {entry.name for entry in entries}:
            raise UsageError(
                f"--set {method}: {method} is not checked", "--set METHOD.PARAM=VALUE, with a method that is checked"
            )
        for parameter in (name for name, value in values.items() if isinstance(value, list)):
            raise UsageError(f"--set {method}.{parameter} has several values", "check takes one value of a parameter")
    for entry in entries:
        if entry.description is not None:
            entry.description.resolve(entry.name, given.get(entry.name, {}))
            if preset is not None and preset not in entry.description.presets:
                raise UnknownName("preset", preset, entry.description.presets, where=f"of {entry.name}")
    reports = {
        entry.name if preset is None else f"{entry.name}:{preset}": check(
            CheckRequest(
                name=entry.name,
                plugin=str(plugin.resolve()) if plugin else None,
                preset=preset,
                parameters=given.get(entry.name, {}),
                environment=entry.description.environment if entry.description else (),
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
    for shown, findings in reports.items():
        print(shown)
        for finding in findings:
            print(f"  {_SHOWN[finding.status]}  {finding.name}" + (f": {finding.reason}" if finding.reason else ""))
    print(_conclusion(statuses, limits.time_s))
    return 0 if statuses == {"ok"} else 1


def _conclusion(statuses: Set[str], time_limit_s: float | None) -> str:
    said = ["the contract is broken"] if "failed" in statuses else []
    if "timeout" in statuses:
        said.append(f"the check timed out after {time_limit_s:g} s (--time-limit SECONDS gives it more time)")
    if not said and "missing" in statuses:
        said.append("something is missing, so some checks did not run")
    return "\n".join(said) or "the contract holds"
