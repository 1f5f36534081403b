"""Runs of trec_eval that were read wrongly once: what `xmcbench score` says to them."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = Path(os.environ.get("XMCBENCH_TEST_DATA", ROOT.parent / "shared" / "data")).resolve().parent / "cases"
FOLDER = CASES / "trec_columns"


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no {FOLDER.name}: set XMCBENCH_TEST_DATA to a folder beside cases/")
def test_a_run_with_more_columns_is_one_line(inside, tmp_path):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    commands = (tmp_path / "cmd").read_text().split(";")
    for command, name in zip(commands, ("run9.txt", "run8.txt"), strict=True):
        ended = inside(*shlex.split(command)[1:])
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == (
            f"xmcbench: error: {name}: line 1 has too many columns (a line is `query Q0 document rank score tag`)\n"
        )
    lines = [" ".join(line.split()[:6]) for line in (tmp_path / "run8.txt").read_text().splitlines()]
    (tmp_path / "run.txt").write_text("\n".join(lines))
    ended = inside("score", "--format", "trec", "--qrels", "qrels.txt", "--predictions", "run.txt")
    assert ended.returncode == 0, ended.stderr
    assert "12 test instances scored" in ended.stdout
