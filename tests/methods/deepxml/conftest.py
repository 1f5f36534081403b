import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Texts, TopK


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """For networks this small a second thread only waits for the first."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def learned(fitted, corpus):
    """Fit a method to the corpus and check what it predicts for new documents; returns the method."""

    def run(kind, **values):
        raw_X, raw_Y, pairs, new = corpus
        method = fitted(kind, raw_X, raw_Y, pairs, **values)
        found = method.predict(new, k=5)
        found.check(len(new), 5, len(raw_Y))
        assert set(found.indices[0, :2]) == {4, 6}
        assert found.indices[1, 0] == 1
        assert (found.indices[3] == -1).all()
        assert method.notes["encoder"]["curve"][-1][1] < method.notes["encoder"]["curve"][0][1]
        again = fitted(kind, raw_X, raw_Y, pairs, **values).predict(new, k=5)
        assert found.indices.tobytes() == again.indices.tobytes()
        assert found.scores.tobytes() == again.scores.tobytes()
        json.dumps(method.notes, allow_nan=False)
        return method

    return run


@pytest.fixture
def check_parts(corpus, monkeypatch):
    """Check that a method predicts the same in parts of 8 documents. sizes: of parts, by the names of their constants.

    They are below ``xmcbench.methods``.
    """

    def check(method, sizes):
        from xmcbench.methods.deepxml.network import BagEncoder

        raw_X = corpus[0]
        new = Texts.from_lists([*raw_X, "unknown", *raw_X])
        whole = method.predict(new, k=5)
        for name, size in sizes.items():
            monkeypatch.setattr(f"xmcbench.methods.{name}", size)
        embedded, embed = [], BagEncoder.embed
        monkeypatch.setattr(BagEncoder, "embed", lambda self, bags: embedded.append(bags.shape[0]) or embed(self, bags))
        parts = [*method.predict_batches(new, 5)]
        assert [len(part) for part in parts] == embedded == [8] * 15 + [1]
        found = TopK.joined(parts, 5)
        assert np.array_equal(found.indices, whole.indices)
        np.testing.assert_allclose(found.scores, whole.scores, rtol=1e-6)
        assert (whole.indices[len(raw_X)] == -1).all()
        assert method.notes["instances_without_a_known_token"] == 1

    return check


@pytest.fixture(params=[["garden"], ["garden", "garden", "", "story"], ["", ""]], ids=["one", "equal", "empty"])
def strange(request, fitted):
    """Predictions for strange input, checked for what holds for every method: (labels, known row, predictions).

    One label, one pair or none, labels with equal texts or none, instances without a known token, L < shortlist.
    """

    def run(kind, **values):
        labels = request.param
        raw_X = Texts.from_lists(["the red story", "about a garden", ""])
        new = Texts.from_lists(["red garden", "", "\u4e2d\u6587", "zyzzyva"])
        for row in (0, 2, None):
            pairs = csr_matrix((3, len(labels)), dtype="float32").tolil()
            if row is not None:
                pairs[row, 0] = 1
            method = fitted(kind, raw_X, Texts.from_lists(labels), pairs.tocsr(), **values)
            found = method.predict(new, k=100)
            found.check(len(new), 100, len(labels))
            assert (found.indices[1:] == -1).all()
            json.dumps(method.notes, allow_nan=False)
            yield labels, row, found.indices[0]

    return run
