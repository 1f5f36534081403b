"""The SVMs of a level, against scikit-learn's."""

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix, random

from xmcbench.methods.label_tree import linear
from xmcbench.methods.label_tree.linear import linear_svms

X = random(120, 30, 0.3, "csr", np.float32, 0)
#: Six clusters below two: the first four are trained on the first 80 instances, the others on the last 70.
MEMBERS = csc_matrix(np.repeat(np.eye(2), [4, 2], axis=0).astype(np.float32))
INSTANCES = csc_matrix(np.stack([np.arange(120) < 80, np.arange(120) >= 50], axis=1).astype(np.float32))


def positives():
    rng = np.random.default_rng(1)
    own = (X @ rng.standard_normal((30, 6)) + 0.3 * rng.standard_normal((120, 6))) > 0.4
    return csc_matrix((own & (INSTANCES @ MEMBERS.T).toarray().astype(bool)).astype(np.float32))


def train(cost=1.0, threshold=0.0, seed=0):
    return linear_svms(X, positives(), MEMBERS, INSTANCES, cost=cost, threshold=threshold, seed=seed)


@pytest.mark.parametrize("cost", [0.1, 1.0, 20.0])
def test_weights_are_those_of_scikit_learn(monkeypatch, cost):
    sklearn = pytest.importorskip("sklearn.svm", reason="needs scikit-learn, to compare with")
    monkeypatch.setattr(linear, "_TOLERANCE", 1e-6)
    monkeypatch.setattr(linear, "_PASSES", 10_000)
    linear._descend.recompile()
    try:
        found = train(cost).toarray()
    finally:
        monkeypatch.undo()
        linear._descend.recompile()
    for cluster in range(6):
        rows = np.flatnonzero(INSTANCES[:, [0, 0, 0, 0, 1, 1][cluster]].toarray())
        model = sklearn.LinearSVC(C=cost, tol=1e-8, max_iter=1_000_000, dual=True, random_state=0)
        model.fit(X[rows], positives()[rows][:, [cluster]].toarray().ravel())
        np.testing.assert_allclose(found[cluster, :-1], model.coef_[0], atol=2e-4)
        np.testing.assert_allclose(found[cluster, -1], model.intercept_[0], atol=2e-4)


def test_it_stops_near_the_optimum():
    """By the tolerance of PECOS: the loss is at most 5% above that of the least one."""
    found = train().toarray()
    queries = np.hstack([X.toarray(), np.ones((120, 1))])
    signs = np.where(positives().toarray() > 0, 1, -1)

    def loss(weights, cluster):
        rows = INSTANCES[:, [0, 0, 0, 0, 1, 1][cluster]].toarray().ravel() > 0
        slack = np.maximum(0, 1 - signs[rows, cluster] * (queries[rows] @ weights))
        return weights @ weights / 2 + (slack**2).sum()

    from scipy.optimize import minimize

    for cluster in range(6):
        least = minimize(loss, np.zeros(31), (cluster,)).fun
        assert least <= loss(found[cluster], cluster) <= 1.05 * least


def test_weights_below_the_threshold_are_dropped():
    whole, kept = train().toarray(), train(threshold=0.2).toarray()
    np.testing.assert_array_equal(kept, np.where(np.abs(whole) >= 0.2, whole, 0))
    assert (kept != whole).any()


def test_a_cluster_that_all_instances_have_is_always_followed():
    everything = csc_matrix(np.ones((120, 1), np.float32))
    found = linear_svms(
        X, everything, csc_matrix(np.ones((1, 1), np.float32)), everything, cost=1.0, threshold=0.1, seed=0
    )
    assert found.toarray().tolist() == [[0.0] * 30 + [1.0]]


def test_threads_do_not_matter(monkeypatch):
    several = {}
    for cores in (1, 3):
        monkeypatch.setattr(linear, "usable_cores", lambda cores=cores: cores)
        several[cores] = train(seed=5)
    assert several[1].data.tobytes() == several[3].data.tobytes()
    assert (train(seed=6).data != several[1].data).any()


def test_numpy_keeps_its_random_state():
    before = np.random.get_state()[1].copy()
    train()
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_no_feature_at_all():
    empty = csr_matrix((120, 30), dtype=np.float32)
    found = linear_svms(empty, positives(), MEMBERS, INSTANCES, cost=1.0, threshold=0.0, seed=0)
    assert not found[:, :30].nnz
