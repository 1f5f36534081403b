"""PECOS's ranker gives what the model that it trains gives."""

import numpy as np
import pytest
from scipy.sparse import random as random_matrix

from xmcbench.methods.xr_linear import PecosRanker, _label_tree, _quiet


@pytest.mark.parametrize(("cost", "threshold"), [(1.0, 0.0), (0.05, 0.0), (1.0, 0.3)])
def test_it_ranks_as_the_trained_model_does(cost, threshold):
    from pecos.xmc.xlinear.model import XLinearModel

    rng = np.random.default_rng(1)
    X, asked = (random_matrix(n, 60, 0.2, "csr", np.float32, rng) for n in (300, 40))
    pairs = random_matrix(300, 50, 0.05, "csr", np.float32, rng)
    pairs.data[:] = 1
    pairs = pairs[:, np.arange(50) != 7].tocsr()
    pairs.resize(300, 60)  # labels 49 to 59 have no pair
    seen = np.unique(pairs.indices)
    tree = {"nr_splits": 4, "max_leaf_size": 5}
    found = PecosRanker.train(X, pairs, **tree, cost=cost, threshold=threshold, seed=3).search(asked, 8, 6)
    with _quiet():
        known = pairs[:, seen].tocsc()
        options = {"solver_type": "L2R_L2LOSS_SVC_DUAL", "negative_sampling_scheme": "tfn", "nr_splits": 4}
        chain = _label_tree(X, known, *tree.values(), 3)
        model = XLinearModel.train(X, known, C=chain, Cp=cost, Cn=cost, threshold=threshold, **options)
        expected = model.predict(asked, beam_size=6, only_topk=8).toarray()
    assert found.indices.shape == (40, 8)
    assert set(found.indices.ravel()) <= {-1, *seen}
    for row, (labels, scores) in enumerate(zip(found.indices, found.scores, strict=True)):
        there = labels >= 0
        np.testing.assert_allclose(scores[there], expected[row, np.searchsorted(seen, labels[there])], rtol=1e-6)
        assert there.sum() == np.count_nonzero(expected[row])
