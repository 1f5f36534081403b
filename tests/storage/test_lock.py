import errno
import fcntl
import threading
from contextlib import closing
from pathlib import Path

import pytest

from xmcbench.errors import StorageError
from xmcbench.storage.locks import exclusive, hold_shared


def free(path):
    """Try the lock; False where somebody holds it."""
    with exclusive(path, wait=False) as claim:
        return claim.held


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "x.lock"


def test_one_alone(path):
    with exclusive(path) as claim:
        assert claim.held
        assert not free(path)
        with exclusive(path, wait=False) as other:
            assert not other.held
        assert not free(path)  # who did not get it gives nothing back
    assert free(path)


def test_many_together_and_nobody_alone_beside_them(path):
    with closing(hold_shared(path)):
        with closing(hold_shared(path)):
            assert not free(path)
        assert not free(path)
    assert free(path)


@pytest.fixture
def waiting(path):
    """Something that waits for the lock in a thread of its own; it is joined when the test ends."""
    threads = []

    def start(hold):
        got, leave = threading.Event(), threading.Event()

        def wait():
            with hold(path):
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


@pytest.mark.parametrize("hold", [exclusive, lambda path: closing(hold_shared(path))], ids=["alone", "together"])
def test_who_waits_gets_it(path, waiting, hold):
    with exclusive(path):
        got, _ = waiting(hold)
        assert not got.wait(0.2)
    assert got.wait(20)


@pytest.mark.parametrize("hold", [exclusive, lambda path: closing(hold_shared(path))], ids=["alone", "together"])
def test_who_waited_for_a_file_that_was_removed_holds_the_one_that_is_there(path, waiting, hold):
    """Otherwise a third one would create the file again and hold it too."""
    with exclusive(path):
        got, leave = waiting(hold)
        assert not got.wait(0.2)
        path.unlink()
    assert got.wait(20)
    assert path.exists()
    assert not free(path)
    leave.set()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    for hold in (hold_shared, lambda path: exclusive(path).__enter__()):
        with pytest.raises(StorageError, match="cannot write"):
            hold(tmp_path / "file" / "x.lock")


def test_a_store_of_others_can_be_used(path, monkeypatch):
    """Whoever may only read its lock holds it for reading."""
    with exclusive(path):
        pass
    path.chmod(0o444)
    opened = Path.open

    def refuse(self, mode="r", *values):
        if mode != "r":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, mode, *values)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        held = hold_shared(path)
        with pytest.raises(StorageError, match="Permission denied"), exclusive(path):
            pass
        with pytest.raises(StorageError, match="Permission denied"):
            hold_shared(path.with_name("none.lock"))
    with closing(held):
        assert not free(path)
    assert free(path)


def test_without_locks_nobody_waits(path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with exclusive(path) as one, exclusive(path, wait=False) as other, closing(hold_shared(path)):
        assert one.held
        assert other.held
