"""The pages on keeping a model and on choosing parameters, run from top to bottom."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest
from rich.cells import cell_len

DOCS = Path(__file__).parents[1] / "docs"


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
        ended = inside(*shlex.split(command)[1:])
        assert ended.returncode == 0, ended.stderr
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
    # A shell ignores Ctrl-C in what it starts in the background, tests included.
    obeys = ["env", "--default-signal=INT"]
    command = [*obeys, sys.executable, "-m", *shlex.split(serving.replace("8000", "0"))]
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
