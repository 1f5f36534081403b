"""Claims in folders that machines share, and locks of one machine."""

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from xmcbench.environment import machine
from xmcbench.errors import StorageError
from xmcbench.processes.process_tree import new_mark
from xmcbench.storage import locks
from xmcbench.storage.locks import DEAD_S, Claim, Heartbeat, exclusive, hold_shared, is_dead, now, sweep_claims
from xmcbench.storage.temporary import final_name

OWNER = """
import sys, time
from pathlib import Path
from xmcbench.storage.locks import Claim
with Claim(Path(sys.argv[1])) as claim:
    print(claim.held, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "x.claim"


def forge(path, where, mark, age_s=0.0):
    """A claim of somebody else."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"owner": f"{where}:{mark}", "host": "far", "pid": 7}))
    os.utime(path, (time.time() - age_s,) * 2)


def test_one_has_it_until_it_is_given_back(path):
    with Claim(path) as mine:
        assert mine.held
        assert mine.is_ours()
        with Claim(path) as other:
            assert not other.held
        assert path.exists()  # who did not get it gives nothing back
    assert list(path.parent.iterdir()) == []


def test_the_claim_of_a_killed_process_is_taken_at_once(path):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, path], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout.readline() == "True\n"
        with Claim(path) as other:
            assert not other.held
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert is_dead(path)
        with Claim(path) as other:
            assert other.held
    finally:
        owner.kill()
        owner.communicate()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(("age_s", "held"), [(0.0, False), (DEAD_S - 20, False), (DEAD_S + 20, True)])
def test_that_of_another_machine_is_dead_when_nobody_touches_it(path, age_s, held):
    forge(path, "another-machine", new_mark(), age_s)
    with Claim(path) as mine:
        assert mine.held == held
    assert path.exists() != held


def test_a_process_of_another_container_is_judged_by_the_age(path):
    space, pid, _, unique = new_mark().split(":")
    forge(path, machine(), f"1{space}:{pid}:1:{unique}")
    assert not is_dead(path)
    assert not is_dead(path, while_alive=True)
    os.utime(path, (0, 0))
    assert is_dead(path, while_alive=True)
    forge(path, machine(), "no mark")
    assert not is_dead(path)
    forge(path, machine(), f"{space}:{pid}:1:{unique}")  # the same number, another process
    assert is_dead(path)


def test_what_is_damaged_is_dead_after_a_while(path):
    path.parent.mkdir()
    path.write_text("{")
    assert not is_dead(path)
    os.utime(path, (0, 0))
    assert is_dead(path)


def test_it_is_touched_while_it_is_held(path, monkeypatch):
    monkeypatch.setattr(locks, "heartbeat", Heartbeat(0.01))
    with Claim(path):
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 20
        while is_dead(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_dead(path)


def test_who_was_stopped_for_long_has_lost_it(path, monkeypatch):
    monkeypatch.setattr(locks, "heartbeat", Heartbeat(0.01))
    with Claim(path) as mine:
        forge(path, "another-machine", new_mark())
        os.utime(path, (0, 0))
        time.sleep(0.1)
        assert path.stat().st_mtime == 0
        assert not mine.is_ours()
    assert json.loads(path.read_text())["host"] == "far"  # nothing of others is given back


def test_of_many_that_find_a_dead_one_one_has_it(path):
    ever = 0
    for _ in range(20):
        forge(path, "another-machine", new_mark(), DEAD_S * 2)
        start, taken = threading.Barrier(8, timeout=60), []

        def take(start=start, taken=taken):
            start.wait()
            with Claim(path) as mine:
                taken.append(mine.held)
                start.wait()

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(taken) <= 1
        ever += sum(taken)
        with Claim(path) as mine:
            assert mine.held
        assert not path.exists()
    assert ever


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError), Claim(tmp_path / "file" / "x.claim"):
        pass


@pytest.mark.parametrize("while_alive", [False, True])
def test_a_process_that_cannot_touch_its_claim_keeps_it_where_being_alive_is_enough(path, while_alive):
    forge(path, machine(), new_mark(), DEAD_S + 20)
    assert is_dead(path, while_alive) != while_alive
    with Claim(path, while_alive) as other:
        assert other.held != while_alive
    forge(path, "another-machine", new_mark(), DEAD_S + 20)
    assert is_dead(path, while_alive)


def test_who_asks_for_one_that_is_held_writes_nothing_into_the_folder(path, monkeypatch):
    """Many may ask, often, and the folder may be far away."""
    forge(path, machine(), new_mark())
    written = []
    monkeypatch.setattr(Claim, "_create", lambda self, path: written.append(path))
    with Claim(path, while_alive=True) as mine:
        assert not mine.held
    assert written == []


