from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench.methods.label_tree.tree import shallow_levels


def make_pairs(instances, labels):
    """Pairs that leave no label and no instance without one, and features that tell the labels."""
    rng = np.random.default_rng(0)
    dense = rng.random((instances, labels)) < 2 / labels
    dense[np.arange(instances), rng.integers(labels, size=instances)] = True
    dense[rng.integers(instances, size=labels), np.arange(labels)] = True
    features = dense @ rng.random((labels, 12)) + 0.1 * rng.random((instances, 12))
    return csr_matrix(features.astype(np.float32)), csr_matrix(dense.astype(np.float32))


@pytest.mark.parametrize(
    ("labels", "branches", "leaf", "height", "sizes"),
    [
        (100, 4, 4, 0, [100]),
        (100, 4, 4, 1, [32, 100]),
        (100, 4, 4, 2, [8, 32, 100]),
        (100, 4, 4, 9, [2, 8, 32, 100]),
        (100, 2, 4, 2, [16, 32, 100]),
        (100, 64, 4, 2, [32, 100]),
        (5, 4, 4, 3, [2, 5]),
        (4, 4, 4, 3, [4]),
        (1, 8, 8, 3, [1]),
    ],
)
def test_levels_of_a_shallow_tree(labels, branches, leaf, height, sizes):
    X, pairs = make_pairs(60, labels)
    found = shallow_levels(X, pairs, branches=branches, leaf=leaf, height=height, seed=0)
    assert [level.clusters for level in found] == sizes
    above = 1
    for level in found:
        assert level.children.shape == (above, level.clusters)
        assert (level.children.sum(axis=0) == 1).all()  # each node has one parent
        above = level.clusters
    for level, below in pairwise(found):
        np.testing.assert_array_equal((below.labels @ below.children.T).toarray(), level.labels.toarray())
        assert level.children.shape[0] == 1 or np.diff(level.children.indptr).max() == branches
    np.testing.assert_array_equal(found[-1].labels.toarray(), pairs.toarray())
    assert len(found) == 1 or np.diff(found[-1].children.indptr).max() <= leaf


def test_labels_of_like_instances_are_together():
    pairs = csr_matrix(np.kron(np.eye(2), np.ones((10, 4))).astype(np.float32))
    X = csr_matrix((np.kron(np.eye(2), np.ones((10, 3))) + 0.01).astype(np.float32))
    found = shallow_levels(X, pairs, branches=2, leaf=4, height=1, seed=0)
    assert {*map(tuple, found[1].children.toarray().tolist())} == {(1,) * 4 + (0,) * 4, (0,) * 4 + (1,) * 4}
