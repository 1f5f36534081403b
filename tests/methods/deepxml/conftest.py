import json

import pytest
from scipy.sparse import csr_matrix

from xmcbench import Texts


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """For networks this small a second thread only waits for the first."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
