"""Cells on a Ray cluster of two nodes on this machine: as here, whatever is killed. Run by `tox -e ray`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from xmcbench.api import Options, run
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store, as_json
from xmcbench.runner.execution import execute
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.place import Place
from xmcbench.runner.plan import plan
from xmcbench.setting import Setting
from xmcbench.storage.cache import cache_root

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

LEARNER = """
import os, time
import numpy as np
import beside
from xmcbench import Method, TopK

def note(*words):
    with open(os.environ["NOTED"], "a") as stream:
        print(*words, file=stream)

class Plain(Method):
    sleep: float = 0.0

    def fit(self, raw_X, raw_Y, pairs=None):
        time.sleep(self.sleep)
        self.labels = len(raw_Y)

    def predict(self, raw_X, k=100):
        note(beside.NAME, self.seed)
        scores = np.random.RandomState(self.seed).rand(len(raw_X), self.labels)
        return TopK.from_scores(scores + self.pretrained.get("scores", 0), k)

class Learner(Plain):
    def pretrain(self, raw_X, raw_Y):
        note("pretrained", self.seed)
        time.sleep(0.5)
        return {"scores": np.random.RandomState(self.seed).rand(len(raw_Y))}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster of two nodes with a core each: the head, and one that a test may kill."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["NOTED"] = str(tmp_path_factory.mktemp("noted") / "pretrained")
    from ray.cluster_utils import Cluster

    arguments = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=arguments)
    made.arguments = arguments
    made.add_node(**arguments)
    yield made
    made.shutdown()


@pytest.fixture
def connected(cluster):
    """The cluster, connected, with two nodes."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    if len([each for each in ray.nodes() if each["Alive"]]) < 2:
        cluster.add_node(**cluster.arguments)
    yield cluster
    ray.shutdown()


@pytest.fixture
def by_content(monkeypatch):
    """Nothing is read where the driver has it, as on machines without a common folder."""
    from xmcbench.runner.executors.ray import driver

    class Apart(driver.Ray):
        def __init__(self, *arguments):
            super().__init__(*arguments, in_place=False)

    monkeypatch.setattr(driver, "Ray", Apart)


@pytest.fixture
def noted():
    """The file in which methods note what they do."""
    file = Path(os.environ["NOTED"])
    file.write_text("")
    return file


@pytest.fixture
def learner(plugin, noted):
    plugin('NAME = "predicted"', "beside.py")
    return plugin(LEARNER)


@pytest.fixture
def there(tiny, learner, tmp_path):
    """Run cells of the plug-in on the cluster; returns their records."""

    def run(*settings, watch=lambda _: None, **grid):
        store = Store(tmp_path / "runs")
        made = plan(requests_of([Grid([str(tiny)], settings, **grid)]), Registry([learner]), store)
        records = execute(made, Place(store, on="ray"), watch=watch)
        assert [each.status for each in records] == ["ok"] * len(made.cells)
        assert len([*store.root.glob("records/*/*/*.json")]) == len(made.cells)
        assert not [*store.root.rglob("*.claim*"), *store.root.rglob(".*.tmp")]
        assert not cells()
        return records

    return run


#: The name that Ray gives to a process that runs our function.
CARRIES = "ray::carry_out"
EZ, HALF, FULL = Setting.of("ez"), Setting.of("fs", 0.5), Setting.of("full")


def result(record):
    """A record without what was measured."""
    values = as_json(record)
    for name in ("measured", "sha256"):
        values.pop(name, None)
    values["environment"]["compute"].pop("threads")
    return values


def files(runs, kind):
    return {path.relative_to(runs).as_posix(): path.read_bytes() for path in runs.glob(f"{kind}/**/*.npz")}


def artifacts(runs):
    return {path.parent.relative_to(runs) for path in runs.glob("artifacts/*/*/cost.json")}


def cells():
    """The processes of cells on the nodes that are there."""
    found = psutil.process_iter(["cmdline", "environ"])
    workers = [each for each in found if "xmcbench.runner.worker" in (each.info["cmdline"] or [])]
    return [each for each in workers if (each.info["environ"] or {}).get("NOTED") == os.environ["NOTED"]]


WANTED = {"dataset": "lf-debian-2k", "setting": "fs", "ratio": 0.01, "methods": ["tfidf", "bm25", "xr-linear"]}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The runs folder of the cells on this machine, and their records."""
    runs = tmp_path_factory.mktemp("here")
    return runs, run(**WANTED, options=Options(runs=runs))


