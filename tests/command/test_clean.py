"""`xmcbench clean` as a user meets it: what there is, and what goes when it is chosen."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from xmcbench import Artifacts
from xmcbench.output.quantities import format_count
from xmcbench.records import Store

MIB = 1 << 20


@pytest.fixture
def runs(tmp_path, record):
    """Two artifacts of a record and one that no record needs, 40 days old; a log and predictions."""
    store = Store(tmp_path / "runs")

    def make(kind, name, size=MIB):
        artifacts = Artifacts(store.artifacts)

        def build(folder):
            (folder / "file").write_bytes(name.encode() * size)

        folder = artifacts.get(kind, {"name": name}, build)
        return artifacts.used[0], folder

    names = [make(kind, kind[0])[0] for kind in ("training", "embeddings")]
    _, old = make("training", "o", 3 * MIB)
    long_ago = time.time() - 40 * 86400
    os.utime(old / "cost.json", (long_ago, long_ago))
    done = store.write(replace(record(), artifacts=tuple(names)))
    for path in (store.predictions_path(done.cell), store.log_path(done.cell), store.ranks_path(done.cell)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * MIB)
    return store


def kinds(ended):
    assert ended.returncode == 0, ended.stderr
    return sorted(item["kind"] for item in json.loads(ended.stdout)["items"])


def list_files(runs):
    """Each file with its time of change, but a claim, which its owner touches every few seconds."""
    files = [path for path in runs.root.rglob("*") if path.is_file()]
    return {path: path.suffix == ".claim" or path.stat().st_mtime_ns for path in files}


def test_a_listing_changes_nothing(inside, runs):
    before = list_files(runs)
    ended = inside("clean", "--wide")
    assert ended.returncode == 0, ended.stderr
    (done,) = runs.records()
    needing = str(done.cell.path)
    rows = [[cell for cell in line.split("  ") if cell] for line in ended.stdout.splitlines()]
    assert [[cell.strip() for cell in row] for row in rows if not row[0].startswith("-")] == [
        ["Kind", "items", "size", "last used, days ago", "oldest", "in use", "needed by no record", "needed by"],
        ["training", "2", "4.0 MiB", "0", "40", "0", "1", needing],
        ["embeddings", "1", "1.0 MiB", "0", "0", "0", "0", needing],
        ["predictions", "1", "1.0 MiB", "0", "0", "0", "0", needing],
        ["logs", "1", "1.0 MiB", "0", "0", "0", "1"],
        ["all", "5", "7.0 MiB"],
    ]
    document = json.loads(inside("clean", "--json").stdout)
    assert (document["removed"], document["in_use"]) == (False, 0)
    (needed,) = [item for item in document["items"] if item["kind"] == "embeddings"]
    assert (len(needed["records"]), needed["bytes"] // MIB, round(needed["age_days"])) == (1, 1, 0)
    assert os.path.isdir(needed["path"])
    assert list_files(runs) == before


def test_choices_narrow_each_other(inside, runs):
    every = ["embeddings", "logs", "predictions", "training", "training"]
    assert kinds(inside("clean", "--json")) == every
    assert kinds(inside("clean", "--json", "--kind", "training", "--kind", "logs")) == ["logs", "training", "training"]
    assert kinds(inside("clean", "--json", "--unneeded")) == ["logs", "training"]
    assert kinds(inside("clean", "--json", "--older-than", "30")) == ["training"]
    assert kinds(inside("clean", "--json", "--older-than", "50")) == []
    assert kinds(inside("clean", "--json", "--unneeded", "--kind", "training", "--kind", "embeddings")) == ["training"]


def test_removal_needs_a_choice(inside, runs):
    before = list_files(runs)
    ended = inside("clean", "--remove")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--remove needs a selection (use --kind, --older-than or --unneeded)" in ended.stderr
    assert list_files(runs) == before


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (["--unneeded"], ["embeddings", "predictions", "training"]),
        (["--kind", "training"], ["embeddings", "logs", "predictions"]),
        (["--older-than", "30"], ["embeddings", "logs", "predictions", "training"]),
        (["--older-than", "0"], []),
    ],
)
def test_what_is_chosen_goes_and_results_stay(inside, runs, choice, left):
    results = [path for folder in ("records", "ranks") for path in (runs.root / folder).rglob("*.*")]
    before = {path: path.read_bytes() for path in results}
    ended = inside("clean", *choice, "--remove")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith(f"removed: {format_count(5 - len(left), 'item')}, ")
    assert kinds(inside("clean", "--json")) == left
    assert {path: path.read_bytes() for path in results} == before
    assert len(before) == 2


def test_answers_of_a_judge_go_only_by_their_kind(inside, runs):
    """They may have been paid for, and the next run asks only for the rest."""
    folder = runs.artifacts / "unfinished" / f"judgments-{'a' * 32}"
    folder.mkdir(parents=True)
    (folder / "judgments.jsonl").write_text("{}\n")
    assert "unfinished-judgments" in kinds(inside("clean", "--json"))
    for choice in (("--unneeded",), ("--older-than", "0"), ("--kind", "unfinished")):
        inside("clean", *choice, "--remove", code=0)
        assert folder.exists()
    inside("clean", "--kind", "unfinished-judgments", "--unneeded", "--remove", code=0)
    assert not folder.exists()


def test_a_kind_of_which_nothing_is_left_is_known(inside, runs):
    """A command that removes it may be given again."""
    for kind in ("predictions", "training"):
        for left in ([kind], []):
            ended = inside("clean", "--kind", kind, "--remove", "--json")
            assert sorted({*kinds(ended)}) == left
    assert kinds(inside("clean", "--kind", "unfinished", "--kind", "subsets", "--json")) == []
    nothing = inside("clean", "--kind", "training", "--older-than", "30", "--remove")
    assert (nothing.returncode, nothing.stdout.splitlines()[-1]) == (0, "removed: 0 items, 0.0 MiB")
    ended = inside("clean", "--kind", "content")
    assert (ended.returncode, "unknown kind 'content'" in ended.stderr) == (2, True)


def test_what_is_said_to_be_freed_is_freed(inside, runs):
    """Predictions are a link to the ranking that other methods use."""
    (done,) = runs.records()
    folder = next((runs.artifacts / "embeddings").glob("*/"))
    os.link(runs.predictions_path(done.cell), folder / "ranking.npz")
    ended = inside("clean", "--kind", "predictions", "--remove")
    assert ended.stdout.splitlines()[-1] == "removed: 1 item, 0.0 MiB"
    ended = inside("clean", "--kind", "embeddings", "--remove")
    assert ended.stdout.splitlines()[-1] == "removed: 1 item, 2.0 MiB"


def test_what_is_in_use_is_left_alone_and_said(inside, runs):
    (done,) = runs.records()
    with runs.claim(done.cell):
        ended = inside("clean", "--older-than", "0", "--remove")
        assert ended.stdout.splitlines()[-1] == "kept, because a running cell uses them: 2"
        assert "removed: 3 items" in ended.stdout
        document = json.loads(inside("clean", "--older-than", "0", "--remove", "--json").stdout)
        assert document == {"removed": True, "in_use": 2, "items": []}
    assert kinds(inside("clean", "--json")) == ["logs", "predictions"]


def test_a_listing_marks_what_is_in_use(inside, runs):
    (done,) = runs.records()
    artifacts = Artifacts(runs.artifacts)
    artifacts.get("fresh", {}, lambda folder: None)
    with runs.claim(done.cell):
        before = list_files(runs)
        document = json.loads(inside("clean", "--json").stdout)
        used = {item["kind"] for item in document["items"] if item["in_use"]}
        assert (document["in_use"], used) == (3, {"fresh", "logs", "predictions"})
        (row,) = [line.split() for line in inside("clean").stdout.splitlines() if line.startswith("fresh")]
        assert row[-2:] == ["1", "0"]  # in use, so that it does not count as needed by no record
        assert list_files(runs) == before
    del artifacts
    assert json.loads(inside("clean", "--json").stdout)["in_use"] == 0


def test_wrong_requests(inside, runs):
    for words, message in (
        (("--runs", "none"), "no runs folder at none"),
        (("--kind", "trainings"), "unknown kind 'trainings' (did you mean 'training'?)"),
        (
            ("--kind", "tokens"),
            "(known: embeddings, logs, predictions, subsets, training, unfinished, unfinished-judgments)",
        ),
        (("--older-than", "month"), "argument --older-than: 'month' is not a number of days"),
        (("--older-than", "-1"), "argument --older-than: '-1' is not a number of days"),
        (("--older-than", "nan"), "argument --older-than: 'nan' is not a number of days"),
    ):
        ended = inside("clean", *words)
        assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


def test_a_cell_makes_again_what_was_removed(inside, tiny, tmp_path):
    """The pairs and the features that it was handed before; its result is the same."""
    words = ("run", "--dataset", tiny, "--setting", "fs", "--ratio", "0.5", "--methods", "xr-linear", "--json")
    first = json.loads(inside(*words).stdout)["records"]
    assert first[0]["artifacts"][0].startswith("tfidf/")
    listed = json.loads(inside("clean", "--json").stdout)["items"]
    needed = {item["kind"]: len(item["records"]) for item in listed}
    assert needed == {"tfidf": 1, "ranking": 1, "predictions": 1, "logs": 0, "subsets": 1}
    assert inside("clean", "--older-than", "0", "--remove").returncode == 0
    again = json.loads(inside(*words, "--force").stdout)["records"]
    assert [record["status"] for record in again] == ["ok"]
    assert again[0]["metrics"] == first[0]["metrics"]
    assert again[0]["artifacts"] == first[0]["artifacts"]


PATIENT = """
    import time
    from pathlib import Path
    import numpy as np
    from xmcbench import Method, TopK

    class Patient(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
            def build(folder):
                (folder / "file").write_bytes(b"x" * 2**20)
            kept = self.artifacts.get("kept", {}, build)
            state = self.artifacts.unfinished("training", {})
            state.mkdir(parents=True)
            def make(folder):
                (folder / "inner").mkdir()
                with self.artifacts.temporary() as temporary:
                    files = [kept / "file", state / "checkpoint", folder / "inner" / "half", temporary / "vectors"]
                    for file in files[1:]:
                        file.touch()
                    Path(FOLDER, "ready").touch()
                    while not Path(FOLDER, "go").exists():
                        time.sleep(0.05)
                    self.notes["there"] = [file.exists() for file in files]
            self.artifacts.get("made", {}, make)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)
"""


def test_a_cell_that_runs_does_not_notice(inside, tiny, plugin, tmp_path):
    """Its log and all that it has taken, makes, resumes from or received are left alone."""
    source = plugin(PATIENT.replace("FOLDER", repr(str(tmp_path))))
    words = ["--setting", "full", "--methods", "patient", "--plugin", str(source), "--json"]
    command = [sys.executable, "-m", "xmcbench", "run", "--dataset", str(tiny), *words]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "ready").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        document = json.loads(inside("clean", "--older-than", "0", "--remove", "--json").stdout)
        assert document == {"removed": True, "in_use": 6, "items": []}
        left = {path.name for path in Path("runs").iterdir()}
        (staged,) = left - {"artifacts", "logs", "subsets", "trained"}
        assert (Path("runs") / staged / "predictions").is_dir()
    finally:
        (tmp_path / "go").touch()
        out, _ = process.communicate(timeout=120)
    (record,) = json.loads(out)["records"]
    assert record["status"] == "ok"
    assert record["notes"]["there"] == [True] * 4
