import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Texts
from xmcbench.methods.knn import KNN


@pytest.fixture
def predicted(checkpoint, tmp_path):
    def predict(raw_X, raw_Y, pairs, new, k, **values):
        method = KNN(backbone=str(checkpoint()), **values)
        method.artifacts = Artifacts(tmp_path)
        method.fit(raw_X, raw_Y, pairs)
        found = method.predict(new, k=k)
        found.check(len(new), k, len(raw_Y))
        json.dumps(method.notes, allow_nan=False)
        return found, method

    return predict


def test_the_encoder_measures_similarity(predicted, stories):
    """An instance of the training set is its own nearest neighbor: alone, it votes for its own labels."""
    raw_X, raw_Y, pairs = stories
    found, method = predicted(raw_X, raw_Y, pairs, raw_X, 3, neighbors=1, text=0.0)
    again, _ = predicted(raw_X, raw_Y, pairs, raw_X, 3, neighbors=1, text=0.0)
    assert found.indices.tobytes() == again.indices.tobytes()
    for row, labels in enumerate(found.indices):
        own = pairs[row].indices
        assert set(labels[labels >= 0]) <= set(own) or raw_X[row] in [raw_X[each] for each in range(row)]
    assert method.notes["backbone"]["pooling"] == "mean"
    assert method.describe() == method.backbone.rpartition("/")[2]


@pytest.mark.parametrize("labels", [["garden"], ["garden", "garden", "", "story"]])
def test_strange_input(predicted, labels):
    raw_X = Texts.from_lists(["the red story", "about a garden", ""])
    new = Texts.from_lists(["red garden", "", "\u4e2d\u6587", "zyzzyva"])
    one = csr_matrix(([1.0], ([1], [0])), shape=(3, len(labels)), dtype=np.float32)
    found, _ = predicted(raw_X, Texts.from_lists(labels), one, new, 100, power=4.0)
    assert (found.indices[:, 0] >= 0).all()
