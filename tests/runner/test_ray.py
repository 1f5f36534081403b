"""Cells on a Ray cluster of two nodes on this machine: as here, whatever is killed. Run by `tox -e ray`."""

import os

import psutil
import pytest

from xmcbench.api import Options, run
from xmcbench.records import as_json
from xmcbench.storage.cache import cache_root

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

LEARNER = """
import os, time
import numpy as np
import beside
from xmcbench import Method, TopK

class Plain(Method):
    sleep: float = 0.0

    def fit(self, raw_X, raw_Y, pairs=None):
        time.sleep(self.sleep)
        self.labels = len(raw_Y)

    def predict(self, raw_X, k=100):
        scores = np.random.RandomState(self.seed).rand(len(raw_X), self.labels)
        return TopK.from_scores(scores + self.pretrained.get("scores", 0), k)

class Learner(Plain):
    def pretrain(self, raw_X, raw_Y):
        with open(os.environ["NOTED"], "a") as stream:
            print(beside.NAME, self.seed, file=stream)
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
def learner(plugin):
    plugin('NAME = "learner"', "beside.py")
    return plugin(LEARNER)


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
    """The processes of cells that are there."""
    return [
        each for each in psutil.process_iter(["cmdline"]) if "xmcbench.runner.worker" in (each.info["cmdline"] or [])
    ]


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
