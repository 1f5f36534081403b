"""Exact search at a large size: 100,000 queries, 1,000,000 items of 384 dimensions, the 100 best of each.

The vectors are files that are mapped, as embeddings are. The bar is a peak memory of 6 GiB, whatever their type. The
alternative, for a tenth of the queries, is FAISS's flat index, which holds a copy of the items. The
benchmark takes about 15 minutes on two cores.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the peak memory of a process is in KiB on Linux only"),
    pytest.mark.timeout(7200),
]

QUERIES, ITEMS, WIDTH, K = 100_000, 1_000_000, 384, 100
BAR_GIB = 6

#: Searches and prints seconds, the number of full rows, and the peak memory in GiB.
OURS = """
import json, resource, sys, time
import numpy as np
from xmcbench.methods.dense.search import top_k_batches
queries, items = (np.load(path, mmap_mode="r") for path in sys.argv[1:3])
queries, begin, full = queries[: int(sys.argv[3])], time.perf_counter(), 0
for found in top_k_batches(queries, items, int(sys.argv[4]), exact_up_to=len(items)):
    full += int((found.indices >= 0).all(axis=1).sum())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([time.perf_counter() - begin, full, peak]))
"""
FAISS = """
import json, resource, sys, time
import faiss
import numpy as np
queries, items = (np.load(path, mmap_mode="r") for path in sys.argv[1:3])
queries, begin = queries[: int(sys.argv[3])], time.perf_counter()
index = faiss.IndexFlatIP(items.shape[1])
index.add(np.ascontiguousarray(items, np.float32))
_, found = index.search(np.ascontiguousarray(queries, np.float32), int(sys.argv[4]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([time.perf_counter() - begin, int((found >= 0).all(axis=1).sum()), peak]))
"""


def measure(code, *arguments):
    """Seconds, full rows and peak GiB of a process."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_exact_search_of_a_million_items(benchmark, tmp_path, kind):
    rng = np.random.default_rng(0)
    paths = tmp_path / "queries.npy", tmp_path / "items.npy"
    for path, rows in zip(paths, (QUERIES, ITEMS), strict=True):
        out = np.lib.format.open_memmap(path, "w+", kind, (rows, WIDTH))
        for start in range(0, rows, 50_000):
            block = rng.standard_normal((min(50_000, rows - start), WIDTH), np.float32)
            out[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
        out.flush()
    few = QUERIES // 10
    theirs = measure(FAISS, *paths, few, K)
    ours = measure(OURS, *paths, few, K)
    whole = benchmark.pedantic(measure, (OURS, *paths, QUERIES, K), rounds=1)
    benchmark.extra_info.update(
        type=kind,
        seconds=round(whole[0], 1),
        peak_gib=round(whole[2], 2),
        faiss_peak_gib=round(theirs[2], 2),
        ratio_at_a_tenth=round(theirs[0] / ours[0], 2),
    )
    print(benchmark.extra_info)
    assert (whole[1], ours[1], theirs[1]) == (QUERIES, few, few)
    assert whole[2] <= BAR_GIB
