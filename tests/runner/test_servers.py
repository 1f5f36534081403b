"""Servers from which the processes of cells are forked, and the imports beforehand."""

import os
import subprocess
import sys
import tempfile

import pytest

from xmcbench.processes import forkserver
from xmcbench.runner.executors import process
from xmcbench.runner.executors.process import Servers, modules_to_import, modules_to_preload


class Server:
    """A fork server that is not started."""

    def __init__(self, modules, environment):
        self.modules, self.environment, self.is_running, self.is_busy, self.ended = (
            modules,
            environment,
            True,
            False,
            False,
        )

    def end(self):
        self.ended, self.is_running = True, False


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(process, "ForkServer", Server)
    monkeypatch.setattr(process, "AVAILABLE", True)
    monkeypatch.setattr(process, "_MOST", 2)
    made = Servers()
    yield made
    made.end()


def test_one_server_for_the_same_imports_and_environment(pool, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first = pool.server(["a"], {"OMP_NUM_THREADS": "1", "TMPDIR": "/x", "CUDA_VISIBLE_DEVICES": "0"})
    assert first.modules == ["a"]
    assert first.environment == {"OMP_NUM_THREADS": "1", "TMPDIR": first.environment["TMPDIR"]}
    assert pool.server(["a"], {"OMP_NUM_THREADS": "1", "TMPDIR": "/y"}) is first
    assert pool.server(["a", "b"], {"OMP_NUM_THREADS": "1"}) is not first
    assert pool.server(["a"], {"OMP_NUM_THREADS": "2"}) is not first


def test_the_one_that_was_not_used_for_longest_makes_room(pool):
    first, second = pool.server(["a"], {}), pool.server(["b"], {})
    assert pool.server(["a"], {}) is first
    third = pool.server(["c"], {})
    assert (first.ended, second.ended, third.ended) == (False, True, False)
    first.is_busy = True
    fourth = pool.server(["d"], {})
    assert (first.ended, third.ended, fourth.ended) == (False, True, False)
    pool.end()
    assert first.ended
    assert fourth.ended


def test_one_that_is_gone_is_replaced(pool):
    first, second = pool.server(["a"], {}), pool.server(["b"], {})
    first.is_running = second.is_running = False
    replaced = pool.server(["a"], {})
    assert replaced is not first
    assert first.ended, "its process is waited for, and its sockets are closed"
    assert second.ended


def test_there_is_none_where_none_can_be(pool, monkeypatch):
    def fail(*_):
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(process, "ForkServer", fail)
    assert pool.server([], {}) is None
    monkeypatch.setattr(process, "ForkServer", Server)
    assert pool.server([], {}) is not None
    monkeypatch.setattr(process, "AVAILABLE", False)
    assert pool.server([], {}) is None


@pytest.mark.skipif(not forkserver.AVAILABLE, reason="processes are not forked on this system")
def test_what_imports_leave_behind_goes_with_the_servers(tmp_path, monkeypatch):
    """torch makes a folder torchinductor_USER when it is imported."""
    (tmp_path / "leaves.py").write_text("import tempfile\nfolder = tempfile.mkdtemp()\n")
    (tmp_path / "looks.py").write_text("import leaves, os\nprint(os.path.dirname(leaves.folder))\n")
    (tmp_path / "log").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    made = Servers()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    server = made.server(["leaves"], environment)
    server.start(["looks"], tmp_path / "log", environment).wait(60)
    (folder,) = (tmp_path / "temporary").iterdir()
    assert (tmp_path / "log").read_text().strip() == str(folder)
    made.end()
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_what_a_method_needs_and_takes_long_is_imported_before():
    always = modules_to_import([])
    assert always == modules_to_import(["numpy", "bm25s"])
    assert modules_to_import(["torch", "bm25s", "numba"]) == (*always, "numba", "torch")
    found = modules_to_import(["torch", "transformers"])
    assert found[: len(always) + 1] == (*always, "torch")
    assert all(module.startswith("transformers.") for module in found[len(always) + 1 :])


def test_what_looks_for_gpus_is_not_imported_before_a_fork_where_there_are_some():
    found = modules_to_import(["torch", "transformers", "numba"])
    assert modules_to_preload(found, has_gpu=False) == found
    assert modules_to_preload(found, has_gpu=True) == (*modules_to_import([]), "numba")


@pytest.mark.skipif(not forkserver.AVAILABLE, reason="processes are not forked on this system")
def test_imports_before_a_fork_start_no_thread_that_does_not_know_forks():
    """jemalloc's, which pyarrow brings, does."""
    modules = modules_to_import(process._SLOW)
    code = f"import importlib, os\nfor name in {modules}: importlib.import_module(name)\n"
    code += "print(*(open(f'/proc/self/task/{name}/comm').read().strip() for name in os.listdir('/proc/self/task')))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    names = said.stdout.split()
    assert len([name for name in names if name != "jemalloc_bg_thd"]) == 1, names


def test_a_cell_imports_before_its_method_is_fitted(run_here, plugin, tmp_path, monkeypatch):
    """A module that cannot be imported is left to the method."""
    (tmp_path / "slow_to_import.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(process._SLOW, "numpy", ("no_such_module", "slow_to_import"))
    made = plugin("""
        import sys
        from xmcbench import Method

        class Looks(Method):
            supervision = "unused"
            packages = {"numpy": "numpy"}
            def fit(self, raw_X, raw_Y, pairs=None):
                raise RuntimeError(f"imported: {'slow_to_import' in sys.modules}")
            def predict(self, raw_X, k=100): ...
    """)
    (record,) = run_here(made, methods=("looks",))
    assert record.reason.endswith("imported: True")
