"""Processes that are forked from one that has imported what they need: what they run, and that none is left."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from xmcbench.processes import forkserver
from xmcbench.processes.forkserver import ForkServer
from xmcbench.processes.supervisor import Supervised, wait

pytestmark = pytest.mark.skipif(not forkserver.AVAILABLE, reason="processes are not forked on this system")

MODULE = """
import json, os, pathlib, signal, sys, tempfile
told = {"imported": "numpy" in sys.modules, "argv": sys.argv[1:], "TOLD": os.environ.get("TOLD"), "name": __name__}
told |= {"tmp": tempfile.gettempdir(), "mark": "XMCBENCH_SUPERVISED" in os.environ, "stdin": sys.stdin.read()}
told |= {"files": len(os.listdir("/proc/self/fd")), "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, []))}
told |= {"folder": os.getcwd()}
told |= {"leads": os.getsid(0) == os.getpid(), "term": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL}
import numpy, random
drawn = {"numpy": numpy.random.random(), "random": random.random()}
print(json.dumps([told, drawn]), flush=True)
print("to stderr", file=sys.stderr, flush=True)
pathlib.Path(sys.argv[1]).touch()
"""

#: A process that forks, without a new program, into a session of its own, and tells the numbers of all three.
FORKS = """
import os, pathlib, sys, time
child = os.fork()
if not child:
    os.setsid()
    time.sleep(600)
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(f"{os.getppid()} {os.getpid()} {child}")
path.with_suffix(".new").replace(path)
time.sleep(600)
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "module_in_fork.py").write_text(MODULE)
    (tmp_path / "module_that_forks.py").write_text(FORKS)
    (tmp_path / "module_that_looks.py").write_text("import tempfile; tempfile.gettempdir()")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.fixture
def server(environment):
    made = ForkServer(["numpy", "no_such_module", "module_that_looks"], environment)
    yield made
    made.end()


def run(tmp_path, environment, server):
    """Run the module; what it said of itself, and what it drew."""
    log, result = tmp_path / "logs" / "x.log", tmp_path / "result"
    process = Supervised("module_in_fork", [str(result)], log, environment, result, 60, server=server)
    try:
        while (ending := process.look()) is None:
            wait([process], 0.05)
    finally:
        process.end()
    assert ending.returncode == 0, log.read_text()
    first, second = log.read_text().splitlines()
    assert second == "to stderr"
    return json.loads(first)


def forks(tmp_path, server, environment):
    """Have a process forked that forks; it, and the numbers of its reaper, itself and its child."""
    numbers, log = tmp_path / "numbers", tmp_path / "log"
    numbers.unlink(missing_ok=True)
    log.touch()
    fork = server.start(["module_that_forks", str(numbers)], log, environment)
    deadline = time.monotonic() + 60
    while not numbers.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return fork, [int(number) for number in numbers.read_text().split()]


def have_ended(pids):
    deadline = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(alive, pids))


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_runs_modules_as_any_process_does(tmp_path, environment, server, monkeypatch):
    monkeypatch.chdir(tmp_path)  # after the server has started
    told = {**environment, "TMPDIR": str(tmp_path), "TOLD": "yes"}
    plain, _ = run(tmp_path, told, None)
    assert plain | {"imported": True} == {
        "imported": True,
        "argv": [str(tmp_path / "result")],
        "TOLD": "yes",
        "name": "__main__",
        "tmp": str(tmp_path),
        "mark": True,
        "stdin": "",
        "folder": str(tmp_path),
        "files": 4,
        "blocked": 0,
        "leads": True,
        "term": True,
    }
    first, drawn = run(tmp_path, told, server)
    assert first == plain | {"imported": True}
    second, drawn_again = run(tmp_path, told, server)
    assert second == first
    assert drawn["numpy"] != drawn_again["numpy"]
    assert drawn["random"] != drawn_again["random"]
    assert server.is_running
    assert not server.is_busy


def test_a_fork_is_seen_as_a_process_is(tmp_path, environment, server):
    fork, numbers = forks(tmp_path, server, environment)
    assert fork.pid == numbers[0]
    assert fork.poll() is None
    assert server.is_busy
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.01)
    fork.terminate()
    assert fork.wait(30) == -signal.SIGTERM
    assert have_ended(numbers)
    assert fork.poll() == fork.wait() == -signal.SIGTERM
    assert not server.is_busy
    for late in (fork.terminate, fork.kill):
        late()


def test_a_reaper_that_is_killed_leaves_nothing(tmp_path, environment, server):
    """Forks of a process carry no mark of their own; the server, which adopts them, ends them. Others go on."""
    other, others = forks(tmp_path, server, environment)
    fork, numbers = forks(tmp_path, server, environment)
    fork.kill()
    assert fork.wait(30) == -signal.SIGKILL
    assert have_ended(numbers)
    assert all(map(alive, others))
    other.terminate()
    other.wait(30)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_gone_takes_its_forks_along_and_starts_no_more(tmp_path, environment, server, sign):
    fork, numbers = forks(tmp_path, server, environment)
    server._process.send_signal(sign)
    assert fork.wait(30) == -signal.SIGKILL
    assert have_ended(numbers)
    server._process.wait(30)
    assert not server.is_running
    with pytest.raises(OSError, match="pipe|reset"):
        server.start(["module_in_fork"], tmp_path / "log", environment)
    assert not run(tmp_path, environment, server)[0]["imported"], "it is started from scratch"


def test_one_that_hangs_is_killed_with_its_server(tmp_path, environment, server):
    os.kill(server._process.pid, signal.SIGSTOP)
    (tmp_path / "log").touch()
    fork = server.start(["module_in_fork", str(tmp_path / "result")], tmp_path / "log", environment)
    assert fork.pid is None
    fork.kill()
    assert fork.wait(30) == -signal.SIGKILL


def test_one_that_is_not_wanted_anymore_ends_at_once(tmp_path, environment, server):
    """Also where nobody knows its number yet."""
    os.kill(server._process.pid, signal.SIGSTOP)
    (tmp_path / "log").touch()
    fork = server.start(["module_that_forks", str(tmp_path / "numbers")], tmp_path / "log", environment)
    fork.terminate()
    os.kill(server._process.pid, signal.SIGCONT)
    assert fork.wait(30) == -signal.SIGTERM


def test_one_that_cannot_be_started_leaves_no_socket_open(environment, monkeypatch):
    """An open one would be a warning, which is an error here."""
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        ForkServer([], environment)
    assert len(os.listdir("/proc/self/fd")) == before


def test_ended_it_leaves_nothing(tmp_path, environment, server):
    _, numbers = forks(tmp_path, server, environment)
    server.end()
    assert have_ended([server._process.pid, *numbers])
    server.end()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_it_does_not_outlive_who_made_it(environment, sign):
    code = "import os, time; from xmcbench.processes.forkserver import ForkServer; server = ForkServer([], os.environ);"
    code += "print(server._process.pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as script:
        number = int(script.stdout.readline())
        script.send_signal(sign)
    assert have_ended([number])
