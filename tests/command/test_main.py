"""The command line as such: what it imports, how fast it is, how it fails."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = (
    *("torch", "transformers", "sentence_transformers", "accelerate", "faiss", "gensim", "numba", "matplotlib"),
    *("sklearn", "scipy", "pecos", "bm25s", "sparse_dot_topn", "Stemmer", "pyarrow"),
)

WATCH = """
import sys
from xmcbench.command.main import main
try:
    main({words!r})
except SystemExit:
    pass
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["ls", "methods"], ["ls", "datasets"], ["--version"]])
def test_help_and_listings_import_nothing_heavy(words):
    code = WATCH.format(words=words, heavy=HEAVY)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout
    assert ended.stderr == "[]\n"


def test_a_misspelt_command_and_no_command(xmcbench):
    ended = xmcbench("rnu")
    assert (ended.returncode, ended.stderr) == (2, "xmcbench: error: unknown command 'rnu' (did you mean 'run'?)\n")
    assert xmcbench().returncode == 2


def test_a_file_where_a_folder_should_be_is_no_defect(xmcbench, tmp_path):
    (tmp_path / "file").touch()
    ended = xmcbench("data", "build", "lf-debian-20k", "--out", "file")
    assert (ended.returncode, ended.stderr) == (1, "xmcbench: error: file: Not a directory (--debug shows where)\n")


def test_debug_shows_the_traceback(xmcbench):
    words = ("run", "--setting", "fs")
    assert "Traceback" not in xmcbench(*words).stderr
    assert "Traceback" in xmcbench(*words, "--debug").stderr


def test_a_broken_plugin_is_a_row_and_a_missing_one_an_error(xmcbench, plugin):
    listing = xmcbench("ls", "methods", "--plugin", plugin("import nothing_of_that_name"), "--json")
    entries = {entry["name"]: entry for entry in json.loads(listing.stdout)}
    assert "does not import: ModuleNotFoundError" in entries["plugin"]["status"]
    assert entries["tfidf"]["status"] == "ok"
    assert xmcbench("ls", "methods", "--plugin", "none.py").returncode == 2


def test_doctor_examines_this_machine(xmcbench, plugin):
    document = json.loads(xmcbench("doctor", "--json").stdout)
    assert document["broken"] == []
    assert document["methods"]["tfidf"] == "ok"
    assert document["machine"]["cores"] >= 1
    assert document["datasets"]["lf-debian-20k"] == "ok"
    broken = xmcbench("doctor", "--plugin", plugin("1 / 0"))
    assert broken.returncode == 1
    assert "ZeroDivisionError" in broken.stdout


def test_doctor_names_a_broken_card(xmcbench, tmp_path):
    (tmp_path / "sets" / "odd").mkdir(parents=True)
    (tmp_path / "sets" / "odd" / "card.toml").write_text("nonsense")
    environment = {**os.environ, "XMCBENCH_DATASETS": str(tmp_path / "sets"), "HF_HUB_OFFLINE": "true"}
    ended = xmcbench("doctor", "--json", env=environment)
    document = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert "dataset odd" in document["broken"][0]
    assert document["hub"] == "offline"


def test_an_ls_without_results_says_where_they_would_be(xmcbench):
    ended = xmcbench("ls", "results")
    assert ended.returncode == 2
    assert "there is no runs folder runs" in ended.stderr


@pytest.mark.parametrize("words", [["--help"], ["ls", "datasets"], ["doctor"]])
def test_a_reader_that_went_away_is_no_error(words, tmp_path):
    read, write = os.pipe()
    os.close(read)
    # Buffered, as standard output into a pipe is: the output is written at the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "xmcbench", *words]
    # Elsewhere, so that it is the installed package that runs and not the checkout, which has no xmcbench.methods.
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, check=False, cwd=tmp_path)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")
