"""The tree of labels: balanced clusters by 2-means, its levels, and the shortlist of a level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_matrix, csr_matrix, random

from xmcbench import TopK
from xmcbench.methods.label_tree.tree import Level, cluster_evenly, label_tree, levels, of_length_1, shortlist


def make_pairs(instances, labels, seed=0):
    """Pairs that leave no label and no instance without one, and features that tell the labels."""
    rng = np.random.default_rng(seed)
    dense = rng.random((instances, labels)) < 2 / labels
    dense[np.arange(instances), rng.integers(labels, size=instances)] = True
    dense[rng.integers(instances, size=labels), np.arange(labels)] = True
    features = dense @ rng.random((labels, 12)) + 0.1 * rng.random((instances, 12))
    return csr_matrix(features.astype(np.float32)), csr_matrix(dense.astype(np.float32))


@pytest.mark.parametrize("labels", [1, 2, 3, 17, 101, 300])
@pytest.mark.parametrize(("splits", "leaf"), [(2, 2), (4, 3), (16, 16), (16, 100)])
def test_clusters_of_a_level_are_equal_to_within_one(labels, splits, leaf):
    X, pairs = make_pairs(60, labels)
    tree = label_tree(X, pairs.tocsc(), nr_splits=splits, max_leaf_size=leaf, seed=0)
    assert tree[len(tree) - 1].shape[0] == labels
    members = np.eye(labels, dtype=np.float32)
    for place in reversed(range(len(tree))):
        members = members @ tree[place].toarray()
        assert (members.sum(axis=1) == 1).all()
        sizes = members.sum(axis=0)
        assert sizes.max() - sizes.min() <= 1, (place, sizes)
        if place == len(tree) - 1 and labels > 1:
            assert sizes.max() <= leaf


def test_the_tree_puts_labels_of_like_instances_together():
    dense = np.kron(np.eye(2), np.ones((10, 4)))
    X = csr_matrix((np.kron(np.eye(2), np.ones((10, 3))) + 0.01).astype(np.float32))
    tree = label_tree(X, csc_matrix(dense, dtype=np.float32), nr_splits=2, max_leaf_size=4, seed=0)
    halves = tree[len(tree) - 1].toarray().argmax(axis=1)
    assert len({*halves[:4]}) == len({*halves[4:]}) == 1
    assert halves[0] != halves[4]


#: Labels 0..5 in clusters {0, 3}, {1, 4}, {2, 5}; clusters 0 and 1 are below one node, 2 below the other.
TREE = [
    csc_matrix(np.ones((2, 1), np.float32)),
    csc_matrix(np.array([[1, 0], [1, 0], [0, 1]], np.float32)),
    csc_matrix(np.tile(np.eye(3, dtype=np.float32), (2, 1))),
]
PAIRS = csr_matrix(np.array([[1, 0, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0]], np.float32))


def test_levels_count_the_labels_of_an_instance():
    found = levels(TREE, PAIRS, 1, 100)
    assert [level.clusters for level in found] == [2, 3, 6]
    assert [level.labels.toarray().tolist() for level in found[:2]] == [[[2, 0], [1, 1]], [[2, 0, 0], [0, 1, 1]]]
    assert found[2].labels.toarray().tolist() == PAIRS.toarray().tolist()
    assert found[0].children.toarray().tolist() == [[1, 1]]
    assert found[1].children.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert found[2].children.toarray().tolist() == np.tile(np.eye(3), (1, 2)).tolist()


@pytest.mark.parametrize(
    ("smallest", "largest", "sizes"),
    [(3, 100, [3, 6]), (4, 100, [6]), (1, 4, [2, 3]), (4, 5, [3]), (1, 1, [2]), (100, 100, [6])],
)
def test_levels_that_are_left_out(smallest, largest, sizes):
    found = levels(TREE, PAIRS, smallest, largest)
    assert [level.clusters for level in found] == sizes
    assert found[0].children.toarray().tolist() == [[1] * sizes[0]]
    if sizes == [3, 6]:
        assert found[1].children.toarray().tolist() == np.tile(np.eye(3), (1, 2)).tolist()


def literal_shortlist(level, guessed, row):
    """The candidates of an instance in groups of equal worth, best group first."""
    parents = level.children.toarray().argmax(axis=0)
    counts = level.labels[row].toarray()[0]
    own = [cluster for cluster in range(level.clusters) if counts[cluster]]
    above = {parents[cluster] for cluster in own}
    siblings = [cluster for cluster in range(level.clusters) if parents[cluster] in above and cluster not in own]
    below = [[cluster for cluster in range(level.clusters) if parents[cluster] == guess] for guess in guessed]
    return [own, siblings, *[children for guess, children in zip(guessed, below, strict=True) if guess not in above]]


@pytest.mark.parametrize("size", [1, 3, 9, 500])
def test_shortlist_equals_its_transcription(size):
    rng = np.random.default_rng(0)
    children = np.zeros((5, 20), np.float32)
    children[np.arange(20) % 5, np.arange(20)] = 1
    level = Level(csr_matrix(children), csr_matrix(rng.poisson(0.1, (40, 20)).astype(np.float32)))
    guesses = np.stack([rng.permutation(5)[:3] for _ in range(40)]).astype(np.int32)
    guesses[7, 2] = -1
    near = TopK(guesses, np.zeros(guesses.shape, np.float32))
    found, shares = shortlist(level, near, size, 0)
    assert found.shape == shares.shape
    assert found.shape[1] <= min(size, 20)
    for row in range(40):
        listed = [candidate for candidate in found[row].tolist() if candidate >= 0]
        groups = literal_shortlist(level, [guess for guess in guesses[row].tolist() if guess >= 0], row)
        whole = [cluster for group in groups for cluster in group]
        assert len(listed) == len({*listed}) == min(size, len(whole))
        place = 0
        for group in groups:
            taken = {*listed[place : place + len(group)]}
            assert taken <= {*group}, (row, groups, listed)
            place += len(group)
        counts = level.labels[row].toarray()[0]
        for cluster, share in zip(found[row], shares[row], strict=True):
            expected = counts[cluster] / counts.sum() if cluster >= 0 and counts.sum() else 0
            assert share == pytest.approx(expected)


@pytest.mark.parametrize("guesses", [30, 160])
def test_a_better_guess_is_first_however_many_there_are(guesses):
    """The draw among equals moves a child less than a guess does. Three clusters are below each."""
    children = np.kron(np.eye(guesses), np.ones((1, 3))).astype(np.float32)
    level = Level(csr_matrix(children), csr_matrix((200, 3 * guesses), dtype=np.float32))
    order = np.stack([np.random.default_rng(row).permutation(guesses) for row in range(200)]).astype(np.int32)
    found, _ = shortlist(level, TopK(order, np.zeros(order.shape, np.float32)), 3 * guesses, 0)
    assert np.array_equal(found // 3, np.repeat(order, 3, axis=1))
    assert (np.diff(found.reshape(200, guesses, 3), axis=2) < 0).any(), "among equals it is drawn"


@pytest.mark.parametrize(("guesses", "noise"), [(0, 1e-3), (1, 1e-3), (30, 1e-3), (32, 1 / (32 * 33))])
def test_the_noise_of_up_to_thirty_guesses_is_what_it_was(monkeypatch, guesses, noise):
    asked = []
    generator = np.random.default_rng

    class Watched:
        def __init__(self, seed):
            self._rng = generator(seed)

        def uniform(self, low, high, size):
            asked.append(high)
            return self._rng.uniform(low, high, size)

    monkeypatch.setattr(np.random, "default_rng", Watched)
    level = Level(csr_matrix(np.eye(40, dtype=np.float32)), csr_matrix(np.eye(2, 40, dtype=np.float32)))
    near = TopK(np.tile(np.arange(guesses, dtype=np.int32), (2, 1)), np.zeros((2, guesses), np.float32))
    shortlist(level, near if guesses else None, 5, 0)
    assert asked == [noise]


def test_shortlist_of_the_first_level_and_of_blocks(monkeypatch):
    level = levels(TREE, PAIRS, 3, 100)[0]
    found, shares = shortlist(level, None, 500, 0)
    assert [*map(sorted, found.tolist())] == [[0, 1, 2]] * 2
    assert found[0, 0] == 0
    assert shares.tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    drawn = {tuple(shortlist(level, None, 2, seed)[0][0].tolist()) for seed in range(9)}
    assert drawn == {(0, 1), (0, 2)}
    monkeypatch.setattr("xmcbench.methods.label_tree.tree._BLOCK", 1)
    assert {*shortlist(level, None, 500, 0)[0][1].tolist()} == {0, 1, 2}


@given(
    rows=st.integers(1, 80),
    halvings=st.integers(0, 6),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 9),
)
def test_sizes_differ_by_one_at_most(rows, halvings, density, seed):
    clusters = 1 << min(halvings, rows.bit_length() - 1)
    vectors = random(rows, 7, density, "csr", np.float32, seed)
    found = cluster_evenly(vectors, clusters, seed)
    sizes = np.bincount(found, minlength=clusters)
    assert sizes.shape == (clusters,)
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_like_directions_are_together_whatever_their_length(seed):
    rng = np.random.default_rng(seed)
    of_row = np.arange(40) % 2
    directions = np.eye(2, 9)[of_row] + 0.1 * rng.random((40, 9))
    lengths = rng.uniform(0.01, 100, (40, 1))
    found = cluster_evenly(csr_matrix((directions * lengths).astype(np.float32)), 2, seed)
    assert len({*zip(of_row.tolist(), found.tolist(), strict=True)}) == 2


def test_a_cluster_is_a_half_of_the_one_above():
    vectors = random(50, 20, 0.3, "csr", np.float32, 0)
    coarse, fine = (cluster_evenly(vectors, clusters, 3) for clusters in (4, 8))
    # The generator goes on from level to level, so that the levels above are the same.
    np.testing.assert_array_equal(fine // 2, coarse)


def test_a_seed_decides():
    vectors = random(64, 20, 0.3, "csr", np.float32, 0)
    first, again, other = (cluster_evenly(vectors, 16, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_rows_of_length_1_and_empty_rows():
    vectors = csr_matrix(np.array([[3, 4, 0], [0, 0, 0], [0, 1e-30, 0], [0, 0, 2]], np.float32))
    found = of_length_1(vectors)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), [[0.6, 0.8, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]], rtol=1e-6)
    assert vectors.data[0] == 3, "the argument is left as it is"
