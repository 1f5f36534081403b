"""All metrics on a real test matrix, 100 predictions a row, against pytrec_eval.

The bar: at least 20 times faster. Building pytrec_eval's dictionaries is outside the timed part.
"""

from __future__ import annotations

import numpy as np
import pytest

from xmcbench.data.xc_matrix import read_matrix
from xmcbench.metrics import Evaluation, TruePairs, inverse_propensity, label_frequency, true_ranks
from xmcbench.topk import TopK

DEPTH = 100
BAR = 20

pytrec_eval = pytest.importorskip("pytrec_eval", reason="pip install pytrec-eval-terrier")


def evaluate(predictions, truth, weights=None):
    pairs = TruePairs.of(truth)
    return Evaluation(pairs, weights)(true_ranks(predictions.indices, pairs))


def plausible_predictions(truth, seed=0):
    """Of each row 100 distinct labels; about six in ten true labels among them, more often near the top."""
    random = np.random.RandomState(seed)
    instances, labels = truth.shape
    # 100 steps of less than a hundredth of the labels: never once around, so that all are distinct.
    start, step = random.randint(0, labels, instances), random.randint(1, labels // DEPTH, instances)
    indices = ((start[:, None] + step[:, None] * np.arange(DEPTH)) % labels).astype(np.int32)
    lengths = np.diff(truth.indptr)
    rows = np.repeat(np.arange(instances), lengths)
    nth = np.arange(truth.nnz) - np.repeat(truth.indptr[:-1], lengths)
    # 37 and 100 have no common divisor: the first 100 true labels of a row get ranks of their own.
    rank = ((DEPTH * random.random_sample(instances) ** 3).astype(np.int64)[rows] + 37 * nth) % DEPTH
    placed = (random.random_sample(truth.nnz) < 0.6) & (nth < DEPTH)
    placed &= ~(indices[rows] == truth.indices[:, None]).any(axis=1)  # a label is predicted once
    indices[rows[placed], rank[placed]] = truth.indices[placed]
    return TopK(indices, np.tile(-np.arange(DEPTH, dtype=np.float32), (instances, 1)))


@pytest.fixture(scope="module")
def truth(real_data):
    return read_matrix(real_data("LF-AmazonTitles-131K") / "tst_X_Y.txt.gz")


@pytest.fixture(scope="module")
def predictions(truth):
    found = plausible_predictions(truth)
    found.check(truth.shape[0], DEPTH, truth.shape[1])
    return found


@pytest.fixture(scope="module")
def measurements():
    """Measurements of the first benchmark for the second one: its median time in seconds."""
    return {}


@pytest.mark.data
@pytest.mark.benchmark(group="metrics of 134,835 rows x 100 predictions", disable_gc=True)
def test_xmcbench(benchmark, truth, predictions, measurements):
    # The training matrix is not at hand; the weights of the test matrix cost the same.
    weights = inverse_propensity(label_frequency(truth), truth.shape[0], 0.6, 2.6)
    benchmark.pedantic(lambda: evaluate(predictions, truth, weights), rounds=10, warmup_rounds=1)
    if benchmark.stats:
        measurements["seconds"] = benchmark.stats.stats.median


@pytest.mark.data
@pytest.mark.timeout(900)
@pytest.mark.benchmark(group="metrics of 134,835 rows x 100 predictions", disable_gc=True)
def test_pytrec_eval(benchmark, truth, predictions, measurements, capsys):
    names = [str(label) for label in range(truth.shape[1])]
    places = [float(DEPTH - rank) for rank in range(DEPTH)]
    run = {
        str(row): dict(zip([names[label] for label in labels], places, strict=True))
        for row, labels in enumerate(predictions.indices.tolist())
    }
    true = np.split(truth.indices, truth.indptr[1:-1])
    qrels = {str(row): {names[label]: 1 for label in labels} for row, labels in enumerate(true)}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"P.1,3,5", "recall.1,3,5,10,100", "ndcg_cut.1,3,5"})

    found = benchmark.pedantic(lambda: evaluator.evaluate(run), rounds=3)

    scores = evaluate(predictions, truth)
    assert len(found) == scores.scored
    for measure, family in (("P", "P"), ("recall", "R"), ("ndcg_cut", "nDCG")):
        for name in (name for name in scores.values if name.startswith(f"{family}@")):
            mean = np.mean([row[f"{measure}_{name.split('@')[1]}"] for row in found.values()])
            assert scores.values[name] == pytest.approx(mean, abs=1e-9), name
    if benchmark.stats and "seconds" in measurements:
        ratio = benchmark.stats.stats.median / measurements["seconds"]
        benchmark.extra_info |= {"times_faster": round(ratio, 1), "bar": BAR}
        with capsys.disabled():
            print(f"\nmetrics: xmcbench is {ratio:.1f}x faster than pytrec_eval (bar: {BAR}x)")
