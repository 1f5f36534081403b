"""A mutation run: change one thing in the harness, run the tests that reach it, and see whether one fails.

    python tests/mutation/mutants.py --work FOLDER [--only GLOB ...] [--part 0.25] [--again]

The mutants are those of cosmic-ray (``rules.py`` says which), and so is the session file in the folder: ``cr-report``
and ``cr-html`` read it. What this program adds is speed: it knows which tests reach a line, and a process that has
imported numpy, scipy and pytest is forked for each mutant.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import coverage
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult
from rules import GROUPS, TESTS, Left, is_used

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.toml")
#: Tests that take longer by themselves are not used, nor are more than this for one mutant, the quickest first.
LONGEST_TEST_S, LONGEST_MUTANT_S = 10.0, 60.0
MARKS = ["-m", "not slow and not gpu and not data"]
SUITE = ["tests", "--ignore=tests/benchmarks", "--ignore=tests/methods"]
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


class Slot:
    """A copy of the checkout and one of the installed package, for one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.checkout = folder / "tree", folder / "checkout"
        self.log, self.failures = folder / "log.txt", folder / "failures.txt"
        self._clock = int(time.time())

    def make(self) -> None:
        """Copy what git tracks and what it does not ignore, and install the package."""
        for each in (self.tree, self.checkout):
            shutil.rmtree(each, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.checkout / name)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", self.tree, self.checkout]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def environment(self) -> dict[str, str]:
        """What the tests find in the environment: the copy of the package comes first."""
        path = os.pathsep.join([str(self.tree), str(self.checkout / "tests" / "mutation")])
        return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}

    def write(self, module: Path, code: str) -> None:
        """Replace a module. Its time is one that no earlier version had, so that compiled files are not reused."""
        self._clock += 2
        (self.tree / module).write_text(code, encoding="utf-8")
        os.utime(self.tree / module, (self._clock, self._clock))


def modules(tree: Path) -> dict[Path, str]:
    """Module, below the tree -> its group."""
    found = {}
    for group, patterns in GROUPS.items():
        for pattern in patterns:
            found |= {path.relative_to(tree): group for path in sorted((tree / "xmcbench").glob(pattern))}
    return found


def mapped(slot: Slot, work: Path, suite: list[str]) -> None:
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
    """Which tests to run for a mutant."""

    def __init__(self, slot: Slot, work: Path) -> None:
        facts = json.loads((work / "reach.json").read_text())
        self._seconds = {name: each["seconds"] for name, each in facts.items() if each["passed"]}
        self.known = {*facts}
        #: Test files that were written after the map: their new tests run for every mutant of their group.
        self.new = [
            path.relative_to(slot.checkout).as_posix()
            for path in sorted((slot.checkout / "tests").rglob("test_*.py"))
            if path.stat().st_mtime > (work / "reach.json").stat().st_mtime
        ]
        self.noticing = sorted(name for name, each in facts.items() if not each["passed"])
        groups = defaultdict(set)
        for name, each in facts.items():
            for shared in each["shared"]:
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

    def usable(self) -> list[Test]:
        """Every test that may be used."""
        return [Test(name, seconds) for name, seconds in self._seconds.items() if seconds <= LONGEST_TEST_S]

    def drop(self, names: Iterable[str]) -> None:
        """Use these no more."""
        for name in names:
            self.noticing.append(name)
            del self._seconds[name]

    def batches(self, module: Path, first: int, last: int, group: str) -> list[Batch]:
        """The tests of the group that reach one of the lines, and then those of others, each the quickest first."""
        lines = self._lines.get(module, {})
        reached = set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
        if "" in reached:  # it runs when the module is imported
            reached = set().union(*lines.values())
        names = set().union(*({name, *self._together[name]} for name in reached if name))
        used = sorted(
            (Test(name, self._seconds[name]) for name in names if self._seconds.get(name, 1e9) <= LONGEST_TEST_S),
            key=lambda test: test.seconds,
        )
        own = [test for test in used if test.name.startswith(TESTS[group])]
        others = [test for test in used if test not in own]
        kept, total = [], 0.0
        for test in [*own, *others]:
            total += test.seconds
            if total <= LONGEST_MUTANT_S:
                kept.append(test)
        new = [file for file in self.new if file.startswith(TESTS[group])]
        return [Batch(kept[: len(own)], new), Batch(kept[len(own) :], [])]


