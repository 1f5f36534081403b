"""Processes in waiting: what they run, when they fit, and that none is left."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from xmcbench.processes.spare import Spare
from xmcbench.processes.supervisor import Supervised, wait

LATER = frozenset({"TMPDIR", "TOLD"})

MODULE = """
import json, os, pathlib, sys, tempfile
told = {"imported": "decimal" in sys.modules, "argv": sys.argv[1:], "TOLD": os.environ.get("TOLD"), "name": __name__}
told |= {"tmp": tempfile.gettempdir(), "mark": "XMCBENCH_SUPERVISED" in os.environ, "stdin": sys.stdin.read()}
print(json.dumps(told), flush=True)
print("to stderr", file=sys.stderr)
pathlib.Path(sys.argv[1]).touch()
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "module_in_spare.py").write_text(MODULE)
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.fixture
def spare(environment):
    made = Spare(["decimal", "no_such_module"], environment, LATER)
    yield made
    made.end()


def run(tmp_path, environment, spare):
    """Run the module; what it printed."""
    log, result = tmp_path / "logs" / "x.log", tmp_path / "result"
    process = Supervised("module_in_spare", [str(result)], log, environment, result, 60, spare=spare)
    try:
        while (ending := process.look()) is None:
            wait([process], 0.05)
    finally:
        process.end()
    assert ending.returncode == 0, log.read_text()
    first, second = log.read_text().splitlines()
    assert second == "to stderr"
    return json.loads(first)


def test_it_runs_a_module_as_any_process_does(tmp_path, environment, spare):
    told = {**environment, "TMPDIR": str(tmp_path), "TOLD": "yes"}
    assert spare.fits(told)
    keeper = spare._process.pid
    assert run(tmp_path, told, spare) == {
        "imported": True,
        "argv": [str(tmp_path / "result")],
        "TOLD": "yes",
        "name": "__main__",
        "tmp": str(tmp_path),
        "mark": True,
        "stdin": "",
    }
    assert not psutil.pid_exists(keeper)
    assert not spare.fits(told), "it runs one module and ends"


def test_it_fits_what_differs_in_variables_that_are_read_later(environment, spare):
    assert spare.fits(environment)
    assert spare.fits({**environment, "TMPDIR": "/tmp"})
    assert not spare.fits({**environment, "OMP_NUM_THREADS": "7"})
    assert not spare.fits({name: value for name, value in environment.items() if name != "PATH"})


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_is_gone_is_replaced(tmp_path, environment, spare, sign):
    spare._process.send_signal(sign)
    spare._process.wait(30)
    assert not spare.fits(environment)
    assert run(tmp_path, environment, spare)["imported"] is False


def below(pid):
    return [each.pid for each in psutil.Process(pid).children(recursive=True)]


def gone(pids):
    deadline = time.monotonic() + 20
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(psutil.pid_exists, pids))


def waiting(keeper):
    """The numbers of a keeper and its child, once there is one."""
    deadline = time.monotonic() + 20
    while not below(keeper) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [keeper, *below(keeper)]


def test_ended_it_leaves_nothing(spare):
    numbers = waiting(spare._process.pid)
    assert len(numbers) == 2
    spare.end()
    assert gone(numbers)
    spare.end()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_it_does_not_outlive_who_made_it(environment, sign):
    code = "import os, time; from xmcbench.processes.spare import Spare; spare = Spare([], os.environ, set());"
    code += "print(spare._process.pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as script:
        numbers = waiting(int(script.stdout.readline()))
        script.send_signal(sign)
    assert gone(numbers)
