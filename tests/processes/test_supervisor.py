"""Supervised processes and their limits, and the end of forked ones."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from xmcbench.errors import StorageError, XmcbenchError
from xmcbench.processes.forkserver import ForkServer
from xmcbench.processes.process_tree import MARK
from xmcbench.processes.supervisor import Ending, Supervised, wait


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_ended(pid):
    """Wait for a process to end, as a killed one takes a moment; False where it stays."""
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@pytest.fixture(params=["started", "forked"])
def way(request):
    """The way in which a process comes to be."""
    return request.param


@pytest.fixture
def run(tmp_path, way):
    """Run a module as a process; how it ended."""

    def run(code, **limits):
        (tmp_path / "supervised.py").write_text(textwrap.dedent(code))
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        log, result = tmp_path / "logs" / "x.log", tmp_path / "result"
        server = ForkServer([], environment) if way == "forked" else None
        try:
            process = Supervised("supervised", [str(result)], log, environment, result, **limits, server=server)
            try:
                while (ending := process.look()) is None:
                    wait([process], 0.05)
            finally:
                process.end()
        finally:
            if server:
                server.end()
        return ending

    return run


def test_a_good_end_with_its_output_and_memory(run, tmp_path):
    ending = run("import time; print('hello'); x = bytearray(80 << 20); time.sleep(0.4)")
    assert (ending.returncode, ending.timed_out, ending.over_memory) == (0, False, False)
    assert ending.peak_memory_bytes > 80 << 20
    assert (tmp_path / "logs" / "x.log").read_text() == "hello\n"


def test_memory_that_processes_share_counts_once(run):
    ending = run("""
        import os, time
        held = bytearray(os.urandom(1)) * (100 << 20)
        for _ in range(4):
            if not os.fork():
                sum(held[::4096])
                time.sleep(0.6)
                os._exit(0)
        time.sleep(0.6)
    """)
    assert 100 << 20 < ending.peak_memory_bytes < 250 << 20


def test_an_exit_code_and_a_signal_are_told_apart(run, tmp_path):
    assert "exit code 3" in run("raise SystemExit(3)").reason
    assert "SIGSEGV" in run("import os; os.kill(os.getpid(), 11)").reason
    assert "SIGKILL" in run("import os; os.kill(os.getpid(), 9)").reason
    assert Ending(-40, False, False, 0).reason == "killed by signal 40"  # one for programs, without a name


#: A process that ignores SIGTERM, and prints the number of a child that does as well, in a session of its own.
STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
"""


def test_a_hang_ends_at_the_limit_with_all_it_started(run, tmp_path):
    begin = time.monotonic()
    ending = run(STUBBORN + "time.sleep(60)", time_limit_s=1.0)
    assert ending.timed_out
    assert time.monotonic() - begin < 20
    assert has_ended(int((tmp_path / "logs" / "x.log").read_text()))


def test_what_outlives_its_process_is_ended(run, tmp_path):
    ending = run(STUBBORN)
    assert (ending.returncode, ending.timed_out) == (0, False)
    assert has_ended(int((tmp_path / "logs" / "x.log").read_text()))


def test_a_result_counts_once_it_is_written(run, tmp_path):
    """Neither a limit nor what hangs afterwards takes it back."""
    code = """
    import atexit, pathlib, sys, threading, time
    pathlib.Path(sys.argv[1]).touch()
    atexit.register(time.sleep, 60)
    threading.Thread(target=time.sleep, args=[60]).start()
    """
    begin = time.monotonic()
    ending = run(code, time_limit_s=2.0)
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
from xmcbench.errors import StorageError, XmcbenchError
from xmcbench.processes.forkserver import ForkServer
from xmcbench.processes.supervisor import Supervised, wait
folder = pathlib.Path(sys.argv[1])
server = ForkServer([], os.environ) if sys.argv[2] == "forked" else None
process = Supervised("holds", [str(folder / "result")], folder / "log", os.environ, folder / "result", server=server)
while process.look() is None:
    wait([process], 0.05)
if server:
    server.end()
"""


@pytest.fixture
def held(tmp_path, way):
    """A script that supervises a process which holds its interpreter; the numbers of reaper, process and its child."""
    (tmp_path / "holds.py").write_text(HOLDS)
    (tmp_path / "script.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    script = subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(tmp_path), way], env=environment)
    deadline = time.monotonic() + 60
    while not (tmp_path / "numbers").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    numbers = [int(number) for number in (tmp_path / "numbers").read_text().split()]
    yield script, numbers
    script.kill()
    script.wait()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_script_that_is_killed(held, sign):
    script, numbers = held
    assert all(map(alive, numbers))
    script.send_signal(sign)
    script.wait(10)
    assert all(map(has_ended, numbers))


def test_nothing_outlives_a_reaper_that_is_killed(held):
    """Its orphans go to nobody who would end them: they are found by their mark."""
    script, numbers = held
    os.kill(numbers[0], signal.SIGKILL)
    assert script.wait(10) == 0
    assert all(map(has_ended, numbers))


def test_the_next_run_ends_what_is_left_where_everything_was_killed_at_once(held, tmp_path):
    from xmcbench.processes.process_tree import kill_orphans

    script, numbers = held
    other = {**os.environ, MARK: f"1:{script.pid}:1:of another container"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=other) as stranger:
        kill_orphans()
        assert all(map(alive, numbers))  # their supervisor lives
        chain = dict.fromkeys((script.pid, psutil.Process(numbers[0]).ppid(), *numbers[:2]))
        for process in chain:
            os.kill(process, signal.SIGSTOP)
        for process in reversed(chain):
            os.kill(process, signal.SIGKILL)
        script.wait(10)
        assert alive(numbers[2])
        kill_orphans()
        assert all(map(has_ended, numbers))
        assert alive(stranger.pid)
        stranger.communicate(b"\n")


def test_a_look_that_had_to_wait_for_a_core_is_soon_followed_by_the_next(run, monkeypatch):
    looks = []

    def waits(pid):
        time.sleep(0.1)
        looks.append(pid)
        return 1

    monkeypatch.setattr("xmcbench.processes.supervisor._tree_memory", waits)
    run("import time; time.sleep(1)")
    assert len(looks) > 2


def test_memory_beyond_the_limit_ends_it(run, tmp_path):
    ending = run("x = bytearray(400 << 20); import time; time.sleep(30)", memory_limit_bytes=200 << 20)
    assert ending.over_memory
    assert "out of memory" in ending.reason


def test_an_exception_here_leaves_nobody_behind(run, monkeypatch):
    def interrupt(pid):
        raise KeyboardInterrupt

    monkeypatch.setattr("xmcbench.processes.supervisor._tree_memory", interrupt)
    before = {*psutil.Process().children(recursive=True)}
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(60)")
    assert {*psutil.Process().children(recursive=True)} <= before


def test_where_no_process_can_be_started(tmp_path, monkeypatch):
    """The log can be written, so that is not what is said."""

    def refuse(*_, **__):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("xmcbench.processes.forkserver.subprocess.Popen", refuse)
    with pytest.raises(XmcbenchError, match="no process can be started: Resource temporarily unavailable"):
        Supervised("json.tool", [], tmp_path / "log", {}, tmp_path / "result")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write .*log"):
        Supervised("json.tool", [], tmp_path / "file" / "log", {}, tmp_path / "result")


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
