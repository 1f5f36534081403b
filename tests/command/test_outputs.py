"""Files that commands write for the user, and files that killed commands leave."""

import os
import subprocess
import sys
import tarfile

import pytest

#: Runs the command line, and is killed where a function is called. Nobody can catch that.
KILLED = """
import importlib, os, signal, sys
from xmcbench.command.main import main
module, name = sys.argv[1].split(":")
setattr(importlib.import_module(module), name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
main(sys.argv[2:])
"""


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_what_is_written_has_the_mode_that_the_umask_says(xmcbench, inside, own_cache, tiny, tmp_path, umask):
    ended = xmcbench("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25", umask=umask)
    assert ended.returncode == 0, ended.stderr
    commands = [
        ("suggest", "--dataset", tiny, "--method", "tfidf", "--setting", "ez", "--out", "out/suggested.tsv"),
        ("explain", "tfidf", "bm25", "--dataset", tiny, "--html", "out/explained.html"),
        ("export", "records", "--out", "out/records.csv"),
        ("export", "run", "tfidf", "--dataset", tiny, "--out", "out/run.txt"),
        ("export", "qrels", "--dataset", tiny, "--out", "out/qrels.txt"),
        ("export", "paper", "--out", "out/appendix"),
        ("data", "export", tiny, "--format", "csv", "--out", "out/exported"),
        ("data", "import", tiny, "--out", "out/imported"),
        ("data", "audit", tiny, "--html", "out/audit.html"),
        ("data", "synth", "out/synthetic", "--instances", "20", "--labels", "5"),
        ("leaderboard", "--runs", "runs", "--out", "out/board"),
        ("leaderboard", "--runs", "runs", "--out", "out/csv", "--format", "csv"),
    ]
    before = os.umask(umask)
    try:
        for words in commands:
            ended = inside(*words)
            assert ended.returncode == 0, ended.stderr
    finally:
        os.umask(before)
    found = [path for name in ("out", "runs", "cache") for path in (tmp_path / name).rglob("*")]
    modes = {path: path.stat().st_mode & 0o777 for path in found}
    assert modes == {path: (0o777 if path.is_dir() else 0o666) & ~umask for path in found}


@pytest.mark.parametrize(
    ("words", "killed_in"),
    [
        (("data", "import", "tiny", "--out", "temporary/imported"), "xmcbench.data.exchange:sha256_file"),
        (("data", "export", "tiny", "--format", "csv", "--out", "temporary/it"), "xmcbench.data.exchange:sha256_file"),
        (("data", "verify", "tiny"), "xmcbench.data.verification:load_corpus"),
        (("export", "qrels", "--dataset", "tiny", "--out", "temporary/qrels.txt"), "xmcbench.trec:zip"),
        (("leaderboard", "add", "runs.tar.gz", "--out", "board"), "xmcbench.submissions:len"),
    ],
)
def test_the_next_command_removes_what_a_killed_one_left(tiny, tmp_path, words, killed_in):
    with tarfile.open(tmp_path / "runs.tar.gz", "w:gz") as archive:
        archive.add(tiny, "tiny")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    for _ in range(2):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, killed_in, *words], cwd=tmp_path, env=environment, check=False
        )
        assert killed.returncode == -9
        assert len([*temporary.iterdir()]) == 1
    subprocess.run([sys.executable, "-m", "xmcbench", *words], cwd=tmp_path, env=environment, check=False)
    assert [path.name for path in temporary.iterdir() if path.suffix == ".tmp"] == []
