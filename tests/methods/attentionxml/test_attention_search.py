"""From level to level: the levels of a tree, how many nodes are kept, and the products along the paths."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import TopK
from xmcbench.methods.attentionxml.network import child_table, count_kept_nodes, mean_scores, rank_labels, rank_nodes
from xmcbench.methods.label_tree.tree import shallow_levels


def below(*parents):
    """The matrix of a level whose nodes have these parents."""
    ones = np.ones(len(parents), np.float32)
    return csr_matrix((ones, (parents, np.arange(len(parents)))), shape=(max(parents) + 1, len(parents)))


#: Three nodes, then six (their children lie apart), then ten labels.
TREE = [below(0, 0, 0), below(0, 1, 2, 0, 1, 0), below(5, 0, 0, 1, 2, 3, 3, 4, 5, 5)]
PARENTS = [level.toarray().argmax(axis=0) for level in TREE]


def test_children_as_a_table():
    assert child_table(TREE[1]).tolist() == [[0, 3, 5], [1, 4, -1], [2, -1, -1]]


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7, 9, 10, 100])
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_kept_nodes_have_k_labels_whichever_they_are(beam, k):
    kept = count_kept_nodes(TREE, beam, k)
    assert kept[-1] == min(k, 10)
    for place, children in enumerate(TREE[1:]):
        sizes = np.diff(children.indptr)
        assert min(beam, len(sizes)) <= kept[place] <= len(sizes)
        assert all(
            sum(sizes[list(chosen)]) >= kept[place + 1] for chosen in combinations(range(len(sizes)), kept[place])
        )
        if kept[place] > beam:  # one less would not do
            fewer = combinations(range(len(sizes)), kept[place] - 1)
            assert min(sum(sizes[list(chosen)]) for chosen in fewer) < kept[place + 1]


def test_a_tree_with_one_level_keeps_k_labels():
    assert count_kept_nodes([below(*[0] * 7)], 2, 100) == [7]
    assert count_kept_nodes([below(*[0] * 7)], 2, 3) == [3]


def probabilities(networks, texts):
    with torch.no_grad():
        return [
            node_network(*texts.pad(np.arange(len(texts)))).sigmoid().numpy().astype(np.float64)
            for node_network in networks
        ]


def test_scores_are_the_products_along_the_paths(network, texts):
    networks = [network(size, seed) for seed, size in enumerate((3, 6, 10))]
    first, second, third = probabilities(networks, texts)
    expected = third * second[:, PARENTS[2]] * first[:, PARENTS[1][PARENTS[2]]]
    found = rank_labels(networks, TREE, texts, 100, 100)
    assert np.diff(found.indptr).tolist() == [10] * 5
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-4)


def literal_beam(chances, beams, row):
    """The labels of a row with their scores: nodes are followed one by one."""
    kept = {0: 1.0}
    for chance, parents, beam in zip(chances, PARENTS, beams, strict=True):
        scores = {node: kept[parent] * chance[row, node] for node, parent in enumerate(parents) if parent in kept}
        kept = dict(sorted(scores.items(), key=lambda item: -item[1])[:beam])
    return kept


@pytest.mark.parametrize(("beam", "k"), [(1, 1), (1, 2), (1, 4), (2, 3), (2, 10)])
@pytest.mark.parametrize("floats", [1, 10**9], ids=["text by text", "at once"])
def test_a_beam_is_followed_as_literally(network, texts, beam, k, floats, monkeypatch):
    monkeypatch.setattr("xmcbench.methods.attentionxml.network._FLOATS", floats)
    networks = [network(size, seed) for seed, size in enumerate((3, 6, 10))]
    chances = probabilities(networks, texts)
    found = rank_labels(networks, TREE, texts, beam, k)
    for row in range(len(texts)):
        expected = literal_beam(chances, count_kept_nodes(TREE, beam, k), row)
        listed = slice(found.indptr[row], found.indptr[row + 1])
        assert {*found.indices[listed].tolist()} == {*expected}
        assert len(expected) == k
        for label, score in zip(found.indices[listed].tolist(), found.data[listed], strict=True):
            assert score == pytest.approx(expected[label], rel=1e-4)


def test_missing_guesses_have_no_children(network, texts):
    above = TopK(np.tile(np.array([2, -1], np.int32), (5, 1)), np.tile(np.array([-1, -np.inf], np.float32), (5, 1)))
    found = rank_nodes(network(6), texts, child_table(TREE[1]), above, 4)
    assert found.indices.tolist() == [[2, -1, -1, -1]] * 5
    assert (found.scores[:, 1:] == -np.inf).all()


def test_a_network_in_training_is_evaluated_and_goes_on_in_training(network, texts):
    made = network(6, dropouts=(0.5, 0.5)).train()
    first, again = (rank_nodes(made, texts, None, None, 6) for _ in range(2))
    assert made.training
    assert first.scores.tobytes() == again.scores.tobytes()


def test_products_too_small_for_a_float_are_stored(network, texts):
    networks = [network(size, seed) for seed, size in enumerate((3, 6, 10))]
    for node_network in networks:
        torch.nn.init.constant_(node_network.output.bias, -60.0)
    found = rank_labels(networks, TREE, texts, 100, 100)
    assert found.nnz == 50
    assert found.data.min() > 0


def test_the_mean_over_trees():
    one, other = csr_matrix(np.array([[0.5, 0, 0.25]], np.float32)), csr_matrix(np.array([[0.1, 0.3, 0]], np.float32))
    np.testing.assert_allclose(mean_scores([one, other]).toarray(), [[0.3, 0.15, 0.125]], rtol=1e-6)
    assert (mean_scores([one]) != one).nnz == 0


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
