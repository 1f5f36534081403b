"""Co-occurrences of words, and GloVe's training on them."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import MethodError
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


WORDS, DIMENSIONS, X_MAX, ALPHA, RATE = 70, 20, 5.0, 0.75, 0.05


@pytest.fixture(scope="module")
def counts():
    random = np.random.default_rng(1)
    texts = [random.zipf(1.5, 12) % WORDS for _ in range(150)]
    stream = np.concatenate([np.append(text, -1) for text in texts]).astype(np.int32)
    return Cooccurrence.of(stream, WORDS, 10)


def literally(counts, epochs, seed):
    """Section 4.2 of the paper, entry by entry in float64, in the order of the trainer."""
    random = np.random.default_rng(seed)
    entries = glove.partition(counts, int(random.integers(2**31)))
    sides = [glove.start(WORDS, DIMENSIONS, random) for _ in range(2)]
    (w, w_sum, b, b_sum), (v, v_sum, c, c_sum) = ([array.astype(np.float64) for array in side] for side in sides)
    losses = []
    for _ in range(epochs):
        loss = 0.0
        for diagonal in random.permutation(glove.PARTS):
            for part in range(glove.PARTS):
                block = part * glove.PARTS + (part + diagonal) % glove.PARTS
                for entry in range(entries.starts[block], entries.starts[block + 1]):
                    i, j, log = entries.rows[entry], entries.columns[entry], float(entries.logs[entry])
                    difference = w[i] @ v[j] + b[i] + c[j] - log
                    weight = min(1.0, np.exp(log) / X_MAX) ** ALPHA
                    loss += weight * difference**2 / 2
                    gradient = RATE * weight * difference
                    w_step, v_step = gradient * v[j], gradient * w[i]
                    w[i] -= w_step / np.sqrt(w_sum[i])
                    v[j] -= v_step / np.sqrt(v_sum[j])
                    b[i] -= gradient / np.sqrt(b_sum[i])
                    c[j] -= gradient / np.sqrt(c_sum[j])
                    w_sum[i] += w_step**2
                    v_sum[j] += v_step**2
                    b_sum[i] += gradient**2
                    c_sum[j] += gradient**2
        losses.append(loss / len(entries.logs))
    return (w + v)[:, :DIMENSIONS], losses


def test_equals_the_literal_transcription(counts):
    vectors, losses = glove.train(counts, DIMENSIONS, 4, RATE, X_MAX, ALPHA, seed=3)
    expected, expected_losses = literally(counts, 4, seed=3)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert losses == sorted(losses, reverse=True)


def test_a_diagonal_shares_no_word_and_every_entry_is_trained_once(counts):
    entries = glove.partition(counts, 7)
    block = np.repeat(np.arange(glove.PARTS**2), np.diff(entries.starts))
    assert (block // glove.PARTS == entries.rows % glove.PARTS).all()
    assert (block % glove.PARTS == entries.columns % glove.PARTS).all()
    rows = np.repeat(np.arange(WORDS), np.diff(counts.starts))
    given = sorted(zip(rows, counts.columns, np.log(counts.counts), strict=True))
    np.testing.assert_allclose(sorted(zip(entries.rows, entries.columns, entries.logs, strict=True)), given, rtol=1e-6)


def test_the_number_of_threads_does_not_show(counts):
    runs, threads = [], numba.get_num_threads()
    try:
        for number in (threads, 1):
            numba.set_num_threads(number)
            runs.append(glove.train(counts, DIMENSIONS, 3, RATE, X_MAX, ALPHA, seed=0))
    finally:
        numba.set_num_threads(threads)
    assert runs[0][0].tobytes() == runs[1][0].tobytes()
    assert runs[0][1] == runs[1][1]


def test_the_seed_shows(counts):
    one, other = (glove.train(counts, DIMENSIONS, 1, RATE, X_MAX, ALPHA, seed=seed)[0] for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_a_diverged_training_stops(counts):
    with pytest.raises(MethodError, match=r"NaN or infinite in epoch \d"):
        glove.train(counts, DIMENSIONS, 50, 1e30, X_MAX, ALPHA, seed=0)
