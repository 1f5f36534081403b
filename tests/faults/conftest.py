"""Fixtures of the fault tests: the number of trials, seeded random numbers, and a count of the outcomes."""

import random
from collections import Counter

import pytest

_COUNTS = pytest.StashKey[dict[str, Counter]]()


def pytest_configure(config):
    config.stash[_COUNTS] = {}


class Faults:
    """The trials of one test.

    ``random`` is seeded by the name of the test, so a trial that fails fails again.
    """

    def __init__(self, full, seed, counts):
        self.full = full
        self.random = random.Random(seed)
        self._counts = counts

    def number(self, sample, full):
        """Return the number of trials: ``sample`` in the test suite, ``full`` in `tox -e faults`."""
        return full if self.full else sample

    def count(self, kind, outcome):
        """Note what came of one trial of a kind; the counts are printed when pytest ends."""
        self._counts.setdefault(kind, Counter())[outcome] += 1


@pytest.fixture
def faults(request):
    full = request.config.getoption("--faults") == "full"
    return Faults(full, request.node.nodeid, request.config.stash[_COUNTS])


def pytest_terminal_summary(terminalreporter, config):
    counts = config.stash.get(_COUNTS, {})
    if not counts:
        return
    terminalreporter.section(f"faults: {config.getoption('--faults')}")
    for kind, outcomes in sorted(counts.items()):
        shares = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(outcomes.items()))
        terminalreporter.line(f"{kind}: {outcomes.total():,} trials: {shares}")
