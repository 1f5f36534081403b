"""Shards of one plan on one folder, started together and killed at random: the end state is that of one run."""

import time

import pytest
from process_tree import World
from test_kills import kill, results

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
