import json
import os

from xmcbench.data import archives


def test_info_verify_export_and_synth(inside, xmcbench, tiny, tmp_path):
    facts = json.loads(inside("data", "info", tiny, "--json").stdout)
    assert facts["statistics"]["labels"] == 10
    assert "labels" in inside("data", "info", "lf-debian-2k").stdout
    # Threads of Arrow have ended a process with SIGABRT at its exit.
    ended = xmcbench("data", "verify", "lf-debian-20k", env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (ended.returncode, ended.stdout.splitlines()[1:]) == (
        0,
        ["filter_labels_test.txt: 2,379 pairs over 2,379 rows", "lf-debian-20k matches its card"],
    )
    assert (
        inside("data", "verify", "./tiny").stdout
        == "./tiny can be read; no card has counts or checksums to check it against\n"
    )
    exported = inside("data", "export", tiny, "--out", "pecos", "--format", "pecos")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "pecos" / "Y.trn.npz").exists()
    (tmp_path / "one.csv").write_text("text,labels\none,a\ntwo,a\n")
    imported = inside("data", "import", "one.csv", "--out", "one").stdout
    assert imported.endswith(" in one: 1 train, 1 test, 1 label, 1 train pair, 1 test pair\n")
    assert (
        " in two: 60 train, 30 test, 10 labels, 120 train pairs, 60 test pairs"
        in inside("data", "import", "tiny", "--out", "two").stdout
    )
    made = inside("data", "synth", "big", "--instances", "200", "--labels", "50")
    assert made.returncode == 0, made.stderr
    assert inside(*made.stdout.split()[1:]).returncode == 0
    (tmp_path / "big" / "mine.txt").write_text("mine")
    for flag in ("--scale", "--words"):
        unused = inside("data", "synth", "other", "--instances", "200", "--labels", "50", flag, "2")
        assert (unused.returncode, f"{flag} can only be used with --like" in unused.stderr) == (2, True)
    refused = inside("data", "synth", "big", "--instances", "200", "--labels", "60")
    assert (refused.returncode, "already exists" in refused.stderr) == (2, True)
    forced = inside("data", "synth", "big", "--instances", "200", "--labels", "60", "--force")
    assert forced.returncode == 0, forced.stderr
    assert (tmp_path / "big" / "mine.txt").read_text() == "mine"
    assert json.loads(inside("data", "info", "./big", "--json").stdout)["statistics"]["labels"] == 60


def test_what_cannot_be_had_says_where_to_get_it(inside, monkeypatch):
    monkeypatch.setattr(archives, "_PAUSE_S", 0.0)
    ended = inside("data", "fetch", "lf-amazon-131k", "--out", "x")
    assert ended.returncode == 1
    assert "XMLRepository" in ended.stderr
    ended = inside("run", "--dataset", "lf-amazon-131k", "--setting", "ez")
    assert ended.returncode == 1
    assert "XMLRepository" in ended.stderr
    assert inside("data", "verify", "lf-debian-2o").returncode == 2
