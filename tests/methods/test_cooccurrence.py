import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench.methods.words import glove
from xmcbench.methods.words.glove import Cooccurrence


def naive(texts, words, window):
    """Every pair of places of every text, one after the other."""
    counts = np.zeros((words, words))
    for text in texts:
        for i, word in enumerate(text):
            for j, other in enumerate(text):
                if i != j and abs(i - j) <= window:
                    counts[word, other] += 1 / abs(i - j)
    return counts


def stream_of(texts):
    return np.array([code for text in texts for code in [*text, -1]], np.int32)


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=6), st.integers(1, 12), st.sampled_from([1, 10**6]))
def test_equals_the_double_loop(texts, window, candidates):
    before = glove._CANDIDATES
    glove._CANDIDATES = candidates  # one row at a time, or all at once
    try:
        found = Cooccurrence.of(stream_of(texts), 7, window)
    finally:
        glove._CANDIDATES = before
    matrix = csr_matrix((found.counts, found.columns, found.starts), shape=(7, 7))
    assert len(found.counts) == np.count_nonzero(matrix.toarray())
    assert (found.counts > 0).all()
    np.testing.assert_allclose(matrix.toarray(), naive(texts, 7, window), rtol=1e-6)
    assert (matrix != matrix.T).nnz == 0


def test_no_text_at_all():
    found = Cooccurrence.of(np.empty(0, np.int32), 0, 10)
    assert found.words == 0
    assert len(found.counts) == 0
