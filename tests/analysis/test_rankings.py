"""Stored predictions under a filter keep their scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import TopK
from xmcbench.analysis.rankings import remove_pairs

#: More than the 100 that are scored.
LABELS = 103


@given(
    st.integers(1, LABELS),
    st.lists(st.sets(st.integers(0, LABELS - 1), max_size=6), min_size=1, max_size=4),
    st.integers(0, LABELS),
    st.integers(0, 2**32 - 1),
)
def test_what_a_filter_leaves_keeps_its_score(k, removed, candidates, seed):
    random = np.random.RandomState(seed)
    scores = random.randint(0, 50, (len(removed), LABELS)).astype(np.float32)
    scores[:, random.permutation(LABELS)[candidates:]] = -np.inf
    predictions = TopK.from_scores(scores, k)
    pairs = np.zeros(scores.shape)
    for row, labels in enumerate(removed):
        pairs[row, [*labels]] = 1
    found = remove_pairs(predictions, csr_matrix(pairs))
    found.check(len(removed), 100, LABELS)
    for row, labels in enumerate(removed):
        before = zip(predictions.indices[row].tolist(), predictions.scores[row].tolist(), strict=True)
        expected = [pair for pair in before if pair[0] >= 0 and pair[0] not in labels][:100]
        after = zip(found.indices[row].tolist(), found.scores[row].tolist(), strict=True)
        assert [pair for pair in after if pair[0] >= 0] == expected


@pytest.mark.parametrize("k", [3, 100, 102])
def test_without_a_filter_predictions_are_cut_or_padded(k):
    predictions = TopK.from_scores(np.random.RandomState(0).rand(4, LABELS), k)
    found = remove_pairs(predictions, None)
    found.check(4, 100, LABELS)
    assert np.array_equal(found.indices[:, :k], predictions.indices[:, :100])
    assert np.array_equal(found.scores[:, :k], predictions.scores[:, :100])
