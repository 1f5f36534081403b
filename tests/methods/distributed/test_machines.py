"""Machines that work together, and rows of a file that all of their processes compute."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from xmcbench import Artifacts, MethodError, UsageError
from xmcbench.methods.dense.vectors import map_array, temporary_vectors
from xmcbench.methods.distributed import processes
from xmcbench.methods.distributed.machines import Machines, alone
from xmcbench.methods.distributed.processes import run_in_processes, write_rows

TOLD = {"GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}


def test_the_place_of_a_process(monkeypatch):
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    found = Machines.here()
    assert found == Machines(2, 1, "first", 29501)
    assert found.environment(2, 4) == {
        "RANK": "6",
        "LOCAL_RANK": "2",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "first",
        "MASTER_PORT": "29501",
    }
    for name in (*found.environment(2, 4), "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.setenv(name, "")  # put back afterwards
    found.join(2, 4)
    assert (os.environ["RANK"], "TORCHELASTIC_USE_AGENT_STORE" in os.environ) == ("6", False)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GROUP_RANK", None, "GROUP_RANK is not set"),
        ("GROUP_RANK", "one", "GROUP_RANK = 'one' is not a number"),
        ("GROUP_RANK", "2", "GROUP_RANK = 2 must be below the number of machines, 2"),
        ("GROUP_WORLD_SIZE", "many", "GROUP_WORLD_SIZE = 'many' is not a number"),
        ("MASTER_ADDR", None, "MASTER_ADDR is not"),
        ("MASTER_PORT", "", "MASTER_PORT is not set"),
        ("LOCAL_WORLD_SIZE", "2", "torchrun started 2 commands on this machine"),
    ],
)
def test_an_environment_that_makes_no_sense(monkeypatch, name, value, message):
    for variable, told in TOLD.items():
        monkeypatch.setenv(variable, told)
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message) as raised:
        Machines.here()
    assert raised.value.hint


def test_alone_torchrun_is_not_heard(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    with alone():
        assert "LOCAL_RANK" not in os.environ
    assert os.environ["LOCAL_RANK"] == "0"


class Killed:
    """Rows of which the second process is killed."""

    def write(self, out, share, count, device):
        if share:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


def fail(local, message):
    raise ValueError(message)


@pytest.fixture
def two_machines():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [Machines(2, number, "127.0.0.1", port) for number in range(2)]


def test_a_killed_process_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setitem(processes.WORTHWHILE, "cpu", 0)
    before = set(psutil.Process().children(recursive=True))
    shape, dtype = (4, 2), np.dtype(np.float32)
    with (
        pytest.raises(MethodError, match="a process ended while embedding: .*SIGKILL") as caught,
        temporary_vectors(Artifacts(tmp_path), shape, dtype, lambda out: write_rows(Killed(), out, 2, "cpu")),
    ):
        pass
    assert caught.value.hint == "out of memory? use fewer processes"
    assert not list(tmp_path.rglob("*.bin"))
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if "spawn_main" in " ".join(process.cmdline())]


def test_a_failing_process_is_one_error():
    with pytest.raises(MethodError, match=r"^a process failed while testing: ValueError: no such thing$"):
        run_in_processes(fail, ("no such thing",), 1, "testing")


def test_machines_that_work_on_different_cells(two_machines, tmp_path):
    """Each says so, instead of taking rows of something else."""
    owned = [np.array([0, 2]), np.array([1])]

    def take_part(machines):
        out = map_array(tmp_path / f"{machines.number}.bin", (3, 2), np.dtype(np.float32))
        with pytest.raises(MethodError, match="other machines: the machines do not work on the same cell"):
            processes.exchange(machines, out, owned, f"cell {machines.number}")
        return out.tolist()

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(take_part, two_machines)] == [[[0.0, 0.0]] * 3] * 2


def test_machines_with_other_processes_do_not_share_the_same_way():
    shape, dtype, owned = (4, 2), np.dtype(np.float32), [np.array([0, 2]), np.array([1, 3])]
    others = [
        ((5, 2), dtype, owned, "rows"),
        (shape, np.dtype(np.float16), owned, "rows"),
        (shape, dtype, [np.array([0, 2, 1]), np.array([3])], "rows"),
        (shape, dtype, [np.array([0, 1]), np.array([2, 3])], "rows"),
        (shape, dtype, owned, "other rows"),
    ]
    first = processes._summary(shape, dtype, owned, "rows")
    assert len({first, *(processes._summary(*other) for other in others)}) == 6
    assert processes._summary(shape, dtype, [rows.copy() for rows in owned], "rows") == first


@pytest.mark.parametrize("number", [0, 1])
def test_a_machine_that_nobody_joins(two_machines, tmp_path, monkeypatch, number):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # put back afterwards
    map_array(tmp_path / "rows", (3, 2), np.dtype(np.float32))
    owned = [np.array([0, 2]), np.array([1])]
    with pytest.raises(MethodError, match="another machine did not do the same within 0.01 minutes") as caught:
        processes._exchange(0, two_machines[number], tmp_path / "rows", (3, 2), np.dtype(np.float32), owned, "r", 0.6)
    assert "runs folders" in caught.value.hint


def test_no_rows_and_one_process():
    class Alone:
        def write(self, out, share, count, device):
            assert (share, count, device) == (0, 1, "cpu")
            out[:] = 1

    for count, several in ((0, 3), (2, 1), (2, 3)):
        out = np.zeros((count, 2), np.float32)
        write_rows(Alone(), out, several, "cpu")
        assert out.all()