def items(tree: Path, only: list[str], work: Path) -> Iterator[WorkItem]:
    """The mutants that the rules leave."""
    chosen = [path for path in modules(tree) if not only or any(fnmatch.fnmatch(str(path), each) for each in only)]
    with use_db(work / "all.sqlite", WorkDB.Mode.create) as every:
        init([tree / path for path in chosen], every, {})
        found = every.work_items
    left = {path: Left((tree / path).read_text()) for path in chosen}
    for item in found:
        each = item.mutations[0]
        module = each.module_path.relative_to(tree)
        if not is_used(each.operator_name) or left[module].out(each.start_pos):
            continue
        if each.operator_name == "core/ExceptionReplacer" and changed(tree / module, each) is None:
            continue
        yield WorkItem.single(item.job_id, MutationSpec(module, *_rest(each)))


def changed(module: Path, each: MutationSpec) -> str | None:
    """The module with the mutation; None for one that cosmic-ray cannot make, as of ``except package.Error``."""
    operator = get_operator(each.operator_name)(**each.operator_args)
    try:
        return mutate_code(module.read_text(), operator, each.occurrence)
    except AttributeError:
        return None


def _rest(each: MutationSpec) -> tuple[object, ...]:
    return (each.operator_name, each.occurrence, each.start_pos, each.end_pos, each.operator_args, each.definition_name)


class Chosen:
    """A pytest plug-in that keeps the given tests, in their order, and before them those that are not known.

    The names of those that fail go into the file ``failures``.
    """

    def __init__(self, tests: list[Test], known: set[str], failures: Path) -> None:
        self._order, self._known = {test.name: place for place, test in enumerate(tests)}, known
        self._failures, self._failed = failures, set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self):
        self._failures.write_text("\n".join(sorted(self._failed)))

    def _place(self, item) -> int | None:
        return self._order.get(item.nodeid) if item.nodeid in self._known else -1

    def pytest_collection_modifyitems(self, items):
        kept = [item for item in items if self._place(item) is not None and not item.get_closest_marker("slow")]
        items[:] = sorted(kept, key=self._place)


def _preload() -> None:
    """Import what is no part of xmcbench and takes time."""
    import hypothesis  # noqa: F401
    import msgspec  # noqa: F401
    import numpy as np  # noqa: F401
    import packaging.version  # noqa: F401
    import psutil  # noqa: F401
    import pyarrow  # noqa: F401
    import pytest
    import pytrec_eval  # noqa: F401
    import scipy.sparse
    import scipy.special
    import scipy.stats  # noqa: F401
    import tabulate  # noqa: F401

    assert pytest


