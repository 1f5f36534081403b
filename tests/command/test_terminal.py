"""The streams of the command line: closed, ASCII only, without docstrings, and with hostile text."""

import subprocess
import sys

import pytest

from xmcbench.command.terminal import Inert, inert_streams


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
