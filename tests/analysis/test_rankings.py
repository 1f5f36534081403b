"""Stored predictions under a filter keep their scores."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import TopK
from xmcbench.analysis.rankings import remove_pairs
from xmcbench.errors import DataError

#: More than the 100 that are scored.
LABELS = 103


@given(
    st.integers(1, LABELS),
    st.lists(st.sets(st.integers(0, LABELS - 1), max_size=6), min_size=1, max_size=4),
    st.integers(0, LABELS),
    st.integers(0, 2**32 - 1),
)
@example(LABELS, [{0, 50, 101}, set()], LABELS, 9)  # ranks 47, 102 and 68 go, and those beyond the depth move up
def test_what_a_filter_leaves_keeps_its_score(k, removed, candidates, seed):
    random = np.random.RandomState(seed)
    scores = random.randint(0, 50, (len(removed), LABELS)).astype(np.float32)
    scores[:, random.permutation(LABELS)[candidates:]] = -np.inf
    predictions = TopK.from_scores(scores, k)
    pairs = np.zeros(scores.shape)
    for row, labels in enumerate(removed):
        pairs[row, [*labels]] = 1
    before = TopK(predictions.indices.copy(), predictions.scores.copy())
    found = remove_pairs(predictions, csr_matrix(pairs))
    assert (found.indices.dtype, found.scores.dtype, found.k) == (np.int32, np.float32, 100)
    assert np.array_equal(predictions.indices, before.indices), "the predictions of the caller stay"
    assert np.array_equal(predictions.scores, before.scores)
    for row, labels in enumerate(removed):
        listed = zip(predictions.indices[row].tolist(), predictions.scores[row].tolist(), strict=True)
        expected = [(label, score) for label, score in listed if label >= 0 and label not in labels][:100]
        expected += [(-1, -np.inf)] * (100 - len(expected))
        assert [*zip(found.indices[row].tolist(), found.scores[row].tolist(), strict=True)] == expected


def test_a_filter_of_other_rows():
    predictions = TopK.from_scores(np.ones((2, 3), np.float32), 3)
    with pytest.raises(DataError, match="the filter has 1 rows, the predictions 2"):
        remove_pairs(predictions, csr_matrix((1, 3)))


@pytest.mark.parametrize("k", [3, 100, 102])
def test_without_a_filter_predictions_are_cut_or_padded(k):
    predictions = TopK.from_scores(np.random.RandomState(0).rand(4, LABELS), k)
    found = remove_pairs(predictions, None)
    found.check(4, 100, LABELS)
    assert np.array_equal(found.indices[:, :k], predictions.indices[:, :100])
    assert np.array_equal(found.scores[:, :k], predictions.scores[:, :100])
