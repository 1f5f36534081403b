"""Runs that are killed at random, share folders with others, or are shards of one plan: results as of one quiet run."""

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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_concurrent_runs_give_what_serial_ones_give(faults, tiny, tmp_path):
    few = ("--setting", "fs", "--ratio", "0.5")
    commands = [
        ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25"),
        ("run", "--dataset", tiny, *few, "--methods", "bm25,xr-linear"),
        ("run", "--dataset", tiny, *few, "--methods", "xr-linear,bm25,tfidf"),
        ("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25,xr-linear", "--seed", "0,1"),
    ]
    serial = World(tmp_path / "serial")
    for words in commands:
        assert serial.run(*words).returncode == 0
    expected = results(serial.runs)
    assert len(expected) == 7
    for number in range(faults.number(1, 12)):
        world = World(tmp_path / f"world{number}")
        world.environment["XMCBENCH_CACHE"] = str(world.folder / "cache")
        chosen = faults.random.sample(commands, len(commands))
        running = [world.start(*words, "--json") for words in chosen]
        for process in running:
            out, err = process.communicate(timeout=900)
            assert process.returncode == 0, err
            assert {record["status"] for record in json.loads(out)["records"]} == {"ok"}
        assert results(world.runs) == expected
        assert world.left_processes() == []
        assert world.left_files() == []
        faults.count("concurrent trials of 4 commands", "equal to serial")


LEARNER = """
import os, time
import numpy as np
from xmcbench import Method, TopK

class Plain(Method):
    def fit(self, raw_X, raw_Y, pairs=None):
        time.sleep(0.1)
        self.labels = len(raw_Y)
    def predict(self, raw_X, k=100):
        scores = np.random.RandomState(self.seed).rand(len(raw_X), self.labels)
        return TopK.from_scores(scores + self.pretrained.get("scores", 0), k)

class Learner(Plain):
    def pretrain(self, raw_X, raw_Y):
        with open(os.path.join(os.environ["NOTED"], "pretrained"), "a") as stream:
            print(self.seed, file=stream)
        time.sleep(0.3)
        return {"scores": np.random.RandomState(self.seed).rand(len(raw_Y))}
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_shards_that_are_killed_end_as_one_run(faults, tiny, tmp_path):
    plugin = tmp_path / "learner.py"
    plugin.write_text(LEARNER)
    settings = ("--setting", "ez,fs,full", "--ratio", "0.5", "--methods", "plain,learner")
    words = ("run", "--dataset", tiny, *settings, "--plugin", plugin)

    def world(name):
        made = World(tmp_path / name)
        made.environment["NOTED"] = str(made.folder)
        return made

    def shards(place):
        return [place.start(*words, "--shard", f"{number}/2", "--jobs", number) for number in (1, 2)]

    def finish(place):
        begin, running = time.monotonic(), shards(place)
        for process in running:
            _, err = process.communicate(timeout=300)
            assert process.returncode == 0, err
        assert results(place.runs) == expected
        assert place.left_processes() == []
        assert place.left_files() == []
        assert not [*place.runs.rglob("*.claim*")]
        return time.monotonic() - begin

    whole = world("whole")
    assert whole.run(*words).returncode == 0
    expected = results(whole.runs)
    assert len(expected) == 6
    untouched = world("untouched")
    took = finish(untouched)
    assert sorted((untouched.folder / "pretrained").read_text().split()) == ["0"]  # neither shard did it again
    for number in range(faults.number(1, 20)):
        place = world(f"world{number}")
        running = shards(place)
        time.sleep(faults.random.uniform(0.1, 0.9) * took)
        hit = faults.random.choice(([0], [1], [0, 1]))
        targets = [faults.random.choice(("parent", "worker", "group")) for _ in hit]
        for target, which in zip(targets, hit, strict=True):
            kill(target, running[which])
        for process in running:
            process.communicate(timeout=300)
        finish(place)
        faults.count(f"{len(hit)} of 2 shards killed", "end state of one run")
