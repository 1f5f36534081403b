import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_matrix, random, vstack

from xmcbench import TopK
from xmcbench.methods.sparse import search
from xmcbench.methods.sparse.products import largest_products
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


@pytest.mark.parametrize("labels", [2, 1000, 300_000])
@pytest.mark.parametrize("best", [1.0, 1 + 2.0**-23, 3.0])
def test_the_least_difference_of_two_scores_decides_before_the_label_id(labels, best):
    """Two values next to each other in float32; the larger one has the label with the largest discount."""
    best = np.float32(best)
    scores = csr_matrix(([np.nextafter(best, np.float32(0)), best], [0, 0], [0, *([1] * (labels - 1)), 2]))
    for k in (1, 2):  # the first one alone, too: what is found is put in order again
        found = SparseIndex(scores).search(csr_matrix(np.ones((1, 1), np.float32)), k)
        assert found.indices.tolist() == [[labels - 1, 0][:k]]
        assert found.scores.tolist() == [[best, np.nextafter(best, np.float32(0))][:k]]


@pytest.mark.parametrize("labels", [2, 4_000_000])
def test_two_label_ids_next_to_each_other_decide_between_equal_scores(labels):
    starts = np.zeros(labels + 1, np.int32)
    starts[-2:] = 3, 6
    equal = csr_matrix((np.tile(np.float32([0.1, 0.7, 0.2]), 2), np.tile([0, 1, 2], 2), starts))
    for k in (1, 2):
        found = SparseIndex(equal).search(csr_matrix(np.float32([[0.3, 0.3, 0.9]])), k)
        assert found.indices.tolist() == [[labels - 2, labels - 1][:k]]


def test_equals_dense_search_on_reals():
    queries = random(200, 300, 0.05, format="csr", dtype=np.float32, random_state=0)
    labels = random(500, 300, 0.02, format="csr", dtype=np.float32, random_state=1)
    found = SparseIndex(labels).search(queries, 20)
    found.check(200, 20, 500)
    assert_same(found, exact(queries, labels, 20))


def test_zeros_that_are_stored_are_no_predictions():
    labels = csr_matrix((np.zeros(40, np.float32), (np.arange(40) // 10, np.arange(40) % 10)), shape=(4, 10))
    labels[2, 3] = 0.5
    queries = csr_matrix(np.ones((3, 10), np.float32))
    found = SparseIndex(labels).search(queries, 4)
    assert found.indices.tolist() == [[2, -1, -1, -1]] * 3


@pytest.mark.parametrize("cores", [1, 3])
def test_threads_do_not_matter(monkeypatch, cores):
    """More queries than a thread takes at a time, words of very different frequency, and labels in common."""
    rng = np.random.default_rng(0)
    features = (rng.random((2, 900, 8)) ** 4 * 300).astype(int)
    queries, labels = (
        csr_matrix((rng.random(7200).astype(np.float32), (np.repeat(np.arange(900), 8), side.ravel())), (900, 300))
        for side in features
    )
    labels = vstack([labels[:450], labels[:450]], format="csr")
    monkeypatch.setattr("xmcbench.methods.sparse.products.usable_cores", lambda: cores)
    found = SparseIndex(labels).search(queries, 100)
    assert_same(found, exact(queries, labels, 100))
    assert (found.indices >= 0).all(axis=1).sum() > 500


def test_indices_of_more_bits_give_the_same():
    """A block of more than 2^31 entries has them."""
    queries, by_feature = (random(*shape, 0.2, format="csr", random_state=0) for shape in ((50, 30), (30, 40)))
    expected = largest_products(queries, by_feature, 5)
    for matrix in (queries, by_feature):
        matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    found = largest_products(queries, by_feature, 5)
    assert all(map(np.array_equal, found, expected))


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
    assert np.array_equal(search._settle(scores), expected)
