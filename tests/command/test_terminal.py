"""The streams of the command line: closed, ASCII only, without docstrings, and with hostile text."""

import re
import subprocess
import sys

import pytest

from xmcbench.command.terminal import Inert, inert_streams, print_results


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
