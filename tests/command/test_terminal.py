"""Terminals: closed and ASCII streams, hostile text, and tables in several widths, where no word is cut or lost."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from xmcbench.command.terminal import Inert, inert_streams, print_results
from xmcbench.records import Store


@pytest.mark.parametrize(
    ("redirect", "environment"),
    [
        (">&-", {}),
        (">&- 2>&- <&-", {}),
        ("", {"PYTHONOPTIMIZE": "2"}),
        ("", {"PYTHONIOENCODING": "ascii"}),
    ],
)
def test_the_command_line_works_with_any_stream(tmp_path, tiny, redirect, environment):
    command = f'"{sys.executable}" -m xmcbench data info "{tiny.rename(tmp_path / "données")}" {redirect}'
    ended = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in environment.items()), "sh", "-c", command],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    if not redirect:
        assert b"donn" in ended.stdout
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("stdout", ["a reader that has gone", "a full disk", "the log of stderr"])
def test_a_command_that_fails_after_it_has_printed(tmp_path, tiny, stdout):
    """Output that was not written yet failed when Python ended, with exit code 120, and came after the error."""
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "xmcbench", "data", "audit", tiny, "--no-near", "--html", "file/x.html"]
    with (tmp_path / "log").open("w") as log, open("/dev/full", "w") as full:
        to = {"a full disk": full, "the log of stderr": log}.get(stdout, subprocess.PIPE)
        process = subprocess.Popen(command, stdout=to, stderr=log, cwd=tmp_path)
        if process.stdout:
            process.stdout.close()
        assert process.wait() == 1
    *printed, error = (tmp_path / "log").read_text().splitlines()
    assert error.startswith("xmcbench: error: ")
    assert "file/x.html" in error
    assert bool(printed) == (stdout == "the log of stderr")


def test_control_characters_are_spelled_out_on_both_streams(capsys):
    with inert_streams():
        print("a\x1b[2J\u202eb\nc")
        print("progress", end="\r", file=sys.stderr)  # only a display on a terminal moves back
        print("\x07", file=sys.stderr)
        assert isinstance(sys.stdout, Inert)
    printed = capsys.readouterr()
    assert printed.out == "a\\x1b[2J\\u202eb\nc\n"
    assert printed.err == "progress \\x07\n"


@pytest.mark.parametrize(("is_terminal", "no_color"), [(True, ""), (True, "1"), (False, "")])
def test_the_best_figures_are_colored_on_a_terminal(capsys, monkeypatch, is_terminal, no_color):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", no_color)
    row = "[bold]BM25[/bold]  33.45* \N{PLUS-MINUS SIGN}2.0\x1b[2J"
    with inert_streams():
        print_results(row, "", "A paragraph that is longer than a line of the terminal")
    shown = capsys.readouterr().out
    colored = is_terminal and not no_color
    assert shown.count("\x1b[1;32m33.45*\x1b[0m") == colored
    first, blank, *paragraph = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()]
    assert (first, blank) == (row.replace("\x1b", "\\x1b"), "")
    whole = ["A paragraph that is longer than a line of the terminal"]
    assert paragraph == (["A paragraph that is longer than a line", "of the terminal"] if is_terminal else whole)


BOARD = Path(__file__).parents[2] / "leaderboards"
RULE = re.compile(r"-+(  -+)*")
FIGURE = re.compile(r"[-+]?[\d,]+(\.\d+)?( ±[\d.]+)?")

SWITCHED = """
    import numpy as np
    from xmcbench import Method, TopK

    class Switched(Method):
        title = "Switched"
        supervision = "unused"
        ablation = {"1": {"up": False}, "2": {"up": True}}
        up: bool = True

        def fit(self, raw_X, raw_Y, pairs=None):
            self.scores = np.arange(len(raw_Y)) * (1 if self.up else -1)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.scores, (len(raw_X), len(self.scores))), k)
