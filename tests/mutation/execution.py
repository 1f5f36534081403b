"""Mutants under test: a process is forked for each, from one that has imported what takes time."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from copies import Slot
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult
from covering import Batch, Reach, Test
from rules import modules, mutate


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


def preload() -> None:
    """Import what is no part of xmcbench and takes time."""
    import hypothesis  # noqa: F401
    import msgspec  # noqa: F401
    import numpy as np  # noqa: F401
    import packaging.version  # noqa: F401
    import psutil  # noqa: F401
    import pyarrow  # noqa: F401
    import pytest
    import pytest_timeout  # noqa: F401
    import pytrec_eval  # noqa: F401
    import rich.cells  # noqa: F401
    import scipy.sparse
    import scipy.special
    import scipy.stats  # noqa: F401

    assert pytest


def start(slot: Slot, batch: Batch, known: set[str], first: bool = True) -> int:
    """Fork a process that runs the tests and ends at the first failure; returns its id."""
    slot.failures.unlink(missing_ok=True)
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
        # Finding the plug-ins would take longer than most tests.
        os.environ.update(slot.environment(), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        sys.path[:] = [
            str(slot.tree),
            *(folder for folder in sys.path if folder not in ("", str(Path(__file__).parent))),
        ]
        import pytest

        files = dict.fromkeys([*batch.files, *(test.name.split("::")[0] for test in batch.tests)])
        # What is imported beforehand cannot be rewritten, and need not be.
        rewriting = "ignore:Module already imported so cannot be rewritten"
        words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--tb=line", "-W", rewriting]
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
                self.deadline = time.monotonic() + 60 + 10 * sum(test.seconds for test in batch.tests)
                self.pid = start(self.slot, batch, self.known)
                return True
        return False


def control(session: WorkDB, slot: Slot, reach: Reach) -> None:
    """Run the tests that killed a mutant on the package as it is: a kill by one that fails there is none.

    Raises SystemExit with the names of such tests.
    """
    outputs = [result.output for _, result in session.completed_work_items if result.test_outcome == TestOutcome.KILLED]
    names = {output.splitlines()[0] for output in outputs if output.startswith("tests/")}
    batch = Batch([Test(name, 0) for name in sorted(names)], [])
    os.waitpid(start(slot, batch, reach.known | names, first=False), 0)
    wrong = names & {*slot.failures.read_text().split("\n")}
    if wrong:
        raise SystemExit(f"these fail on the package as it is, so the session says nothing: {', '.join(sorted(wrong))}")


def run(session: WorkDB, pending: list[WorkItem], slots: list[Slot], reach: Reach) -> None:
    """Test the mutants, one in each slot at a time, and write every result into the session."""
    groups = modules(slots[0].tree)
    free, running, todo, done = list(slots), [], list(pending), 0
    while todo or running:
        while todo and free:
            slot, item = free.pop(), todo.pop()
            mutation = item.mutations[0]
            original = (slot.tree / mutation.module_path).read_text()
            slot.write(mutation.module_path, mutate(slot.tree / mutation.module_path, mutation) or original)
            batches = reach.batches(
                mutation.module_path, mutation.start_pos[0], mutation.end_pos[0], groups[mutation.module_path]
            )
            started_item = Running(item, slot, original, batches, reach.known)
            if started_item.advance():
                running.append(started_item)
            else:
                _finish(session, started_item, TestOutcome.SURVIVED, "no test reaches it")
                free.append(slot)
        for mutant in list(running):
            pid, status = os.waitpid(mutant.pid, os.WNOHANG)
            late = pid == 0 and time.monotonic() > mutant.deadline
            if pid == 0 and not late:
                continue
            with suppress(ProcessLookupError):
                os.killpg(mutant.pid, signal.SIGKILL)
            if late:
                os.waitpid(mutant.pid, 0)
            elif status == 0 and mutant.advance():
                continue
            output = "timeout" if late else mutant.slot.output()
            _finish(session, mutant, TestOutcome.SURVIVED if status == 0 and not late else TestOutcome.KILLED, output)
            running.remove(mutant)
            free.append(mutant.slot)
            done += 1
            if done % 25 == 0:
                print(f"{time.strftime('%H:%M:%S')} {done} of {len(pending)}", flush=True)
        time.sleep(0.01)


def _finish(session: WorkDB, mutant: Running, outcome: TestOutcome, output: str) -> None:
    mutant.slot.write(mutant.item.mutations[0].module_path, mutant.original)
    session.set_result(
        mutant.item.job_id, WorkResult(worker_outcome=WorkerOutcome.NORMAL, output=output, test_outcome=outcome)
    )
