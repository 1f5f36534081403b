import os
import sys
import time

import psutil
import pytest

from xmcbench.runner.supervisor import supervise


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def run(tmp_path, code, **limits):
    return supervise([sys.executable, "-c", code], tmp_path / "logs" / "x.log", os.environ, **limits)


def test_a_good_end_with_its_output_and_memory(tmp_path):
    ending = run(tmp_path, "import time; print('hello'); x = bytearray(80 << 20); time.sleep(0.4)")
    assert (ending.returncode, ending.timed_out, ending.over_memory) == (0, False, False)
    assert ending.peak_memory_bytes > 80 << 20
    assert (tmp_path / "logs" / "x.log").read_text() == "hello\n"


def test_an_exit_code_and_a_signal_are_told_apart(tmp_path):
    assert "exit code 3" in run(tmp_path, "raise SystemExit(3)").reason
    assert "SIGSEGV" in run(tmp_path, "import os; os.kill(os.getpid(), 11)").reason
    assert "SIGKILL" in run(tmp_path, "import os; os.kill(os.getpid(), 9)").reason


def test_a_hang_ends_at_the_limit_with_all_its_children(tmp_path):
    code = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""
    begin = time.monotonic()
    ending = run(tmp_path, code, time_limit_s=1.0)
    assert ending.timed_out
    assert time.monotonic() - begin < 20
    child = int((tmp_path / "logs" / "x.log").read_text())
    deadline = time.monotonic() + 10  # what was killed takes a moment to go
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_memory_beyond_the_limit_ends_it(tmp_path):
    ending = run(tmp_path, "x = bytearray(400 << 20); import time; time.sleep(30)", memory_limit_bytes=200 << 20)
    assert ending.over_memory
    assert "out of memory" in ending.reason


def test_an_exception_here_leaves_nobody_behind(tmp_path, monkeypatch):
    def interrupt(pid):
        seen.append(pid)
        raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr("xmcbench.runner.supervisor._tree_memory", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "import time; time.sleep(60)")
    assert not psutil.pid_exists(seen[0])
