"""Processes that code forks, and their end."""

import subprocess
import sys

import pytest

CODE = """
import os, sys
from xmcbench.processes.process_tree import ending_forks

child = None
try:
    with ending_forks():
        child = os.fork()
        if not child:
            ACTION
        print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        sys.exit(3)
finally:
    print("after it")
"""


@pytest.mark.parametrize(
    ("action", "code", "said"),
    [("sys.exit()", 0, ""), ("sys.exit(7)", 7, ""), ("sys.exit('why')", 1, "why"), ("1 / 0", 1, "ZeroDivisionError")],
)
def test_a_child_ends_where_its_parent_goes_on(action, code, said):
    command = [sys.executable, "-c", CODE.replace("ACTION", action)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == [f"ended with {code}", "after it"]
    assert ended.returncode == 3
    assert (said in ended.stderr) == (bool(ended.stderr) or not said)


def test_a_child_that_gets_through_ends_too():
    code = (
        CODE.replace("        print(", "        if child: print(")
        .replace("ACTION", "pass")
        .replace("sys.exit(3)", "pass")
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["ended with 0", "after it"]
