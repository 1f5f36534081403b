"""The tutorial of docs/ and the page on a thesaurus, run as they stand."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("sklearn")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
THESAURUS = (ROOT / "docs" / "thesaurus.md").read_text()
#: A choice of hyperparameters takes a minute.
LONG = "lf-debian-20k-dev"
FILES = dict(re.findall(r"to `(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
PACKAGE = dict(re.findall(r"With this `(pyproject\.toml)`.*?```toml\n(.*?)```", PAGE, re.DOTALL))
#: (command, output) of every step.
STEP = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
STEPS = STEP.findall(PAGE)
*AS_FILES, AS_PACKAGE = STEPS


def check_step(command, shown, folder, path=()):
    """Run a command and check that its output has all words that the page shows, in whatever layout."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ["PYTHONPATH"]])}
    words = [sys.executable, "-m", *shlex.split(command)]
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    missing = {word for word in shown.split() if word.strip("-.")} - {*ended.stdout.split()}
    assert not missing, f"{command}\n{ended.stdout}"


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_every_block_is_a_file_or_a_step():
    assert len(FILES) + len(PACKAGE) + len(STEPS) == PAGE.count("```") / 2
    assert [len(FILES), len(PACKAGE)] == [2, 1]


@pytest.mark.timeout(900)
def test_the_steps(folder):
    steps = [step for step in AS_FILES if LONG not in step[0]]
    assert len(steps) > 10
    for command, shown in steps:
        check_step(command, shown, folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_choice_of_a_value(folder):
    (step,) = [step for step in AS_FILES if LONG in step[0]]
    check_step(*step, folder)


def test_the_package(folder, tmp_path_factory):
    (folder / "pyproject.toml").write_text(PACKAGE["pyproject.toml"])
    # Into a folder of its own: the environment of the tests stays as it is.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", "site", "."]
    subprocess.run([sys.executable, *install], cwd=folder, check=True)
    site = shutil.move(folder / "site", tmp_path_factory.mktemp("installed"))
    check_step(*AS_PACKAGE, tmp_path_factory.mktemp("elsewhere"), [str(site)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thesaurus_becomes_a_service(tmp_path):
    for package in ("rdflib", "optuna"):
        pytest.importorskip(package)
    shutil.copytree(ROOT / "examples" / "foods", tmp_path / "examples" / "foods")
    steps, ((documents,),) = STEP.findall(THESAURUS), [re.findall(r"new.txt` has .*:\n\n((?: {4}.*\n)+)", THESAURUS)]
    (tmp_path / "new.txt").write_text(documents.replace("    ", ""))
    assert len(steps) == 9
    for command, shown in steps:
        check_step(command, shown, tmp_path)
    ((served, asked),) = re.findall(
        r"^ {4}xmcbench (.*--serve 8000)\n.*?-d '(.*?)'$", THESAURUS, re.DOTALL | re.MULTILINE
    )
    ((answer,),) = [re.findall(r"```json\n(.*?)```", THESAURUS, re.DOTALL)]
    # A shell ignores Ctrl-C in what it starts in the background, tests included.
    command = [
        "env",
        "--default-signal=INT",
        sys.executable,
        "-m",
        "xmcbench",
        *shlex.split(served.replace("8000", "0")),
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        address = re.search(r"http://127.0.0.1:\d+/", server.stdout.readline())[0]
        with urlopen(address, asked.encode(), timeout=30) as response:
            found = json.loads(response.read(), parse_float=lambda text: round(float(text), 4))
        server.send_signal(signal.SIGINT)
    assert found == json.loads(answer)
