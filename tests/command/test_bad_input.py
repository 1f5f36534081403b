"""Damaged input: a dataset ends a run in one line, and of a runs folder the rest is shown."""

import gzip
import json
import os
import shutil

import pytest

from xmcbench import Artifacts
from xmcbench.records import Store
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.locations import check_name

#: The folder of a training below a runs folder.
TRAINING = f"trained/{'a' * 32}"


@pytest.fixture
def store(tmp_path, record, own_cache):
    """A runs folder with three good records, and three files beside them that are no records."""
    store = Store(tmp_path / "runs")
    made = [store.write(record(seed=seed)) for seed in range(3)]
    folder = store.record_path(made[0].cell).parent
    (folder / "bad.json").write_text('{"schema": 2, "cell": {"dataset": "a\\u00a0b"}}')
    os.mkfifo(folder / "pipe.json")
    (folder / "copy.json").write_bytes(store.record_path(made[0].cell).read_bytes())
    return store


def test_what_cannot_be_read_is_listed_and_left_out(inside, store):
    ended = inside("ls", "results", "--json")
    assert ended.returncode == 1
    assert [record["seed"] for record in json.loads(ended.stdout)] == [0, 1, 2]
    for name in ("bad.json", "pipe.json", "copy.json"):
        assert sum(name in line and "left out: " in line for line in ended.stderr.splitlines()) == 1, name
    ended = inside("leaderboard", "--out", "runs")
    assert (ended.returncode, ended.stderr.count("left out: ")) == (1, 3)
    assert store.records()[0].name in (store.root / "tiny.md").read_text()
    assert inside("leaderboard", "--out", "runs", "--check").returncode == 1
    ended = inside("clean")
    assert (ended.returncode, ended.stderr.count("left out: ")) == (1, 3)
    ended = inside("clean", "--unneeded", "--remove")
    assert (ended.returncode, "nothing is removed" in ended.stderr) == (2, True)
    for name in ("bad.json", "pipe.json", "copy.json"):
        (store.record_files()[0].parent / name).unlink()
    assert inside("ls", "results").returncode == 0
    assert inside("leaderboard", "--out", "runs").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "bm25", "tfidf"),
        ("explain", "bm25", "tfidf"),
        ("power", "bm25", "tfidf", "--detect", "1"),
        ("show", "bm25", "--instance", "0100"),
        ("export", "run", "bm25", "--out", "run.txt"),
        ("rank", "--setting", "ez"),
    ],
)
def test_a_record_that_is_asked_for_and_cannot_be_read_is_named(inside, store, words):
    ended = inside(*words)
    assert (ended.returncode, ended.stderr.count("left out: ")) == (2, 3), ended.stderr


def test_a_folder_whose_records_are_all_damaged_says_so(inside, store):
    for path in store.record_files():
        if path.is_file():  # the pipe would wait for a reader
            path.write_text("{")
    ended = inside("export", "records", "--out", "records.csv")
    assert (ended.returncode, ended.stderr.count("left out: ")) == (2, 6), ended.stderr


def test_a_folder_that_cannot_be_read_is_an_error(inside, store, monkeypatch):
    """Its records must not be missing from a table without a word."""
    locked = store.record_files()[0].parent.relative_to(store.root.parent)
    scandir = os.scandir

    def refuse(path="."):
        if str(path) == str(locked):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    for words in (("ls", "results"), ("leaderboard", "--out", "runs"), ("leaderboard", "--out", "runs", "--check")):
        ended = inside(*words)
        assert (ended.returncode, f"cannot read the folder {locked}" in ended.stderr) == (1, True), ended.stderr


