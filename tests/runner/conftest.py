"""A run in the process of the tests: cells and scoring take a fraction of the time of processes of their own."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import Ending
from xmcbench.records import Store
from xmcbench.runner import worker
from xmcbench.runner.execution import execute
from xmcbench.runner.executors import local, process
from xmcbench.runner.executors.process import Servers
from xmcbench.runner.plan import plan
from xmcbench.runner.rows import Request
from xmcbench.runner.target import Limits, Target
from xmcbench.setting import Setting

CHANCE = """
    import numpy as np
    from xmcbench import Method, TopK

    class Chance(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.random.RandomState(1).rand(len(raw_X), self.labels), k)
"""


@pytest.fixture(scope="session")
def landlock():
    """True where the kernel of this machine hides files."""
    code = "from pathlib import Path; from xmcbench.runner.isolation import hide; print(hide([Path('/none')]))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout.strip() == "True"


@pytest.fixture
def sealed(landlock):
    """Skip where the kernel hides nothing."""
    if not landlock:
        pytest.skip("the kernel has no Landlock, so that a cell can read every file of the user")


@pytest.fixture
def chance(plugin):
    """A plug-in with a method that draws its scores."""
    return plugin(CHANCE)


@pytest.fixture
def at_hand(monkeypatch, scored_here):
    """Cells and scoring run here; what would seal this process is noted instead: ``calls``, ``hidden``, ``needed``."""
    noted = SimpleNamespace(calls=[], hidden=[], needed=[], kernel=True, ending=Ending(0, False, False, 1))

    def hide(hidden, needed):
        noted.calls.append("hide")
        noted.hidden, noted.needed = hidden, needed
        return noted.kernel

    class Supervised:
        memory_bytes, pid = 0, os.getpid()

        def __init__(self, module, arguments, log, environment, result, time_limit_s, memory_limit_bytes, server):
            noted.module, noted.environment = module, environment
            noted.files = [Path(arguments[0]), result]
            noted.limits = (time_limit_s, memory_limit_bytes)
            Path(log).parent.mkdir(parents=True, exist_ok=True)
            Path(log).touch()
            worker.main(arguments[0])

        def look(self):
            return noted.ending

        def end(self):
            return noted.ending

    class NoServers(Servers):
        def server(self, imports, environment):
            return None

    monkeypatch.setattr(worker, "_raise_oom_score", lambda: noted.calls.append("oom"))
    monkeypatch.setattr(worker.faulthandler, "enable", lambda: noted.calls.append("enable"))
    monkeypatch.setattr(worker, "seal", lambda: noted.calls.append("seal"))
    monkeypatch.setattr(worker.isolation, "hide", hide)
    monkeypatch.setattr(process, "Supervised", Supervised)
    monkeypatch.setattr(local, "Servers", NoServers)
    return noted


@pytest.fixture
def run_here(at_hand, tiny, tmp_path):
    """Run methods on the tiny dataset: a plug-in, the setting, and what else a request holds; the records."""

    def run(
        plugin, setting="ez", ratio=None, by=None, dataset=tiny, progress=None, force=False, limits=None, **request
    ):
        place = Target(Store(tmp_path / "runs"), limits or Limits())
        wanted = Request(str(dataset), Setting.of(setting, ratio, by), **request)
        made = plan([wanted], Registry([plugin]), place.store, force=force)
        return execute(made, place, progress or (lambda *_: None), force)

    return run
