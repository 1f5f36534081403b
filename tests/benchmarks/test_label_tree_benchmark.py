"""Label trees on LF-Debian-20K, all pairs known.

The bars: PECOS's ranker searches at least 5 times as fast as the model as PECOS trains it, and the SVMs below ten nodes
of the tree take a fourth of the time that scikit-learn's LinearSVC takes for them, at most.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from xmcbench import Artifacts, TopK, load_dataset, usable_cores
from xmcbench.methods.label_tree.linear import linear_svms
from xmcbench.methods.label_tree.tree import label_tree
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.xr_linear import PecosRanker, _label_tree, _quiet

DEPTH, BEAM = 100, 50
TREE = {"nr_splits": 16, "max_leaf_size": 100, "seed": 0}
SEARCH_BAR, TRAINING_BAR = 5, 4


def read_features(folder):
    """The features and pairs of the training instances, and the features of the others."""
    dataset = load_dataset("lf-debian-20k")
    features = TfidfFeatures.shared(Artifacts(folder), dataset.train, dataset.labels, "sklearn", 2, 1.0)
    pairs = dataset.train_pairs()
    rows = np.flatnonzero(np.diff(pairs.indptr))
    return features.transform(dataset.train.take(rows)), pairs[rows], features.transform(dataset.test)


@pytest.mark.benchmark(group="the search of a label tree, LF-Debian-20K")
def test_search(benchmark, tmp_path):
    model_kind = pytest.importorskip("pecos.xmc.xlinear.model").XLinearModel
    X, pairs, asked = read_features(tmp_path)
    ranker = PecosRanker.train(X, pairs, **TREE, cost=1.0, threshold=0.1)
    seen = np.unique(pairs.indices)
    known = pairs[:, seen].tocsc().astype(np.float32)
    with _quiet():
        options = {"solver_type": "L2R_L2LOSS_SVC_DUAL", "negative_sampling_scheme": "tfn", "threshold": 0.1}
        chain = _label_tree(X, known, *TREE.values())
        model = model_kind.train(X, known, C=chain, nr_splits=TREE["nr_splits"], **options)
        begin = time.perf_counter()
        expected = model.predict(asked, beam_size=BEAM, only_topk=DEPTH, threads=usable_cores())
        plain = time.perf_counter() - begin
    found = benchmark.pedantic(ranker.search, args=(asked, DEPTH, BEAM), rounds=1)
    same = TopK.from_rows(expected.indptr, seen[expected.indices], expected.data, DEPTH)
    assert np.array_equal(found.indices, same.indices)
    assert np.array_equal(found.scores, same.scores)
    ratio = plain / benchmark.stats.stats.max
    print(f"\n{ratio:.1f} times as fast: {benchmark.stats.stats.max:.2f} s, the trained model {plain:.2f} s")
    assert ratio >= SEARCH_BAR


@pytest.mark.benchmark(group="the SVMs of a label tree, LF-Debian-20K")
def test_training(benchmark, tmp_path):
    svm = pytest.importorskip("sklearn.svm")
    X, pairs, _ = read_features(tmp_path)
    positives = pairs[:, np.unique(pairs.indices)].tocsc().astype(np.float32)
    members = label_tree(X, positives, **TREE)[-1]
    instances = (positives @ members).tocsc()
    options = {"cost": 1.0, "threshold": 0.1, "seed": 0}
    linear_svms(X, positives, members[:, :1], instances[:, :1], **options)  # compiles
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of those that are not done after as many passes
        for parent in range(10):
            rows = instances[:, [parent]].nonzero()[0]
            below = X[rows]
            for cluster in members[:, [parent]].nonzero()[0]:
                own = positives[:, [cluster]].toarray().ravel()[rows] > 0
                if not own.all():
                    svm.LinearSVC(C=1.0, tol=0.1, max_iter=100, dual=True).fit(below, own)
    plain = time.perf_counter() - begin
    arguments = (X, positives, members[:, :10], instances[:, :10])
    benchmark.pedantic(linear_svms, args=arguments, kwargs=options, rounds=3)
    ratio = plain / benchmark.stats.stats.max
    print(f"\n{ratio:.1f} times as fast: {benchmark.stats.stats.max:.2f} s, scikit-learn {plain:.2f} s")
    assert ratio >= TRAINING_BAR
