"""The tutorial of CONTRIBUTING.md, run as it stands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
SECTION = PAGE.split("## Add a method")[1].split("\n## ")[0]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)


def commands(block):
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def folder(tmp_path):
    (code,) = blocks("python")
    (tmp_path / "popularity.py").write_text(code)
    return tmp_path


def test_the_method_as_one_file(folder):
    one_file, mixed, _ = blocks("console")
    printed = []
    for words in commands(one_file) + commands(mixed):
        ended = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        printed.append(ended.stdout)
    assert "the contract holds" in printed[0]
    assert re.search(r"^popularity +\d", printed[1], re.MULTILINE)
    assert re.search(r"^TF-IDF +\d", printed[1], re.MULTILINE)
    assert re.search(r"^Hybrid [(]quick, tfidf [+] popularity[)] +\d", printed[2], re.MULTILINE)


def test_the_method_as_an_installed_package(folder):
    (description,) = blocks("toml")
    (folder / "pyproject.toml").write_text(description)
    # Into a folder of its own: the environment of the tests stays as it is.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", "site", "."]
    subprocess.run([sys.executable, *install], cwd=folder, check=True)
    (folder / "popularity.py").unlink()
    path = os.pathsep.join([str(folder / "site"), os.environ["PYTHONPATH"]])
    *_, installed = blocks("console")
    for words in commands(installed):
        ended = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert ended.returncode == 0, ended.stderr
        assert "popularity" in ended.stdout
