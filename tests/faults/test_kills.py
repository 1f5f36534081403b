"""Runs that are killed at random times: no wrong result, no process left, no file left after the next command."""

import json
import os
import signal
import time
from contextlib import suppress

import psutil
import pytest
from process_tree import World

#: A method that holds the interpreter, and has a child in a session of its own that outlives it where it can.
STUBBORN = """
import re, subprocess, sys
import numpy as np
from xmcbench import Method, TopK

class Stubborn(Method):
    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        re.match("(a*)*b", "a" * 23)
        self.artifacts.get("large", {}, lambda folder: (folder / "file").write_bytes(bytes(1 << 24)))
    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.arange(len(raw_X) * self.labels).reshape(len(raw_X), -1) % 7, k)
"""


#: What is between a run and the code of a method, from above: each is the parent of the next.
BELOW = ("server", "reaper", "worker")


def results(runs):
    """Return the records of a runs folder by file name, without their measurements."""
    found = {}
    for path in sorted((runs / "records").rglob("*.json")):
        record = json.loads(path.read_text())
        assert record["status"] == "ok", record["reason"]
        found[path.name] = {name: record[name] for name in ("key", "cell", "metrics", "ranks", "predictions", "notes")}
    return found


def kill(target, run):
    """SIGKILL the run, everything in its process group, or a process below it; whether there was one."""
    if target == "parent":
        run.kill()
    elif target == "group":
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    while target in BELOW and run.poll() is None:  # between two cells there is no reaper and no worker
        with suppress(psutil.Error):
            found = psutil.Process(run.pid).children()
            found = [process for process in found if "xmcbench.processes.forkserver" in process.cmdline()]
            for _ in range(BELOW.index(target)):
                found = [child for process in found for child in process.children()]
            if found:
                found[0].kill()
                return True
    return target not in BELOW


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_run_leaves_nothing_and_goes_on(faults, tiny, tmp_path):
    plugin = tmp_path / "stubborn.py"
    plugin.write_text(STUBBORN)
    words = ("run", "--dataset", tiny, "--setting", "full", "--methods", "tfidf,stubborn,bm25", "--plugin", plugin)
    whole = World(tmp_path / "whole")
    begin = time.monotonic()
    ended = whole.run(*words)
    took = time.monotonic() - begin
    assert ended.returncode == 0, ended.stderr
    expected = results(whole.runs)
    assert len(expected) == 3
    targets = ("parent", "group", *BELOW)
    for number in range(faults.number(5, 60)):
        target, world = targets[number % 5], World(tmp_path / f"world{number}")
        run = world.start(*words)
        time.sleep(faults.random.uniform(0.1, 1.0) * took)
        hit = kill(target, run)
        run.communicate(timeout=300)
        assert world.left_processes() == []
        again = world.run(*words)
        assert again.returncode == 0, again.stderr
        assert results(world.runs) == expected
        assert world.left_processes() == []
        assert world.left_files() == []
        faults.count(f"SIGKILL of {target}", "nothing left, results equal" if hit else "no cell was left")
