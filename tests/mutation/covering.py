"""Choose the tests that are run for a mutant: those that reach its line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import coverage
from copies import Slot
from rules import TESTS, modules

#: Tests that take longer by themselves are not used, nor are more than this for one mutant, the quickest first. On a
#: slow machine, `--slowness` multiplies both.
LONGEST_TEST_S, LONGEST_MUTANT_S = 10.0, 20.0
MARKS = ["-m", "not slow and not gpu and not ray and not data"]
#: Ends each module while the tests are mapped: one that fails by it notices any change, such as one of a digest.
NEUTRAL = "_neutral = 0\n"


@dataclass(frozen=True)
class Test:
    """A test, and the seconds it takes."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Batch:
    """Tests that run in one process. files: their new tests run too."""

    tests: list[Test]
    files: list[str]


def map_tests(slot: Slot, work: Path, suite: list[str]) -> None:
    """Run the suite once and keep which tests reach which lines: ``reach.json`` and the data of coverage."""
    lines, data = work / "reach.json", work / "coverage"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    settings = work / "coverage.ini"
    settings.write_text(
        f"[run]\ndata_file = {data / 'data'}\nparallel = true\nsigterm = true\ncontext = ${{PYTEST_CURRENT_TEST-}}\n"
        f"source = {slot.tree / 'xmcbench'}\n"
        "disable_warnings = no-data-collected,module-not-imported,module-not-measured\n"
    )
    for module in modules(slot.tree):
        (slot.tree / module).write_text((slot.tree / module).read_text() + NEUTRAL)
    # -P: the copy that PYTHONPATH names, not the checkout.
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "reach", "-p", "no:cacheprovider", *MARKS, *suite]
    extra = {"REACH_SETTINGS": str(settings), "REACH": str(lines)}
    with (work / "reach.log").open("w") as log:
        subprocess.run(
            command,
            cwd=slot.checkout,
            env={**os.environ, **slot.environment(), **extra},
            stdout=log,
            stderr=log,
            check=False,
        )


class Reach:
    """The tests that reach each line of the package."""

    def __init__(self, slot: Slot, work: Path, slowness: float = 1.0) -> None:
        self._longest_test, self._longest_mutant = LONGEST_TEST_S * slowness, LONGEST_MUTANT_S * slowness
        facts = json.loads((work / "reach.json").read_text())
        self._seconds = {name: fact["seconds"] for name, fact in facts.items() if fact["passed"]}
        self.known = {*facts}
        #: Test files that were written after the map: their new tests run for every mutant of their group.
        self.new = [
            path.relative_to(slot.checkout).as_posix()
            for path in sorted((slot.checkout / "tests").rglob("test_*.py"))
            if path.stat().st_mtime > (work / "reach.json").stat().st_mtime
        ]
        self.noticing = sorted(name for name, fact in facts.items() if not fact["passed"])
        groups = defaultdict(set)
        for name, fact in facts.items():
            for shared in fact["shared"]:
                groups[shared].add(name)
        self._together = defaultdict(set)
        for members in groups.values():
            for name in members:
                self._together[name] |= members
        data = coverage.CoverageData(str(work / "coverage" / "data"))
        for part in (work / "coverage").glob("data.*"):
            other = coverage.CoverageData(str(part))
            other.read()
            data.update(other)
        self._lines: dict[Path, dict[int, set[str]]] = {}
        for file in data.measured_files():
            lines = defaultdict(set)
            for line, contexts in data.contexts_by_lineno(file).items():
                lines[line] = {context.strip("|").split(" (")[0].split("|")[-1] for context in contexts}
            self._lines[Path(file).relative_to(slot.tree)] = lines

    def batches(self, module: Path, first: int, last: int, group: str) -> list[Batch]:
        """The tests of the group that reach one of the lines, and then those of others, each the quickest first."""
        lines = self._lines.get(module, {})
        reached = set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
        if "" in reached:  # it runs when the module is imported
            reached = {name for name in self._seconds if name.startswith(TESTS[group])}.union(*lines.values())
        names = set().union(*({name, *self._together[name]} for name in reached if name))
        used = sorted(
            (Test(name, self._seconds[name]) for name in names if self._seconds.get(name, 1e9) <= self._longest_test),
            key=lambda test: test.seconds,
        )
        own = [test for test in used if test.name.startswith(TESTS[group])]
        others = [test for test in used if test not in own]
        kept, total = [], 0.0
        for test in [*own, *others]:
            total += test.seconds
            if total <= self._longest_mutant:
                kept.append(test)
        new = [file for file in self.new if file.startswith(TESTS[group])]
        return [Batch(kept[: len(own)], new), Batch(kept[len(own) :], [])]
