"""A training that makes many large arrays, with the settings of malloc that a cell has and with glibc's own.

The bar: Astec's classifiers, with vectors of its default length, are trained at least 1.2 times as fast.
"""

from __future__ import annotations

import textwrap

import pytest

from xmcbench.api import Options, run

BAR = 1.2
#: What glibc arrives at by itself once large arrays have been freed.
OWN = {"MALLOC_MMAP_THRESHOLD_": 2**25, "MALLOC_TRIM_THRESHOLD_": 2**26}
#: About as many labels as have a pair in LF-Debian-20K, and as many of them a document as Astec trains on.
PLUGIN = """
    import numpy as np
    from scipy.sparse import csr_matrix
    from xmcbench import Method, TopK

    class Classifiers(Method):
        title = "Classifiers"

        def fit(self, raw_X, raw_Y, pairs=None):
            from xmcbench.methods.astec.training import train_classifiers

            rng = np.random.default_rng(0)
            documents, labels = (rng.standard_normal((rows, 2048), dtype=np.float32) for rows in (2550, 14_000))
            documents /= np.linalg.norm(documents, axis=1, keepdims=True)
            near = rng.integers(0, len(labels), (len(documents), 100)).astype(np.int32)
            train_classifiers(
                documents, labels, csr_matrix((len(documents), len(labels)), dtype=np.float32), near,
                random_labels=10, scale=20.0, batch=255, epochs=1, rate=2e-4, dropout=0.5, seed=0, device="cpu",
            )
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.zeros((len(raw_X), self.labels)), k)
"""


@pytest.mark.benchmark(group="large arrays")
def test_training(benchmark, tmp_path, monkeypatch):
    plugin = tmp_path / "classifiers.py"
    plugin.write_text(textwrap.dedent(PLUGIN))
    measured = {}

    def train(name):
        options = Options(runs=tmp_path / name, plugins=[plugin])
        (record,) = run("lf-debian-2k", "ez", methods=["classifiers"], options=options)
        assert record.status == "ok", record.reason
        measured[name] = record.measured

    with monkeypatch.context() as own:
        for variable, size in OWN.items():
            own.setenv(variable, str(size))
        train("own")
    benchmark.pedantic(train, args=("ours",), rounds=1)
    benchmark.extra_info["ratio"] = ratio = measured["own"].wall_s["fit"] / measured["ours"].wall_s["fit"]
    peaks = {name: figures.peak_memory_bytes / 2**30 for name, figures in measured.items()}
    print(f"\n{ratio:.2f} times as fast; peak memory {peaks['ours']:.2f} GiB, {peaks['own']:.2f} GiB with glibc's own")
    assert ratio >= BAR
