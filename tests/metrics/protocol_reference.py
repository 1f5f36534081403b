"""Independent implementations of the protocol, cases to compare on, and the figures of a case."""

from __future__ import annotations

import math

import numpy as np
import pytrec_eval
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench.metrics import Evaluation, TruePairs, true_ranks
from xmcbench.topk import TopK


def make_predictions(rows, k):
    """A TopK [len(rows), k] of lists of labels, best first; scores fall with the rank."""
    indices = np.full((len(rows), k), -1, np.int32)
    for row, labels in enumerate(rows):
        indices[row, : len(labels)] = labels
    scores = np.where(indices < 0, -np.inf, -np.arange(k)).astype(np.float32)
    return TopK(indices, scores)


def make_pairs(rows, labels):
    """A binary CSR matrix [len(rows), labels] of lists of labels."""
    matrix = np.zeros((len(rows), labels), np.float32)
    for row, true in enumerate(rows):
        matrix[row, list(true)] = 1
    return csr_matrix(matrix)


def evaluate(predictions, truth, removed=None, inverse_propensity=None):
    """Score predictions [N, k] by the true pairs [N, L], after a filter [N, L]; with PSP given propensities [L]."""
    pairs = TruePairs.of(truth)
    return Evaluation(pairs, inverse_propensity)(true_ranks(predictions.indices, pairs, removed))


def reference_ranking(predictions, truth):
    """Metric -> per-instance values of P, R and nDCG by pytrec_eval, for the rows with a true label."""
    names = {"P": "P.1,3,5", "R": "recall.1,3,5,10,100", "nDCG": "ndcg_cut.1,3,5"}
    kept = [row for row in range(truth.shape[0]) if truth[row].nnz]
    qrels = {str(row): {str(label): 1 for label in truth[row].indices} for row in kept}
    # It orders by score and then by document id: falling scores keep our order.
    run = {
        str(row): {str(label): -float(rank) for rank, label in enumerate(predictions.indices[row]) if label >= 0}
        for row in kept
    }
    found = pytrec_eval.RelevanceEvaluator(qrels, set(names.values())).evaluate(
        {row: listed for row, listed in run.items() if listed}
    )
    measures = {"P": "P", "R": "recall", "nDCG": "ndcg_cut"}
    return {
        f"{family}@{k}": np.array(
            # It leaves rows without predictions out; the protocol scores them 0.
            [found.get(str(row), {}).get(f"{measures[family]}_{k}", 0.0) for row in kept]
        )
        for family, name in names.items()
        for k in map(int, name.split(".")[1].split(","))
    }


def reference_psp(predictions, truth, inverse_propensity, k):
    """PSP@k as the protocol words it, one pair at a time."""
    found = attainable = 0.0
    for row in range(truth.shape[0]):
        true = set(truth[row].indices.tolist())
        hits = [label for label in predictions.indices[row, :k].tolist() if label in true]
        found += sum(inverse_propensity[label] for label in hits) / k
        attainable += sum(sorted((inverse_propensity[label] for label in true), reverse=True)[:k]) / k
    return found / attainable


def reference_propensities(training, a, b):
    """The inverse propensity of every label by the formula of Jain et al. (2016), one label at a time."""
    instances, labels = training.shape
    c = (math.log(instances) - 1) * (b + 1) ** a
    columns = training.tocsc()
    return np.array([1 + c * math.exp(-a * math.log(columns[:, label].nnz + b)) for label in range(labels)])


def reference_ranks(predictions, truth, removed):
    """The rank of every true pair as the protocol words it: filter, cut at 100, count from 1; 0 where it is missing."""
    ranks = []
    for row in range(truth.shape[0]):
        out = set() if removed is None else set(removed[row].indices.tolist())
        listed = [label for label in predictions.indices[row].tolist() if label >= 0 and label not in out][:100]
        ranks += [listed.index(label) + 1 if label in listed else 0 for label in sorted(truth[row].indices.tolist())]
    return ranks


def without(predictions, removed):
    """Predictions [N, k] from which the filter's pairs are taken out, one row at a time."""
    rows = [
        [label for label in labels if label >= 0 and label not in removed[row].indices]
        for row, labels in enumerate(predictions.indices.tolist())
    ]
    return make_predictions(rows, predictions.k)


@st.composite
def cases(draw, most_rows=8, most_labels=14):
    """Predictions, truth and filter of one random dataset; at least one row has a true label."""
    labels = draw(st.integers(1, most_labels))
    k = draw(st.integers(1, most_labels + 2))
    some = st.lists(st.integers(0, labels - 1), unique=True, max_size=labels)
    rows = draw(st.integers(1, most_rows))
    truth = draw(st.lists(some, min_size=rows, max_size=rows).filter(any))
    predicted = [draw(st.permutations(range(labels)))[: draw(st.integers(0, k))] for _ in range(rows)]
    removed = draw(st.lists(some, min_size=rows, max_size=rows))
    return make_predictions(predicted, k), make_pairs(truth, labels), make_pairs(removed, labels)
