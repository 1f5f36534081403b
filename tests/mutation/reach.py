"""A pytest plug-in: which lines each test runs, in its own process and in those that it starts, and how long it takes.

Coverage's data goes where the configuration file in ``$REACH_SETTINGS`` says. Started processes take the name
of the test from ``$PYTEST_CURRENT_TEST``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import coverage
import pytest

_measured = coverage.Coverage(config_file=os.environ["REACH_SETTINGS"], context="")
_measured.start()
#: Of the processes that tests start: coverage begins by itself in those that have it.
os.environ["COVERAGE_PROCESS_START"] = os.environ["REACH_SETTINGS"]
_tests: dict[str, dict[str, object]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    _measured.switch_context(item.nodeid)
    # Tests that share a fixture share what it ran: whichever comes first runs it for all.
    shared = [
        f"{item.fspath}::{name}"
        for name, definitions in item._fixtureinfo.name2fixturedefs.items()
        if definitions[-1].scope != "function" and not definitions[-1].func.__module__.startswith(("_pytest", "pytest"))
    ]
    _tests[item.nodeid] = {
        "seconds": 0.0,
        "passed": False,
        "shared": [fixture for fixture in shared if "::_cache" not in fixture],
    }
    try:
        return (yield)
    finally:
        _measured.switch_context("")


def pytest_runtest_logreport(report):
    _tests[report.nodeid]["seconds"] += report.duration
    if report.when == "call":
        _tests[report.nodeid]["passed"] = report.passed


def pytest_sessionfinish():
    _measured.stop()
    _measured.save()
    Path(os.environ["REACH"]).write_text(json.dumps(_tests, indent=0))
