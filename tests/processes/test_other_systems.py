"""Supervised processes where the kernel does not help: no prctl, no /proc, no pidfd, no fork server, as on macOS."""

import os
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from xmcbench.processes import process_tree
from xmcbench.processes.supervisor import Supervised, supervise

#: Run by each interpreter before anything else, as ``sitecustomize``.
WITHOUT = """
import os
from xmcbench.processes import process_tree
process_tree._prctl = lambda option, value: False
process_tree._read = lambda path: b""
process_tree._processes = lambda: []
process_tree._namespace = lambda: ""
if hasattr(os, "pidfd_open"):
    del os.pidfd_open
"""


@pytest.fixture
def other_system(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(process_tree, "_prctl", lambda option, value: False)
    monkeypatch.setattr(process_tree, "_read", lambda path: b"")
    monkeypatch.setattr(process_tree, "_processes", list)
    monkeypatch.setattr(process_tree, "_namespace", lambda: "")
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    return tmp_path


def supervise_code(folder, code, **limits):
    (folder / "supervised.py").write_text(textwrap.dedent(code))
    log, result = folder / "x.log", folder / "result"
    return supervise(Supervised("supervised", [str(result)], log, dict(os.environ), result, **limits)), log


def test_a_good_end(other_system):
    ending, log = supervise_code(other_system, "print('done')")
    assert ending.returncode == 0
    assert log.read_text() == "done\n"
    assert ending.peak_memory_bytes >= 0


def test_an_exit_code_and_a_signal(other_system):
    assert supervise_code(other_system, "raise SystemExit(3)")[0].returncode == 3
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert supervise_code(other_system, code)[0].returncode == -signal.SIGTERM


def test_a_hang_ends_at_the_limit_with_its_children(other_system):
    code = """
        import os, pathlib, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        pathlib.Path(__file__).with_name("child").write_text(str(child.pid))
        time.sleep(600)
    """
    ending, _ = supervise_code(other_system, code, time_limit_s=5)
    assert ending.timed_out
    ends(int((other_system / "child").read_text()))


def test_a_process_ends_with_a_supervisor_that_is_killed(other_system):
    (other_system / "supervised.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path(__file__).with_name('started').write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    script = """
        import os, sys, time
        from pathlib import Path
        from xmcbench.processes.supervisor import Supervised
        folder = Path(sys.argv[1])
        process = Supervised("supervised", [], folder / "x.log", dict(os.environ), folder / "result")
        while not (folder / "started").exists() or not (folder / "started").read_text():
            time.sleep(0.02)
        print("ready", flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(other_system)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as script_process:
        assert script_process.stdout.readline() == b"ready\n"
        script_process.kill()
    ends(int((other_system / "started").read_text()))


def ends(number):
    """Assert that a process ends within the seconds in which reapers look."""
    try:
        psutil.Process(number).wait(20)
    except psutil.NoSuchProcess:
        return


def test_no_thread_is_started_before_a_fork(other_system):
    """A fork beside a thread is what macOS does not survive."""
    code = "import threading, os; print(threading.active_count(), os.environ['XMCBENCH_SUPERVISED'].startswith(':'))"
    reaper = other_system / "reaper_threads"
    hook = f"""
import os, threading
os.register_at_fork(before=lambda: open({str(reaper)!r}, "a").write(str(threading.active_count())))
"""
    (other_system / "sitecustomize.py").write_text(WITHOUT + hook)
    _, log = supervise_code(other_system, code)
    assert log.read_text() == "2 True\n", "the process itself has a thread that looks for its parent"
    assert reaper.read_text() == "1"
