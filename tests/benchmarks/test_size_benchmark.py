"""Whole runs at the sizes of the paper's datasets: seconds by phase, and the peak memory of every process.

The datasets are synthetic (``xmcbench data synth --like``), with 100 words a text. The bars, on two cores:

* LF-Amazon-131K: TF-IDF and BM25 at most 4 GiB, XR-Linear with all pairs 12 GiB. An untrained encoder is reported.
* LF-Amazon-1M, at scales 0.1, 0.3 and 1: TF-IDF and BM25 at most 8 GiB and, at scale 1, 10 minutes. Reading, fitting
  and scoring grow no faster than the counts do; prediction includes the search, whose growth is reported.
* LF-Wikipedia-500K: reading it and drawing a few-shot subset at most 4 GiB.

It takes more than an hour and 20 GB of disk.

Exact search at a large size: 100,000 queries, 1,000,000 items of 384 dimensions, the 100 best of each.

The vectors are files that are mapped, as embeddings are. The bar is a peak memory of 6 GiB, whatever their type. The
alternative, for a tenth of the queries, is FAISS's flat index, which holds a copy of the items. It
takes about 15 minutes on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

from xmcbench.data.synthesis import imitate

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the peak memory of processes is in KiB on Linux only"),
    pytest.mark.timeout(7200),
]

SCALES = (0.1, 0.3, 1.0)
#: How much more than the counts a phase may grow, for the noise of a shared machine.
LINEAR = 1.25
#: GiB.
MEMORY_BAR = {"lf-amazon-131k": 4, "xr-linear": 12, "lf-amazon-1m": 8, "lf-wikipedia-500k": 4}
SECONDS_BAR = 600
UNTRAINED = ("--set", "sentbert.backbone=scratch:2x128", "--set", "sentbert.mlm_steps=0")

#: Runs a command and prints the largest peak among its processes, in KiB.
WATCHED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
DRAW = """
import sys
from pathlib import Path
from xmcbench import load_dataset
from xmcbench.setting import Setting, draw
dataset = load_dataset(Path(sys.argv[1]))
print(len(dataset.train), len(draw(dataset.train_pattern(), Setting.of("fs", 0.01), 0).pairs.indices))
"""


def watch(*command):
    """Seconds of a command, and the largest peak among its processes in GiB."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, sys.executable, *command], capture_output=True, text=True, check=True
    )
    return time.perf_counter() - begin, int(done.stdout) / 2**20


@pytest.fixture(scope="module")
def make_dataset(tmp_path_factory):
    """Makes a dataset once; the cache of datasets is that of these tests."""
    folder = tmp_path_factory.mktemp("sizes")
    made = {}

    def make(like, scale=1.0):
        if (like, scale) not in made:
            made[like, scale] = imitate(folder / f"{like}-{scale:g}", like, scale)
        return made[like, scale]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMCBENCH_CACHE", str(folder / "cache"))
        yield make


@pytest.fixture
def cell(tmp_path, capsys):
    """Runs a method on a dataset: seconds by phase and the peak in GiB, which are printed."""

    def run(folder, method, *words):
        runs = tmp_path / "runs" / folder.name
        read_s, read_gib = watch("-m", "xmcbench", "data", "verify", str(folder))
        known = {*runs.glob("records/**/*.json")}
        command = ["run", "--dataset", str(folder), "--methods", method, "--runs", str(runs), *words]
        whole_s, gib = watch("-m", "xmcbench", *command)
        (path,) = {*runs.glob("records/**/*.json")} - known
        measured = json.loads(path.read_text())["measured"]
        phases = {"read": read_s, **measured["wall_s"], "score and write": whole_s - sum(measured["wall_s"].values())}
        with capsys.disabled():
            said = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())
            print(f"\n{folder.name}, {method} {words[1]}: {said} s; {read_gib:.2f} GiB to read, {gib:.2f} to run")
        return phases, max(gib, read_gib)

    return run


@pytest.mark.benchmark(group="LF-Amazon-131K, synthetic")
def test_131k(benchmark, make_dataset, cell):
    folder, peaks = make_dataset("lf-amazon-131k"), {}

    def cells():
        for method in ("tfidf", "bm25"):
            peaks[method] = cell(folder, method, "--setting", "ez")[1]
        peaks["xr-linear"] = cell(folder, "xr-linear", "--setting", "full")[1]
        cell(folder, "sentbert", "--setting", "ez", *UNTRAINED)

    benchmark.pedantic(cells, rounds=1)
    benchmark.extra_info["peak_gib"] = peaks
    for method, peak in peaks.items():
        assert peak <= MEMORY_BAR.get(method, MEMORY_BAR["lf-amazon-131k"])


@pytest.mark.benchmark(group="LF-Amazon-1M, synthetic")
@pytest.mark.parametrize("method", ["tfidf", "bm25"])
def test_1m(benchmark, make_dataset, cell, method):
    found = {}

    def cells():
        for scale in SCALES:
            found[scale] = cell(make_dataset("lf-amazon-1m", scale), method, "--setting", "ez")

    benchmark.pedantic(cells, rounds=1)
    benchmark.extra_info["phases"] = {f"{scale:g}": phases for scale, (phases, _) in found.items()}
    for scale, larger in pairwise(SCALES):
        for phase in ("read", "fit", "score and write"):
            assert found[larger][0][phase] <= LINEAR * larger / scale * found[scale][0][phase]
    phases, peak = found[1.0]
    assert peak <= MEMORY_BAR["lf-amazon-1m"]
    assert sum(phases.values()) - phases["read"] <= SECONDS_BAR


@pytest.mark.benchmark(group="LF-Wikipedia-500K, synthetic")
def test_500k(benchmark, make_dataset, capsys):
    folder = make_dataset("lf-wikipedia-500k")
    peaks = []
    for what in ("read and drawn", "again"):
        command = ("-c", DRAW, str(folder))
        seconds, gib = watch(*command) if peaks else benchmark.pedantic(watch, args=command, rounds=1)
        peaks.append(gib)
        with capsys.disabled():
            print(f"\n{folder.name}: {what} in {seconds:.1f} s, {gib:.2f} GiB")
    assert max(peaks) <= MEMORY_BAR["lf-wikipedia-500k"]


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
