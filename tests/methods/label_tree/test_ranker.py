"""The search of a label tree, against all scores computed one by one."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
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
