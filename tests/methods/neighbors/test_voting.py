import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import TopK
from xmcbench.methods.sparse.search import count_votes


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 2.0, 3.5]))
def test_shares_are_those_of_a_loop(seed, power):
    rng = np.random.default_rng(seed)
    pairs = csr_matrix((rng.random((6, 4)) < 0.4).astype(np.float32))
    order = np.argsort(rng.random((3, 6)), axis=1)[:, :4].astype(np.int32)
    scores = -np.sort(-rng.uniform(-0.3, 1, (3, 4)).astype(np.float32), axis=1)
    missing = np.arange(4) >= rng.integers(1, 5, (3, 1))
    nearest = TopK(np.where(missing, -1, order), np.where(missing, -np.inf, scores).astype(np.float32))
    expected = np.zeros((3, 4))
    for row in range(3):
        weights = [max(0.0, float(score)) ** power for score in nearest.scores[row]]
        for neighbor, weight in zip(nearest.indices[row], weights, strict=True):
            if weight:
                expected[row] += pairs.toarray()[neighbor] * weight / sum(weights)
    np.testing.assert_allclose(count_votes(nearest, pairs, power).toarray(), expected, rtol=1e-6, atol=1e-9)


def test_no_neighbor_no_vote():
    nothing = TopK(np.full((2, 3), -1, np.int32), np.full((2, 3), -np.inf, np.float32))
    assert count_votes(nothing, csr_matrix(np.eye(3, dtype=np.float32)), 1.0).nnz == 0
