"""Word vectors, models and plug-ins that were once misread or blamed on something else: what is right about each."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.data


@pytest.fixture
def case(tmp_path, monkeypatch):
    """Work in a copy of a case by name; skips where it is not on the machine."""
    data = Path(os.environ.get("XMCBENCH_TEST_DATA", ROOT.parent / "shared" / "data")).resolve()

    def enter(name):
        folder = data.parent / "cases" / name
        if not folder.is_dir():
            pytest.skip(f"no case {name}: the cases lie beside the folder that XMCBENCH_TEST_DATA names")
        monkeypatch.chdir(shutil.copytree(folder, tmp_path / name, copy_function=shutil.copyfile))

    return enter


@pytest.mark.parametrize("name", ["w2v_phrase", "w2v_comma", "w2v_blank"])
def test_word_vectors_are_read_or_refused_by_line(case, inside, name):
    case(name)
    wanted = ("run", "--dataset", "data", "--setting", "ez", "--methods", "glove", "--runs", "r")
    ended = inside(*wanted, "--set", "glove.vectors=v.txt")
    assert ended.returncode == 1
    said = "v.txt is not a file of word vectors: line 2 is not a word and 8 numbers, as line 1 says"
    assert said in ended.stdout + ended.stderr
    right = inside(*wanted, "--set", "glove.vectors=right.txt")
    assert (right.returncode, [figure for figure in ("75.00", "36.11", "100.00") if figure not in right.stdout]) == (
        0,
        [],
    )


def test_scores_beyond_float32(case, inside):
    case("topk_overflow")
    wanted = ("--dataset", "data", "--plugin", "by_score.py", "--method", "by-score", "--setting", "ez")
    ended = inside("suggest", *wanted, "--k", "3", "--out", "s.tsv", "--runs", "r")
    assert (ended.returncode, Path("s.tsv").exists()) == (1, False)
    said = "has the score 1e+48, which is beyond float32 (scale the scores, or take logarithms"
    assert said in ended.stderr
    checked = inside("check", "by_score.py")
    assert (checked.returncode, said in checked.stdout) == (1, True)


def test_a_model_that_is_a_pointer_of_git_lfs(case, inside):
    pytest.importorskip("sentence_transformers")
    case("lfs_pointer")
    ended = inside(
        "run", "--dataset", "data", "--setting", "ez", "--methods", "embedder", "--set", "embedder.model=model"
    )
    assert ended.returncode == 1
    said = "model/model.safetensors is a Git LFS pointer, not the file itself (fetch the file: git lfs pull)"
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
