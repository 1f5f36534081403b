"""A Ray cluster of two nodes on this machine, and cells of a plug-in on it."""

import os
import socket
from pathlib import Path

import pytest
from remains import cells

from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner.execution import execute
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.plan import plan
from xmcbench.runner.target import Target

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

class Cuda(Plain):
    needs = {"gpu": 1}
"""


def pytest_generate_tests(metafunc):
    """Failures are tried once, or five times with ``--faults full``."""
    if "trial" in metafunc.fixturenames:
        metafunc.parametrize("trial", range(5 if metafunc.config.getoption("--faults") == "full" else 1))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Two nodes with a core each: the head, and one that a test may kill. outside: the ``ray://`` address."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["NOTED"] = str(tmp_path_factory.mktemp("noted") / "pretrained")
    from ray.cluster_utils import Cluster

    arguments = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = Cluster(initialize_head=True, head_node_args={**arguments, "ray_client_server_port": port})
    made.arguments, made.outside = arguments, f"ray://127.0.0.1:{port}"
    made.add_node(**arguments)
    yield made
    made.shutdown()


@pytest.fixture
def connected(cluster, tmp_path, monkeypatch):
    """The cluster, connected, with two nodes.

    Ray's workers look for modules in the driver's folder first. In the checkout, xmcbench lies there without methods.
    """
    import ray

    monkeypatch.chdir(tmp_path)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    # The cluster takes a moment to notice that a node was killed, so `ray.nodes()` may still name it.
    if not cluster.worker_nodes:
        cluster.add_node(**cluster.arguments)
    yield cluster
    ray.shutdown()


@pytest.fixture
def by_content(monkeypatch):
    """Send all files by content, as to machines without a common folder."""
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
    """A plug-in of two files."""
    plugin('NAME = "predicted"', "beside.py")
    return plugin(LEARNER)


@pytest.fixture
def there(tiny, learner, tmp_path):
    """Run cells of the plug-in on the cluster; each ends once, and nothing but records and their files stays."""

    def run(*settings, watch=lambda _: None, status="ok", compute=None, **grid):
        store = Store(tmp_path / "runs")
        made = plan(requests_of([Grid([str(tiny)], settings, **grid)]), Registry([learner]), store)
        place = Target(store, on="ray", **({"compute": compute} if compute else {}))
        records = execute(made, place, watch=watch)
        assert [record.status for record in records] == [status] * len(made.cells), [
            record.reason for record in records
        ]
        assert len([*store.root.glob("records/*/*/*.json")]) == len(made.cells)
        assert not [*store.root.rglob("*.claim*"), *store.root.rglob(".*.tmp")]
        assert not cells()
        return records

    return run
