"""Classification of labels: label trees, gradients of chosen products, and large arrays.

Label trees on LF-Debian-20K, all pairs known.

The bars: PECOS's ranker searches at least 5 times as fast as the model as PECOS trains it, and the SVMs below ten nodes
of the tree take a fourth of the time that scikit-learn's LinearSVC takes for them, at most.

Gradients of chosen products, against looking the vectors up and against those of all products.

The bars: a step of SiameseXML's encoder, from the vectors on, is at least 1.5 times as fast as with vectors that are
looked up, with the default batch and with the one of LF-YSO-25K. A step of classifiers, from the vectors on, is at
least 1.2 times as fast as with all products.

A training that makes many large arrays, with the settings of malloc that a cell has and with glibc's own.

The bar: Astec's classifiers, with vectors of its default length, are trained at least 1.2 times as fast.
"""

from __future__ import annotations

import textwrap
import time
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from xmcbench import Artifacts, TopK, load_dataset, usable_cores
from xmcbench.api import Options, run
from xmcbench.methods.deepxml.classifiers import contrastive_loss, select_products
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
def test_training_of_svms(benchmark, tmp_path):
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


@pytest.mark.parametrize(("batch", "negatives"), [(1024, 5), (4096, 40)])
@pytest.mark.benchmark(group="the hardest documents of a batch")
def test_encoder(benchmark, batch, negatives):
    torch.manual_seed(0)
    labels = torch.nn.functional.normalize(torch.randn(batch, 512), dim=1).requires_grad_()
    documents = torch.nn.functional.normalize(labels.detach() + torch.randn(batch, 512) / 2, dim=1).requires_grad_()
    rows = torch.arange(batch).repeat_interleave(negatives)

    def gradients(products):
        with torch.no_grad():
            every = labels @ documents.T
            chosen = every.topk(negatives, dim=1).indices.flatten()
        return _gradients(products(every, labels, documents, rows, chosen), (labels, documents))

    def look_up(every, left, right, rows, columns):
        return torch.einsum("nd,nmd->nm", left, right[columns.view(batch, -1)]).flatten()

    _compare(benchmark, partial(gradients, select_products), partial(gradients, look_up), 1.5)


@pytest.mark.parametrize("width", [512, 2048])
@pytest.mark.benchmark(group="the labels of a batch")
def test_classifiers(benchmark, width):
    torch.manual_seed(0)
    documents = torch.nn.functional.normalize(torch.randn(256, width), dim=1)
    labels = torch.nn.functional.normalize(torch.randn(4000, width), dim=1).requires_grad_()
    rows, columns = torch.arange(256).repeat_interleave(60), torch.randint(4000, (256 * 60,))

    def choose():
        with torch.no_grad():
            every = documents @ labels.T
        return _gradients(select_products(every, documents, labels, rows, columns), (labels,))

    def of_all():
        return _gradients((documents @ labels.T)[rows, columns], (labels,))

    _compare(benchmark, choose, of_all, 1.2)


def _gradients(cosines, of):
    return torch.autograd.grad(contrastive_loss(cosines, torch.zeros_like(cosines, dtype=torch.bool), 0.9, 3.0), of)


def _compare(benchmark, ours, other, bar):
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        expected = other()
        times.append(time.perf_counter() - begin)
    found = benchmark.pedantic(ours, rounds=6, warmup_rounds=1)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)
    ratio = min(times) / benchmark.stats.stats.min
    print(f"\n{ratio:.1f} times as fast: {benchmark.stats.stats.min:.3f} s, the other way {min(times):.3f} s")
    assert ratio >= bar


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
def test_training_with_large_arrays(benchmark, tmp_path, monkeypatch):
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
