"""Pages of docs/ that are run from top to bottom: tutorial, thesaurus, keeping a model, and choosing parameters."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import urlopen

import pytest
from rich.cells import cell_len

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = (DOCS / "tutorial.md").read_text()
THESAURUS = (DOCS / "thesaurus.md").read_text()
#: A choice of hyperparameters takes a minute.
LONG = "lf-debian-20k-dev"
FILES = dict(re.findall(r"to `(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
PACKAGE = dict(re.findall(r"With this `(pyproject\.toml)`.*?```toml\n(.*?)```", PAGE, re.DOTALL))
#: (command, output) of every step.
STEP = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
STEPS = STEP.findall(PAGE)
*AS_FILES, AS_PACKAGE = STEPS
#: A shell ignores Ctrl-C in what it starts in the background, tests included.
INTERRUPTIBLE = ("env", "--default-signal=INT")


def run_step(command, folder, path=()):
    """Run a command as a user does, in a process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ["PYTHONPATH"]])}
    words = [sys.executable, "-m", *shlex.split(command)]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def check_step(command, shown, ended):
    """Check that the output of a command has all words that the page shows, in whatever layout."""
    assert ended.returncode == 0, ended.stderr
    missing = {word for word in shown.split() if word.strip("-.")} - {*ended.stdout.split()}
    assert not missing, f"{command}\n{ended.stdout}"


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("sklearn")
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_every_block_is_a_file_or_a_step():
    assert len(FILES) + len(PACKAGE) + len(STEPS) == PAGE.count("```") / 2
    assert [len(FILES), len(PACKAGE)] == [2, 1]


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("folder")
def test_the_steps(inside):
    steps = [step for step in AS_FILES if LONG not in step[0]]
    assert len(steps) > 10
    for command, shown in steps:
        check_step(command, shown, inside(*shlex.split(command)[1:]))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_choice_of_a_value(folder):
    ((command, shown),) = [step for step in AS_FILES if LONG in step[0]]
    check_step(command, shown, run_step(command, folder))


def test_the_package(folder, tmp_path_factory):
    (folder / "pyproject.toml").write_text(PACKAGE["pyproject.toml"])
    # Into a folder of its own: the environment of the tests stays as it is.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", "site", "."]
    subprocess.run([sys.executable, *install], cwd=folder, check=True)
    site = shutil.move(folder / "site", tmp_path_factory.mktemp("installed"))
    command, shown = AS_PACKAGE
    check_step(command, shown, run_step(command, tmp_path_factory.mktemp("elsewhere"), [str(site)]))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thesaurus_becomes_a_service(tmp_path):
    pytest.importorskip("sklearn")
    for package in ("rdflib", "optuna"):
        pytest.importorskip(package)
    shutil.copytree(ROOT / "examples" / "foods", tmp_path / "examples" / "foods")
    steps, ((documents,),) = STEP.findall(THESAURUS), [re.findall(r"new.txt` has .*:\n\n((?: {4}.*\n)+)", THESAURUS)]
    (tmp_path / "new.txt").write_text(documents.replace("    ", ""))
    assert len(steps) == 9
    for command, shown in steps:
        check_step(command, shown, run_step(command, tmp_path))
    ((served, asked),) = re.findall(
        r"^ {4}xmcbench (.*--serve 8000)\n.*?-d '(.*?)'$", THESAURUS, re.DOTALL | re.MULTILINE
    )
    ((answer,),) = [re.findall(r"```json\n(.*?)```", THESAURUS, re.DOTALL)]
    command = [*INTERRUPTIBLE, sys.executable, "-m", "xmcbench", *shlex.split(served.replace("8000", "0"))]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        address = re.search(r"http://127.0.0.1:\d+/", server.stdout.readline())[0]
        with urlopen(address, asked.encode(), timeout=30) as response:
            found = json.loads(response.read(), parse_float=lambda text: round(float(text), 4))
        server.send_signal(signal.SIGINT)
    assert found == json.loads(answer)


def lines_of(page, program):
    """The indented lines that start with a program."""
    return re.findall(rf"^ {{4}}({program} .*)$", (DOCS / page).read_text(), re.MULTILINE)


@pytest.fixture
def terminal(inside, monkeypatch):
    """Run a command as in a terminal of 80 columns; returns what it printed."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(command):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        ended = inside(*shlex.split(command)[1:], code=0)
        assert [line for line in ended.stdout.splitlines() if cell_len(line) > 80] == []
        return ended.stdout

    return run


def ask(port, command):
    """Send the request of a curl command; returns its answer."""
    words = shlex.split(command)
    given = {word: words[place + 1] for place, word in enumerate(words) if word in ("-d", "--data-binary", "-H")}
    body = given.get("-d") or Path(given["--data-binary"].removeprefix("@")).read_text()
    kind, value = given.get("-H", "Content-Type: application/x-www-form-urlencoded").split(": ")
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", words[1].removeprefix("http://127.0.0.1:8000"), body, {kind: value})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_a_model_is_kept_and_served(terminal, tmp_path):
    page = "keep-a-model.md"
    ((printed,),) = [
        re.findall(r"^'(.*)' > new.txt$", line.removeprefix("printf ")) for line in lines_of(page, "printf")
    ]
    (tmp_path / "new.txt").write_text(printed.replace("\\n", "\n"))
    *commands, serving = [line for line in lines_of(page, "xmcbench") if "error:" not in line]
    shown = [terminal(command) for command in commands]
    assert [len(shown), shown[0]] == [3, "model: TF-IDF, LF-Debian-2K, zero-shot (no pairs), 2,000 labels\n"]
    rows = [line.split("\t") for line in (tmp_path / "suggested.tsv").read_text().splitlines()[1:]]
    assert len(rows) == 10
    assert rows[0][3] in shown[1]
    names = {}
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    exec(compile(block, page, "exec"), names)
    assert names["top"].indices.shape == (1, 10)
    command = [*INTERRUPTIBLE, sys.executable, "-m", *shlex.split(serving.replace("8000", "0"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        port = int(re.search(r"http://127.0.0.1:(\d+)/", process.stdout.readline())[1])
        answers = [ask(port, line) for line in lines_of(page, "curl")]
        process.send_signal(signal.SIGINT)
    assert [[len(labels) for labels in answer["documents"]] for answer in answers] == [[3], [3, 3]]
    assert [label["uid"] for label in answers[1]["documents"][0]] == [row[3] for row in rows[:3]]


def test_parameters_are_chosen(terminal, tmp_path):
    """Each search makes two trials."""
    pytest.importorskip("optuna")
    commands = [
        re.sub(r"--trials \d+", "--trials 2", command)
        for command in lines_of("tune.md", "xmcbench")
        if command.startswith("xmcbench tune")
    ]
    shown = [terminal(command) for command in commands]
    assert len(shown) == 2
    for text in shown:
        assert re.search(r"best P@1 of 2 trials of \w+ on LF-Debian-2K-dev-0.1", " ".join(text.split()))
    assert (tmp_path / "trials.svg").is_file()
