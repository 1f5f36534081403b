"""Damaged and hostile input of every kind: it loads as it was, it is valid, or it ends in one XmcbenchError."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from targets import KINDS

from xmcbench import Options, run

ATTACK = Path(__file__).with_name("attack.py")
SEED = 0
GOOD = {"same", "valid", "refused", "no result"}

TOPICS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")


def make_base(folder):
    """Write ``tiny``, a dataset with a filter file and uids in common, and ``runs``, two cells on it."""
    data = folder / "tiny"
    data.mkdir()

    def line(row):
        title = f"{TOPICS[row % 10]} story {row}"
        content = f"It is about the {TOPICS[row % 10]} and the {TOPICS[(row + 3) % 10]}."
        return {
            "uid": f"{row:04}",
            "title": title,
            "content": content,
            "target_ind": sorted({row % 10, (row + 3) % 10}),
        }

    parts = {
        "trn": [line(row) for row in range(40)],
        "tst": [line(row) for row in range(100, 120)],
        "lbl": [{"uid": f"{100 + row:04}", "title": f"the {topic}"} for row, topic in enumerate(TOPICS)],
    }
    for name, lines in parts.items():
        with gzip.open(data / f"{name}.json.gz", "wt") as stream:
            stream.writelines(json.dumps(values) + "\n" for values in lines)
    (data / "filter_labels_test.txt").write_text("0 0\n3 5\n")
    for setting, ratio in (("ez", None), ("fs", 0.5)):
        found = run(data, setting, ratio=ratio, methods=["tfidf"], options=Options(runs=folder / "runs"))
        assert all(record.ok for record in found.records), found


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A dataset and a runs folder that the trials start from."""
    folder = tmp_path_factory.mktemp("base")
    make_base(folder)
    return folder


def trials(kind, number, base):
    """(trial, outcomes) of so many trials. A process that is killed by its input is followed by another one."""
    done = 0
    while done < number:
        command = [sys.executable, ATTACK, kind, str(SEED), str(done), str(number), base]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "0"}
        )
        for line in ended.stdout.splitlines():
            trial, outcomes = json.loads(line)
            yield trial, outcomes
            done = trial + 1
        if done < number:
            if not ended.stdout and ended.returncode == 1:
                pytest.fail(f"the good input of {kind} cannot be made: {ended.stderr[-2000:]}")
            yield done, [f"the process ended with {ended.returncode}: {ended.stderr[-1500:]}"]
            done += 1


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_loads_or_is_refused(kind, base, faults):
    cls = KINDS[kind]
    number = -(-faults.number(cls.sample, cls.full) // cls.each)
    bad = []
    for trial, outcomes in trials(kind, number, base):
        for outcome in outcomes:
            faults.count(f"mutants, {kind}", outcome if outcome in GOOD else "bad")
            if outcome not in GOOD:
                bad.append(f"trial {trial}: {outcome}")
    assert not bad, f"{len(bad)} of {number}:\n" + "\n".join(bad[:20])