@pytest.mark.parametrize("where", ["in_place", "by_content"])
def test_results_are_those_of_this_machine(connected, here, where, request, tmp_path):
    if where == "by_content":
        request.getfixturevalue(where)
    runs, expected = here
    there = run(**WANTED, options=Options(runs=tmp_path, on="ray"))
    assert len(there) == 3
    assert there.ok
    assert [result(each) for each in there] == [result(each) for each in expected]
    for kind in ("predictions", "ranks", "subsets"):
        assert files(tmp_path, kind) == files(runs, kind)
    assert artifacts(tmp_path) == artifacts(runs)
    assert (cache_root() / "received").exists() == (where == "by_content")
    assert not [*tmp_path.rglob("*.tmp")]


@pytest.mark.usefixtures("connected", "by_content")
def test_a_pretraining_travels_between_nodes(there, noted):
    first, *others = there(EZ, HALF, FULL, methods=["learner"], overrides={"learner": {"sleep": 2}})
    lines = noted.read_text().splitlines()
    assert sorted(lines) == ["predicted 0"] * 3 + ["pretrained 0"]
    assert [bool(each.measured.reused_s) for each in (first, *others)] == [False, True, True]
    assert max(each.measured.neighbors for each in (first, *others)) == 1


def test_a_killed_worker(connected, there, noted, capsys):
    killed = []

    def watch(running):
        if not killed and any(each.report and each.report.phase == "fit" for each in running):
            worker = next(
                each for each in psutil.process_iter(["cmdline"]) if CARRIES in (each.info["cmdline"] or [""])
            )
            worker.kill()
            killed.append(worker)

    there(EZ, methods=["plain"], seeds=range(4), overrides={"plain": {"sleep": 2}}, watch=watch)
    assert killed
    assert "was lost and is run again" in capsys.readouterr().err
    assert sorted(noted.read_text().split("\n")[:-1]) == [f"predicted {seed}" for seed in range(4)]


def test_a_killed_node(connected, there, noted, capsys):
    killed = []

    def watch(running):
        if not killed and sum(bool(each.report and each.report.phase == "fit") for each in running) == 2:
            (other,) = connected.worker_nodes
            connected.remove_node(other, allow_graceful=False)
            killed.append(other)

    there(EZ, methods=["plain"], seeds=range(3), overrides={"plain": {"sleep": 4}}, watch=watch)
    assert killed
    assert "was lost and is run again" in capsys.readouterr().err


def test_drivers_that_are_interrupted_killed_and_two_at_once(cluster, tiny, learner, noted, tmp_path):
    settings = ["--setting", "ez", "--methods", "plain", "--seed", "0,1,2,3,4,5", "--set", "plain.sleep=1"]
    words = [sys.executable, "-m", "xmcbench", "run", "--dataset", tiny, *settings, "--plugin", learner, "--on", "ray"]
    # Ray names this machine by its address in the network, which tests otherwise do not reach.
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": ""}
    runs = tmp_path / "runs"

    def start():
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*map(str, words)], cwd=tmp_path, env=environment, **pipes)

    def finished():
        return {path: path.stat().st_mtime_ns for path in runs.glob("records/*/*/*.json")}

    def after(records, process):
        while len(finished()) < records and process.poll() is None:
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()[1]
        return process

    def gone():
        deadline = time.monotonic() + 60
        while cells() and time.monotonic() < deadline:
            time.sleep(0.1)
        return not cells()

    interrupted = after(1, start())
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=120)
    assert interrupted.returncode == 130, err
    assert gone()
    kept = finished()
    assert 1 <= len(kept) < 6
    killed = after(len(kept) + 1, start())
    killed.kill()
    killed.communicate()
    assert gone()
    both = [start(), start()]
    for process in both:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert len(finished()) == 6
    assert {path: finished()[path] for path in kept} == kept
    assert not [*runs.rglob("*.claim*"), *runs.rglob(".*.tmp")]
    assert gone()
