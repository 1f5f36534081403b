"""The search of a label tree on LF-Debian-20K, all pairs known, against the model as PECOS trains it.

The bar: at least 5 times faster. Training is outside the timed part.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from xmcbench import Artifacts, TopK, load_dataset, usable_cores
from xmcbench.methods.label_tree.ranker import LinearRanker
from xmcbench.methods.label_tree.tree import label_tree, quiet_pecos
from xmcbench.methods.sparse.analyzed import AnalyzedFeatures

DEPTH, BEAM = 100, 50
TREE = {"nr_splits": 16, "max_leaf_size": 100, "seed": 0}
BAR = 5


@pytest.mark.benchmark(group="the search of a label tree, LF-Debian-20K")
def test_search(benchmark, tmp_path):
    from pecos.xmc.xlinear.model import XLinearModel

    dataset = load_dataset("lf-debian-20k")
    features = AnalyzedFeatures.shared(Artifacts(tmp_path), dataset.train, dataset.labels, "sklearn", 2, 1.0)
    pairs = dataset.train_pairs()
    rows = np.flatnonzero(np.diff(pairs.indptr))
    X, asked = features.transform(dataset.train.take(rows)), features.transform(dataset.test)
    ranker = LinearRanker.train(X, pairs[rows], **TREE, cost=1.0, threshold=0.1)
    seen = np.unique(pairs.indices)
    known = pairs[rows][:, seen].tocsc().astype(np.float32)
    with quiet_pecos():
        options = {"solver_type": "L2R_L2LOSS_SVC_DUAL", "negative_sampling_scheme": "tfn", "threshold": 0.1}
        model = XLinearModel.train(X, known, C=label_tree(X, known, **TREE), nr_splits=TREE["nr_splits"], **options)
        begin = time.perf_counter()
        expected = model.predict(asked, beam_size=BEAM, only_topk=DEPTH, threads=usable_cores())
        plain = time.perf_counter() - begin
    found = benchmark.pedantic(ranker.search, args=(asked, DEPTH, BEAM), rounds=1)
    same = TopK.from_rows(expected.indptr, seen[expected.indices], expected.data, DEPTH)
    assert np.array_equal(found.indices, same.indices)
    assert np.array_equal(found.scores, same.scores)
    ratio = plain / benchmark.stats.stats.max
    print(f"\n{ratio:.1f} times as fast: {benchmark.stats.stats.max:.2f} s, the trained model {plain:.2f} s")
    assert ratio >= BAR
