import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_matrix, random

from xmcbench import TopK
from xmcbench.methods.sparse import search
from xmcbench.methods.sparse.search import SparseIndex


def exact(queries, labels, k):
    """Dense scores; a label that shares nothing with the query is none of its predictions."""
    scores = queries.toarray().astype(np.float64) @ labels.toarray().astype(np.float64).T
    return TopK.from_scores(np.where(scores > 0, scores, -np.inf).astype(np.float32), k)


def assert_same(found, expected):
    assert np.array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)


@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize("seed", range(5))
def test_equals_dense_search_with_many_ties(seed, k):
    """Whole numbers: most scores are shared by several labels, at the k-th place too."""
    rng = np.random.default_rng(seed)
    queries, labels = (
        csr_matrix(rng.integers(0, 3, (rows, 12)) * (rng.random((rows, 12)) < 0.3), dtype=np.float32)
        for rows in (40, 70)
    )
    found = SparseIndex(labels).search(queries, k)
    found.check(40, k, 70)
    assert_same(found, exact(queries, labels, k))


def test_equals_dense_search_on_reals():
    queries = random(200, 300, 0.05, format="csr", dtype=np.float32, random_state=0)
    labels = random(500, 300, 0.02, format="csr", dtype=np.float32, random_state=1)
    found = SparseIndex(labels).search(queries, 20)
    found.check(200, 20, 500)
    assert_same(found, exact(queries, labels, 20))


def test_slices_do_not_matter(monkeypatch):
    queries = random(50, 30, 0.2, format="csr", dtype=np.float32, random_state=0)
    labels = random(40, 30, 0.2, format="csr", dtype=np.float32, random_state=1)
    whole = SparseIndex(labels).search(queries, 5)
    monkeypatch.setattr(search, "_RESULTS", 20)
    parts = SparseIndex(labels).search(queries, 5)
    assert np.array_equal(whole.indices, parts.indices)
    assert np.array_equal(whole.scores, parts.scores)


@pytest.mark.parametrize(("queries", "labels", "features"), [(3, 2, 4), (0, 2, 4), (3, 2, 0), (1, 1, 1)])
def test_nothing_in_common(queries, labels, features):
    found = SparseIndex(csr_matrix((labels, features), dtype=np.float32)).search(
        csr_matrix((queries, features), dtype=np.float32), 5
    )
    found.check(queries, 5, labels)
    assert (found.indices == -1).all()


def test_sums_half_way_between_two_float32_go_the_same_way():
    """Weights of float32 and whole counts, as BM25 has them: equal labels stay equal, the lower id first."""
    rng = np.random.default_rng(0)
    weights = rng.random(30).astype(np.float32)
    rows = rng.integers(0, 2, (40, 30)).astype(np.float32) * weights
    labels = csr_matrix(np.vstack([rows, rows, rows]))  # each label three times
    queries = csr_matrix(rng.integers(0, 4, (200, 30)).astype(np.float32))
    found = SparseIndex(labels).search(queries, 120)
    assert_same(found, exact(queries, labels, 120))
    assert np.array_equal(found.scores, exact(queries, labels, 120).scores)


HALF_WAY = st.builds(lambda odd, power: (2 * odd + 1) * 2.0**power, st.integers(2**39, 2**40 - 1), st.integers(-60, 20))


@given(arrays.arrays(np.float64, 20, elements=st.one_of(st.floats(1e-30, 1e30), HALF_WAY)))
def test_settled_scores_are_rounded_to_40_bits(scores):
    mantissa, exponent = np.frexp(scores)
    expected = np.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)
    assert np.array_equal(search._settled(scores), expected)