"""

WHERE = ("--dataset", "tiny", "--setting", "ez")
RUN = ("run", "--dataset", "tiny", "--setting", "ez,fs,full", "--ratio", "0.5", "--methods", "tfidf,bm25")
COMMANDS = [
    RUN,
    (*RUN[:-1], "all", "--seed", "7", "--dry-run"),
    ("ls", "methods"),
    ("ls", "methods", "maclr"),
    ("ls", "datasets"),
    ("ls", "layouts"),
    ("ls", "results"),
    ("curve", "--dataset", "tiny", "--ratio", "0,0.5,1", "--methods", "tfidf,bm25", "--no-run"),
    ("ablation", "--dataset", "tiny", "--plugin", "switched.py", "--method", "switched"),
    ("rank", "--setting", "ez", "--runs", BOARD),
    ("compare", "tfidf", "bm25", *WHERE),
    ("explain", "tfidf", "bm25", *WHERE),
    ("show", "tfidf", "--instance", "0101-0", *WHERE),
    ("power", "tfidf", "bm25", *WHERE, "--detect", "0.1"),
    ("clean",),
    ("score", "--dataset", "tiny", "--predictions", "p.npz"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "folder"


@pytest.fixture
def folder(inside, run_folder, tiny, plugin, tmp_path):
    """A folder with results, on labels with names in Latin letters and in Chinese, Japanese and Korean characters."""
    if run_folder.exists():
        return shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    lines = [json.loads(line) for line in gzip.decompress((tiny / "lbl.json.gz").read_bytes()).splitlines()]
    for number, line in enumerate(lines):
        line["title"] += (" \u6a5f\u68b0\u5b66\u7fd2" * 9, " \uae30\uacc4 \ud559\uc2b5" * 9, "")[number % 3]
    (tiny / "lbl.json.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    rows = [json.loads(line) for line in gzip.decompress((tiny / "tst.json.gz").read_bytes()).splitlines()]
    more = [{**row, "uid": f"{row['uid']}-{copy}"} for copy in range(5) for row in rows]
    (tiny / "tst.json.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, more)).encode()))
    plugin(SWITCHED, "switched.py")
    for words in (RUN, COMMANDS[8]):
        ended = inside(*words)
        assert ended.returncode == 0, ended.stderr
    store = Store(tmp_path / "runs")
    shutil.copy(store.predictions_path(store.records()[0].cell), tmp_path / "p.npz")
    shutil.copytree(tmp_path, run_folder)
    return tmp_path


def tables(text):
    """Every table as its columns: the lines of the head and of the cells, as wide as the column."""
    lines = text.splitlines()
    for place, rule in enumerate(lines):
        if RULE.fullmatch(rule):
            first = max((number + 1 for number in range(place) if not lines[number]), default=0)
            last = next((number for number in range(place, len(lines)) if not lines[number]), len(lines))
            rows = [line for line in lines[first:last] if line is not rule]
            # A wide character takes two places.
            shown = ["".join(text + "\0" * (cell_len(text) - 1) for text in row).ljust(len(rule)) for row in rows]
            spans = [match.span() for match in re.finditer("-+", rule)]
            for row in shown:
                assert len(row) == len(rule), row
                assert not "".join(row[end : end + 2] for _, end in spans[:-1]).strip(), row
            yield place - first, [[row[start:end].replace("\0", "") for row in shown] for start, end in spans]


def words(column):
    """The words of a column; a line can also end in a path, and beside characters of scripts without spaces."""
    return re.sub(r"(?<=[/\u1100-\uffff]) | (?=[\u1100-\uffff])", "", " ".join(" ".join(column).split())).split()


def print_lines(inside, command):
    ended = inside(*command)
    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout
    return [*tables(ended.stdout)]


def check_figures(heads, columns):
    """Figures stand on the right, and so do their heads; the first column names rows."""
    for column in columns[1:]:
        cells = [cell.strip() for cell in column[heads:] if cell.strip()]
        if cells and all(map(FIGURE.fullmatch, cells)):
            assert not [cell for cell in column if cell.strip() and cell.endswith(" ")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:2])))
def test_a_table_is_whole_at_every_width(inside, monkeypatch, folder, command):
    whole = print_lines(inside, (*command, "--wide"))
    assert whole
    assert all(sum(2 + cell_len(column[0]) for column in columns) <= 122 for _, columns in print_lines(inside, command))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for width in (60, 80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        parts = print_lines(inside, command)
        for made in (*whole, *parts):
            check_figures(*made)
        for _, columns in whole:
            expected = [words(column) for column in columns]
            found = expected[:1]
            while len(found) < len(expected):
                _, (first, *others) = parts.pop(0)
                assert words(first) == expected[0]
                assert cell_len(first[0]) + sum(2 + cell_len(column[0]) for column in others) <= width
                found += [words(column) for column in others]
            assert found == expected
        assert parts == []
