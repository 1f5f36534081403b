"""Balanced clusters by 2-means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random

from xmcbench.methods.label_tree.tree import cluster_evenly, of_length_1


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
