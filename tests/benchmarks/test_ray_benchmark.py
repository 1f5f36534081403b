"""Many short cells on a Ray cluster: which share of the time is the engine's, and whether it grows with the cells.

The cluster has eight nodes with a core each, all on this machine, and a cell sleeps for a second. A slot is busy from
when the process of a cell starts until it has ended; the rest of the time is that of Ray and of the driver.
The bar: a cell among 1,000 takes at most 1.25 times as long as one among 100. Run by `tox -e ray`.
"""

from __future__ import annotations

import time

import pytest

from xmcbench.api import Options, run

NODES = 8
CELLS = (100, 300, 1000)
BAR = 1.25

SLEEPER = """
import time
import numpy as np
from xmcbench import Method, TopK

class Sleeper(Method):
    def fit(self, raw_X, raw_Y, pairs=None):
        time.sleep(1)

    def predict(self, raw_X, k=100):
        return TopK.from_rows(np.zeros(len(raw_X) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), k)
"""


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    arguments = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=arguments)
    for _ in range(NODES - 1):
        made.add_node(**arguments)
    monkeypatch.chdir(tmp_path)  # Ray's workers would take the checkout, which lacks the methods
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.ray
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.benchmark(group="many cells on a Ray cluster")
@pytest.mark.usefixtures("cluster")
def test_many_cells(benchmark, tiny, plugin, tmp_path):
    path, seconds = plugin(SLEEPER), {}

    def cells(number):
        begin = time.perf_counter()
        options = Options(runs=tmp_path / str(number), plugins=(path,), on="ray")
        made = run(tiny, "ez", methods=["sleeper"], seed=range(number), options=options)
        wall = time.perf_counter() - begin
        assert made.ok
        assert len(made) == number
        busy = sum(record.measured.total_s for record in made)
        asleep = sum(record.measured.wall_s["fit"] for record in made)
        seconds[number] = wall / number
        shares = [asleep, busy - asleep, NODES * wall - busy]
        parts = zip(shares, ("asleep", "in the processes of the cells", "engine"), strict=True)
        said = ", ".join(f"{share / (NODES * wall):.0%} {what}" for share, what in parts)
        print(f"\n{number:,} cells: {wall:.0f} s, {wall / number:.2f} s a cell; the {NODES} slots are {said}")

    cells(8)  # the workers of Ray have started
    for number in CELLS[:-1]:
        cells(number)
    benchmark.pedantic(cells, args=(CELLS[-1],), rounds=1)
    benchmark.extra_info["growth"] = growth = seconds[CELLS[-1]] / seconds[CELLS[0]]
    print(f"a cell among {CELLS[-1]:,} takes {growth:.2f} times as long as one among {CELLS[0]}")
    assert growth <= BAR
