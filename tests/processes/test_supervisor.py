import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from xmcbench.processes.lifetime import MARK
from xmcbench.processes.supervisor import supervise


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pid):
    """Whether a process goes: what was killed takes a moment."""
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def run(tmp_path, code, **limits):
    (tmp_path / "supervised.py").write_text(textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    log, result = tmp_path / "logs" / "x.log", tmp_path / "result"
    return supervise("supervised", [str(result)], log, environment, result, **limits)


def test_a_good_end_with_its_output_and_memory(tmp_path):
    ending = run(tmp_path, "import time; print('hello'); x = bytearray(80 << 20); time.sleep(0.4)")
    assert (ending.returncode, ending.timed_out, ending.over_memory) == (0, False, False)
    assert ending.peak_memory_bytes > 80 << 20
    assert (tmp_path / "logs" / "x.log").read_text() == "hello\n"


def test_an_exit_code_and_a_signal_are_told_apart(tmp_path):
    assert "exit code 3" in run(tmp_path, "raise SystemExit(3)").reason
    assert "SIGSEGV" in run(tmp_path, "import os; os.kill(os.getpid(), 11)").reason
    assert "SIGKILL" in run(tmp_path, "import os; os.kill(os.getpid(), 9)").reason


#: A process that ignores SIGTERM, and prints the number of a child that does as well, in a session of its own.
STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
"""


def test_a_hang_ends_at_the_limit_with_all_it_started(tmp_path):
    begin = time.monotonic()
    ending = run(tmp_path, STUBBORN + "time.sleep(60)", time_limit_s=1.0)
    assert ending.timed_out
    assert time.monotonic() - begin < 20
    assert gone(int((tmp_path / "logs" / "x.log").read_text()))


def test_what_outlives_its_process_is_ended(tmp_path):
    ending = run(tmp_path, STUBBORN)
    assert (ending.returncode, ending.timed_out) == (0, False)
    assert gone(int((tmp_path / "logs" / "x.log").read_text()))


def test_a_result_counts_once_it_is_written(tmp_path):
    """Neither a limit nor what hangs afterwards takes it back."""
    code = """
    import atexit, pathlib, sys, threading, time
    pathlib.Path(sys.argv[1]).touch()
    atexit.register(time.sleep, 60)
    threading.Thread(target=time.sleep, args=[60]).start()
    """
    begin = time.monotonic()
    ending = run(tmp_path, code, time_limit_s=2.0)
    assert (ending.timed_out, ending.over_memory) == (False, False)
    assert time.monotonic() - begin < 30


#: A process that starts a child in a session of its own, tells its numbers, and holds the interpreter for good.
HOLDS = """
import os, pathlib, subprocess, sys, re
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
numbers = pathlib.Path(sys.argv[1]).with_name("numbers")
numbers.with_suffix(".new").write_text(f"{os.getppid()} {os.getpid()} {child.pid}")
numbers.with_suffix(".new").replace(numbers)
re.match("(a*)*b", "a" * 100)
"""

PARENT = """
import os, pathlib, sys
from xmcbench.processes.supervisor import supervise
folder = pathlib.Path(sys.argv[1])
supervise("holds", [str(folder / "result")], folder / "log", os.environ, folder / "result")
"""


@pytest.fixture
def held(tmp_path):
    """A script that supervises a process which holds its interpreter; the numbers of keeper, process and its child."""
    (tmp_path / "holds.py").write_text(HOLDS)
    (tmp_path / "script.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    script = subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(tmp_path)], env=environment)
    deadline = time.monotonic() + 60
    while not (tmp_path / "numbers").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    numbers = [int(each) for each in (tmp_path / "numbers").read_text().split()]
    yield script, numbers
    script.kill()
    script.wait()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_script_that_is_killed(held, sign):
    script, numbers = held
    assert all(map(alive, numbers))
    script.send_signal(sign)
    script.wait(10)
    assert all(map(gone, numbers))


def test_nothing_outlives_a_keeper_that_is_killed(held):
    """Its orphans go to nobody who would end them: they are found by their mark."""
    script, numbers = held
    os.kill(numbers[0], signal.SIGKILL)
    assert script.wait(10) == 0
    assert all(map(gone, numbers))


def test_the_next_run_ends_what_is_left_where_everything_was_killed_at_once(held, tmp_path):
    from xmcbench.processes.lifetime import end_orphans

    script, numbers = held
    other = {**os.environ, MARK: f"1:{script.pid}:1:of another container"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=other) as stranger:
        end_orphans()
        assert all(map(alive, numbers))  # their supervisor lives
        script.send_signal(signal.SIGSTOP)
        for process in (script.pid, *numbers[:2]):
            os.kill(process, signal.SIGSTOP)
        for process in (numbers[0], numbers[1], script.pid):
            os.kill(process, signal.SIGKILL)
        script.wait(10)
        assert alive(numbers[2])
        end_orphans()
        assert all(map(gone, numbers))
        assert alive(stranger.pid)
        stranger.communicate(b"\n")


def test_memory_beyond_the_limit_ends_it(tmp_path):
    ending = run(tmp_path, "x = bytearray(400 << 20); import time; time.sleep(30)", memory_limit_bytes=200 << 20)
    assert ending.over_memory
    assert "out of memory" in ending.reason


def test_an_exception_here_leaves_nobody_behind(tmp_path, monkeypatch):
    def interrupt(pid):
        seen.append(pid)
        raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr("xmcbench.processes.supervisor._tree_memory", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "import time; time.sleep(60)")
    assert not psutil.pid_exists(seen[0])