def started(slot: Slot, batch: Batch, known: set[str], first: bool = True) -> int:
    """Fork a process that runs the tests and ends at the first failure; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        os.setsid()
        log = os.open(slot.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(slot.checkout)
        os.environ.update(slot.environment())
        sys.path[:] = [str(slot.tree), *(each for each in sys.path if each not in ("", str(Path(__file__).parent)))]
        import pytest

        files = dict.fromkeys([*batch.files, *(test.name.split("::")[0] for test in batch.tests)])
        # What is imported beforehand cannot be rewritten, and need not be.
        rewriting = "ignore:Module already imported so cannot be rewritten"
        words = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-W", rewriting]
        code = pytest.main(
            [*(words if first else words[1:]), *files], plugins=[Chosen(batch.tests, known, slot.failures)]
        )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(code))


@dataclass
class Running:
    """A mutant under test. batches: what is still to run."""

    item: WorkItem
    slot: Slot
    original: str
    batches: list[Batch]
    known: set[str]
    pid: int = 0
    deadline: float = 0.0

    def advance(self) -> bool:
        """Start the next batch; False where there is none."""
        while self.batches:
            batch = self.batches.pop(0)
            if batch.tests or batch.files:
                self.deadline = time.monotonic() + 20 + 5 * sum(test.seconds for test in batch.tests)
                self.pid = started(self.slot, batch, self.known)
                return True
        return False


def control(slot: Slot, reach: Reach) -> None:
    """Run the tests on the package as it is, as mutants are run, and use none that fails."""
    os.waitpid(started(slot, Batch(reach.usable(), []), reach.known, first=False), 0)
    reach.drop(filter(None, slot.failures.read_text().split("\n")))


def run(session: WorkDB, pending: list[WorkItem], slots: list[Slot], reach: Reach) -> None:
    """Test the mutants, one in each slot at a time, and write every result into the session."""
    groups = modules(slots[0].tree)
    free, running, todo, done = list(slots), [], list(pending), 0
    while todo or running:
        while todo and free:
            slot, item = free.pop(), todo.pop()
            each = item.mutations[0]
            original = (slot.tree / each.module_path).read_text()
            slot.write(each.module_path, changed(slot.tree / each.module_path, each) or original)
            batches = reach.batches(each.module_path, each.start_pos[0], each.end_pos[0], groups[each.module_path])
            started_item = Running(item, slot, original, batches, reach.known)
            if started_item.advance():
                running.append(started_item)
            else:
                _finish(session, started_item, TestOutcome.SURVIVED, "no test reaches it")
                free.append(slot)
        for each in list(running):
            pid, status = os.waitpid(each.pid, os.WNOHANG)
            late = pid == 0 and time.monotonic() > each.deadline
            if pid == 0 and not late:
                continue
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            if late:
                os.waitpid(each.pid, 0)
            elif status == 0 and each.advance():
                continue
            output = "timeout" if late else each.slot.log.read_text(errors="replace")[-1500:]
            _finish(session, each, TestOutcome.SURVIVED if status == 0 and not late else TestOutcome.KILLED, output)
            running.remove(each)
            free.append(each.slot)
            done += 1
            if done % 25 == 0:
                print(f"{time.strftime('%H:%M:%S')} {done} of {len(pending)}", flush=True)
        time.sleep(0.01)


def _finish(session: WorkDB, each: Running, outcome: TestOutcome, output: str) -> None:
    each.slot.write(each.item.mutations[0].module_path, each.original)
    session.set_result(
        each.item.job_id, WorkResult(worker_outcome=WorkerOutcome.NORMAL, output=output, test_outcome=outcome)
    )


def described(item: WorkItem, tree: Path) -> str:
    """A mutant in one line: module, the line as it is, the line as it was changed."""
    each = item.mutations[0]
    original = (tree / each.module_path).read_text()
    mutated = changed(tree / each.module_path, each) or original
    for before, after in zip(original.splitlines(), mutated.splitlines(), strict=False):
        if before != after:
            return f"{each.module_path.relative_to('xmcbench')}: {before.strip()} -> {after.strip()}"
    return f"{each.module_path.relative_to('xmcbench')}: {each.operator_name} {each.occurrence}"


def report(session: WorkDB, tree: Path) -> int:
    """Print the score of each group and the survivors; 1 where one is not among those that are explained."""
    groups, made, survived = modules(tree), Counter(), defaultdict(list)
    for item, result in session.completed_work_items:
        group = groups[item.mutations[0].module_path]
        made[group] += 1
        if result.test_outcome == TestOutcome.SURVIVED:
            survived[group].append((item.mutations[0].start_pos, described(item, tree)))
    explained = {each for entry in tomllib.loads(SURVIVORS.read_text())["survivors"] for each in entry["mutants"]}
    unexplained = 0
    for group in GROUPS:
        for (line, _), text in sorted(survived[group], key=lambda each: (each[1].split(":")[0], each[0])):
            known = text in explained
            unexplained += not known
            print(f"{'' if known else 'NEW '}{line}: {text}")
    for group, count in [*made.items(), ("all", made.total())]:
        left = len(survived[group]) if group in made else sum(map(len, survived.values()))
        print(f"{group}: {count} mutants, {count - left} killed, {left} survived: {100 * (count - left) / count:.1f}%")
    return 1 if unexplained else 0


def main() -> int:
    """Map, make, run and report; the exit code is 1 where a survivor is not explained in ``survivors.toml``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the session; one that was begun goes on")
    parser.add_argument("--only", nargs="*", default=[], help="modules, as patterns: xmcbench/metrics/*")
    parser.add_argument("--tests", nargs="*", default=SUITE, help="what of the suite is used, as words for pytest")
    parser.add_argument("--part", type=float, default=1.0, help="draw this part of each module's mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tested at once")
    parser.add_argument("--again", action="store_true", help="test the survivors of the session again")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    slots = [Slot(work / f"slot{number}") for number in range(options.jobs)]
    slots[0].make()
    if not (work / "reach.json").exists():
        mapped(slots[0], work, options.tests)
    for slot in slots:
        slot.make()
    tree = slots[0].tree
    reach = Reach(slots[0], work)
    _preload()
    control(slots[0], reach)
    print(
        f"{len(reach.known)} tests; not used, as they notice more than mutants: {', '.join(reach.noticing) or 'none'}"
    )
    with use_db(work / "session.sqlite", WorkDB.Mode.create) as session:
        if not session.num_work_items:
            by_module = defaultdict(list)
            for item in items(tree, options.only, work):
                by_module[item.mutations[0].module_path].append(item)
            draw = random.Random(options.seed)
            for found in by_module.values():
                session.add_work_items(draw.sample(found, max(1, round(options.part * len(found)))))
        pending = list(session.pending_work_items)
        if options.again:
            pending = [
                item for item, result in session.completed_work_items if result.test_outcome == TestOutcome.SURVIVED
            ]
        run(session, pending, slots, reach)
        return report(session, tree)


if __name__ == "__main__":
    sys.exit(main())