def test_doctor_reads_everything(inside, store, tmp_path, tiny):
    inside("data", "info", tiny)
    for name in ("bad.json", "pipe.json", "copy.json"):
        (store.record_files()[0].parent / name).unlink()
    for path in store.record_files():
        path.unlink()
    assert inside("doctor", "--deep").returncode == 0
    (texts,) = (tmp_path / "cache" / "labels").glob("*/texts.arrow")
    content = bytearray(texts.read_bytes())
    content[len(content) // 2] ^= 1
    texts.write_bytes(content)
    ended = inside("doctor", "--deep", "--json")
    assert ended.returncode == 1
    (line,) = json.loads(ended.stdout)["broken"]
    assert str(texts.parent) in line
    assert inside("doctor").returncode == 0
    inside("data", "info", tiny)
    assert inside("doctor", "--deep").returncode == 0


def test_doctor_reads_the_true_pairs_of_every_dataset(inside, tmp_path, tiny, own_cache):
    """Two datasets may have equal ones, each in a file of its own; a file that is gone is said once."""
    shutil.copytree(tiny, tmp_path / "copy")
    for data in (tiny, tmp_path / "copy"):
        words = ("--dataset", data, "--setting", "ez", "--methods", "tfidf,bm25")
        assert inside("run", *words).returncode == 0
    assert inside("doctor", "--deep").returncode == 0
    (truth,) = (tmp_path / "runs" / "truth").glob("copy-*")
    truth.unlink()
    ended = inside("doctor", "--deep", "--json")
    (line,) = json.loads(ended.stdout)["broken"]
    assert (ended.returncode, str(truth.relative_to(tmp_path)) in line) == (1, True)


@pytest.mark.parametrize(
    ("place", "inner"), [("cache/received", "artifacts"), ("cache/received", TRAINING), ("runs", TRAINING)]
)
def test_doctor_reads_what_a_cluster_has_sent_and_what_trainings_keep(inside, tmp_path, own_cache, place, inner):
    store = Artifacts(tmp_path / place / inner)
    folder = store.get("made", {}, lambda folder: (folder / "it").write_bytes(b"12345"))
    assert inside("doctor", "--deep").returncode == 0
    (folder / "it").write_bytes(b"12346")
    ended = inside("doctor", "--deep", "--json")
    (line,) = json.loads(ended.stdout)["broken"]
    assert (ended.returncode, str(folder.relative_to(tmp_path)) in line) == (1, True)


@pytest.mark.parametrize(
    "name",
    ["a\u00a0b", "\U0001f469\u200d\U0001f52c", "a\\b", "a\tb", "a\nb", " ", "a ", "\u202eb", "x" * 130, "a\udcffb"],
)
def test_a_folder_that_no_record_can_name_is_refused_before_anything_runs(inside, tiny, tmp_path, name):
    folder = tiny.rename(tmp_path / name)
    with pytest.raises(ValueError, match="not a valid file name"):
        check_name("the dataset", name)
    before = {path: sha256_file(path) for path in folder.iterdir()}
    ended = inside("run", "--setting", "ez", "--methods", "tfidf", f"--dataset=./{name}")
    assert ended.returncode == 1, ended.stderr
    assert "not a valid file name" in ended.stderr
    assert "rename it, or add a card" in ended.stderr
    assert not (tmp_path / "runs").exists()
    assert {path: sha256_file(path) for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["données", "日本語", "A-1 (2)", "x.y_z"])
def test_names_that_can_be_read_are_taken(name):
    check_name("the dataset", name)


def test_what_a_method_cannot_record_fails_its_row_only(inside, tiny, plugin, tmp_path):
    """Half of a surrogate pair in the notes; junk where the outcome is written; time that runs backward."""
    source = """
    import numpy as np, sys, json
    from pathlib import Path
    from xmcbench import Method, TopK
    class {name}(Method):
        supervision = "unused"
        def fit(self, raw_X, raw_Y, pairs=None):
            {fit}
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.zeros((len(raw_X), 10), np.float32), k)
    """
    notes = plugin(source.format(name="Notes", fit="self.notes['x'] = '\\ud800'"), "notes.py")
    huge = plugin(source.format(name="Huge", fit="self.notes['x'] = 10 ** 4000"), "huge.py")
    backward = plugin(
        source.format(name="Backward", fit="import time; time.perf_counter = lambda: -1e9"), "backward.py"
    )
    good = plugin(source.format(name="Good", fit="pass"), "good.py")
    plugins = [word for path in (notes, huge, backward, good) for word in ("--plugin", path)]
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "notes,huge,backward,good", *plugins)
    assert ended.returncode == 1
    found = {record.cell.method: record for record in Store(tmp_path / "runs").records()}
    expected = {"notes": "failed", "huge": "ok", "backward": "failed", "good": "ok"}
    assert {name: record.status for name, record in found.items()} == expected
    assert "there is a result, but" in found["backward"].reason
    assert "the notes of the method are not text" in found["notes"].reason


def lines(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def rewrite(path, change):
    path.write_bytes(gzip.compress(("\n".join(change(lines(path))) + "\n").encode()))


def with_target(line, target):
    return json.dumps({**json.loads(line), "target_ind": target})


DAMAGE = {
    "missing": (lambda folder: (folder / "lbl.json.gz").unlink(), "lbl.json"),
    "truncated": (
        lambda folder: (folder / "trn.json.gz").write_bytes((folder / "trn.json.gz").read_bytes()[:-20]),
        "trn.json.gz",
    ),
    "no gzip": (lambda folder: (folder / "trn.json.gz").write_text("hello"), "trn.json.gz"),
    "no json": (lambda folder: rewrite(folder / "trn.json.gz", lambda all_: [*all_[:4], "{no}", *all_[5:]]), "line 5"),
    "out of range": (
        lambda folder: rewrite(folder / "tst.json.gz", lambda all_: [*all_[:2], with_target(all_[2], [10]), *all_[3:]]),
        "line 3",
    ),
    "duplicate uid": (lambda folder: rewrite(folder / "trn.json.gz", lambda all_: [*all_, all_[0]]), "0000"),
    "empty": (lambda folder: rewrite(folder / "trn.json.gz", lambda all_: []), "trn.json.gz"),
    "label without text": (
        lambda folder: rewrite(folder / "lbl.json.gz", lambda all_: ['{"uid": "x", "title": ""}', *all_[1:]]),
        "line 1",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_is_one_line_with_a_hint(inside, tiny, tmp_path, damage):
    damaging, message = DAMAGE[damage]
    damaging(tiny)
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf")
    assert ended.returncode == 1, ended.stdout
    assert message in ended.stderr
    assert ended.stderr.startswith("xmcbench: error: ")
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()