@pytest.mark.parametrize("name", ["x.claim.turn", "x.claim"])
@pytest.mark.parametrize(
    ("here", "alive", "age_s", "stays"),
    [
        (True, True, 0.0, True),
        (True, False, 0.0, False),
        (False, False, DEAD_S - 20, True),  # whether it is alive is not known here
        (False, True, DEAD_S + 20, False),
    ],
)
def test_what_a_killed_process_left_is_swept_and_nothing_else(path, name, here, alive, age_s, stays):
    space, pid, started, unique = new_mark().split(":")
    mark = f"{space}:{pid}:{started if alive else 1}:{unique}"
    left = path.with_name(name)
    forge(left, machine() if here else "another-machine", mark, age_s)
    sweep_claims(path.parent.parent, "*/*", re.compile("[^/]+/x"))
    assert [*path.parent.iterdir()] == ([left] if stays else [])


def test_the_clock_of_a_file_system(tmp_path, monkeypatch):
    (tmp_path / "before").touch()
    found = now(tmp_path)
    (tmp_path / "after").touch()
    assert (tmp_path / "before").stat().st_mtime <= found <= (tmp_path / "after").stat().st_mtime
    assert {file.name for file in tmp_path.iterdir()} == {"before", "after"}
    with monkeypatch.context() as patch:  # killed before it is removed
        patch.setattr(Path, "unlink", lambda *_: None)
        now(tmp_path)
    (left,) = {file.name for file in tmp_path.iterdir()} - {"before", "after"}
    assert final_name(left) == "", "the next sweep would remove it"
    monkeypatch.setattr(time, "time", lambda: 7.0)
    assert now(tmp_path / "nowhere") == 7.0


def free(lock_path):
    """Try the lock; False where somebody holds it."""
    with exclusive(lock_path, wait=False) as claim:
        return claim.held


@pytest.fixture
def lock_path(tmp_path):
    return tmp_path / "folder" / "x.lock"


def test_one_alone(lock_path):
    with exclusive(lock_path) as claim:
        assert claim.held
        assert not free(lock_path)
        with exclusive(lock_path, wait=False) as other:
            assert not other.held
        assert not free(lock_path)  # who did not get it gives nothing back
    assert free(lock_path)


def test_many_together_and_nobody_alone_beside_them(lock_path):
    with closing(hold_shared(lock_path)):
        with closing(hold_shared(lock_path)):
            assert not free(lock_path)
        assert not free(lock_path)
    assert free(lock_path)


@pytest.fixture
def waiting(lock_path):
    """Something that waits for the lock in a thread of its own; it is joined when the test ends."""
    threads = []

    def start(hold):
        got, leave = threading.Event(), threading.Event()

        def wait():
            with hold(lock_path):
                got.set()
                leave.wait(20)

        threads.append((threading.Thread(target=wait), leave))
        threads[-1][0].start()
        return got, leave

    yield start
    for thread, leave in threads:
        leave.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "hold", [exclusive, lambda lock_path: closing(hold_shared(lock_path))], ids=["alone", "together"]
)
def test_who_waits_gets_it(lock_path, waiting, hold):
    with exclusive(lock_path):
        got, _ = waiting(hold)
        assert not got.wait(0.2)
    assert got.wait(20)


@pytest.mark.parametrize(
    "hold", [exclusive, lambda lock_path: closing(hold_shared(lock_path))], ids=["alone", "together"]
)
def test_who_waited_for_a_file_that_was_removed_holds_the_one_that_is_there(lock_path, waiting, hold):
    """Otherwise a third one would create the file again and hold it too."""
    with exclusive(lock_path):
        got, leave = waiting(hold)
        assert not got.wait(0.2)
        lock_path.unlink()
    assert got.wait(20)
    assert lock_path.exists()
    assert not free(lock_path)
    leave.set()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    for hold in (hold_shared, lambda lock_path: exclusive(lock_path).__enter__()):
        with pytest.raises(StorageError, match="cannot write"):
            hold(tmp_path / "file" / "x.lock")


def test_a_store_of_others_can_be_used(lock_path, monkeypatch):
    """Whoever may only read its lock holds it for reading."""
    with exclusive(lock_path):
        pass
    lock_path.chmod(0o444)
    opened = Path.open

    def refuse(self, mode="r", *values):
        if mode != "r":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, mode, *values)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        held = hold_shared(lock_path)
        with pytest.raises(StorageError, match="Permission denied"), exclusive(lock_path):
            pass
        with pytest.raises(StorageError, match="Permission denied"):
            hold_shared(lock_path.with_name("none.lock"))
    with closing(held):
        assert not free(lock_path)
    assert free(lock_path)


def test_without_locks_nobody_waits(lock_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with exclusive(lock_path) as one, exclusive(lock_path, wait=False) as other, closing(hold_shared(lock_path)):
        assert one.held
        assert other.held
