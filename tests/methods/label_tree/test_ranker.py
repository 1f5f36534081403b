"""The SVMs of a level against scikit-learn's, and the search of a tree against all scores computed one by one."""

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix, random
from scipy.sparse import random as random_matrix

from xmcbench import TopK
from xmcbench.methods.label_tree import linear
from xmcbench.methods.label_tree.linear import TreeRanker, linear_svms
from xmcbench.methods.label_tree.tree import label_tree

VALUES = {"cost": 1.0, "threshold": 0.05, "seed": 3}


def draw(labels=40, instances=200):
    """Features, pairs that leave no instance without one, and queries; labels 7 and 9 have no pair."""
    rng = np.random.default_rng(1)
    X, queries = (random_matrix(rows, 60, 0.2, "csr", np.float32, rng) for rows in (instances, 30))
    dense = rng.random((instances, labels)) < 2 / labels
    dense[np.arange(instances), rng.integers(labels, size=instances)] = True
    dense[:, [7, 9]] = False
    dense[~dense.any(axis=1), 0] = True
    return X, csr_matrix(dense.astype(np.float32)), queries


def all_scores(X, pairs, queries, tree):
    """The score of each label that has a pair for each query, from the weights as they are: float64 [n, S]."""
    positives, below = pairs.tocsc(), np.eye(pairs.shape[1])
    whole = np.hstack([queries.toarray(), np.ones((queries.shape[0], 1))])
    scores = np.ones((queries.shape[0], pairs.shape[1]))
    for members in reversed(tree):
        above = (positives @ members).tocsc()
        margins = whole @ linear_svms(X, positives, members, above, **VALUES).toarray().T.astype(np.float64)
        scores *= np.exp(-(np.maximum(0, 1 - margins) ** 3)) @ below.T
        positives, below = above, below @ members.toarray()
    return scores


@pytest.mark.parametrize(("splits", "leaf"), [(2, 2), (4, 5), (16, 100)])
@pytest.mark.parametrize("cores", [1, 3])
def test_a_beam_over_all_nodes_ranks_by_brute_force(monkeypatch, splits, leaf, cores):
    monkeypatch.setattr(linear, "usable_cores", lambda: cores)
    X, pairs, queries = draw()
    seen = np.unique(pairs.indices)
    shape = {"nr_splits": splits, "max_leaf_size": leaf}
    found = TreeRanker.train(X, pairs, **shape, **VALUES).search(queries, 10, 1000)
    known = pairs[:, seen].tocsr()
    scores = all_scores(X, known, queries, label_tree(X, known.tocsc(), **shape, seed=3))
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(found.indices, seen[best])
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, best, 1), rtol=2e-5)


def test_a_narrow_beam_follows_the_best_nodes_only():
    X, pairs, queries = draw()
    seen = np.unique(pairs.indices)
    known = pairs[:, seen].tocsr()
    shape = {"nr_splits": 2, "max_leaf_size": 20}
    tree = label_tree(X, known.tocsc(), **shape, seed=3)
    assert [members.shape for members in tree] == [(2, 1), (38, 2)]
    scores = all_scores(X, known, queries, tree)
    first = linear_svms(X, (known @ tree[1]).tocsc(), tree[0], (known @ tree[1] @ tree[0]).tocsc(), **VALUES)
    margins = np.hstack([queries.toarray(), np.ones((30, 1))]) @ first.toarray().T
    loss = np.maximum(0, 1 - margins)
    clear = loss.min(axis=1) < loss.max(axis=1)
    assert clear.sum() > 20
    followed = tree[1].toarray().argmax(axis=1) == loss.argmin(axis=1)[:, None]
    found = TreeRanker.train(X, pairs, **shape, **VALUES).search(queries, 10, 1)
    expected = TopK.from_scores(np.where(followed, scores, -np.inf), 10).indices
    np.testing.assert_array_equal(found.indices[clear], seen[expected[clear]])


def test_blocks_of_queries_do_not_matter(monkeypatch):
    X, pairs, queries = draw()
    made = TreeRanker.train(X, pairs, nr_splits=4, max_leaf_size=5, **VALUES)
    whole = made.search(queries, 8, 6)
    monkeypatch.setattr(linear, "_BLOCK", 1)
    parts = made.search(queries, 8, 6)
    np.testing.assert_array_equal(whole.indices, parts.indices)
    np.testing.assert_array_equal(whole.scores, parts.scores)


def test_labels_without_a_pair_are_never_predicted():
    X, pairs, queries = draw()
    made = TreeRanker.train(X, pairs, nr_splits=4, max_leaf_size=5, **VALUES)
    found = made.search(queries, 40, 1000)
    found.check(30, 40, 40)
    assert made.labels == 38
    assert {*found.indices.ravel().tolist()} == {-1, *range(40)} - {7, 9}
    nothing = TreeRanker.train(None, csr_matrix((0, 40), dtype=np.float32), nr_splits=4, max_leaf_size=5, **VALUES)
    assert (nothing.search(queries, 3, 50).indices == -1).all()
    assert nothing.labels == 0


def test_it_learns_the_labels_of_its_instances():
    _, pairs, _ = draw()
    X = csr_matrix((pairs @ random_matrix(40, 60, 0.5, "csr", np.float32, 0)).astype(np.float32))
    made = TreeRanker.train(X, pairs, nr_splits=4, max_leaf_size=5, **VALUES)
    first = made.search(X, 1, 50).indices[:, 0]
    assert np.asarray(pairs[np.arange(200), first]).mean() > 0.9


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
