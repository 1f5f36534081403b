from __future__ import annotations

import math

import numpy as np
import pytest
from protocol_reference import make_pairs

from xmcbench.errors import DataError
from xmcbench.metrics import inverse_propensity, label_frequency

TRAINING = make_pairs([[0, 1], [0], [0, 2], [], [1]], 4)


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.6, 2.6), (0.5, 0.4)])
def test_the_formula(a, b):
    c = (math.log(5) - 1) * (b + 1) ** a
    expected = [1 + c * (n + b) ** -a for n in (3, 2, 1, 0)]
    np.testing.assert_allclose(inverse_propensity(TRAINING, a, b), expected, rtol=1e-12)


def test_a_label_of_one_pair_weighs_log_n():
    assert inverse_propensity(TRAINING, 0.55, 1.5)[2] == pytest.approx(math.log(5))


def test_rare_labels_weigh_more():
    assert (np.diff(inverse_propensity(TRAINING, 0.55, 1.5)) > 0).all()


def test_label_frequency():
    assert label_frequency(TRAINING).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(("a", "b"), [(0, 1), (0.5, 0), (math.nan, 1), (0.5, math.inf), (-1, 1)])
def test_bad_constants(a, b):
    with pytest.raises(DataError, match="not both positive"):
        inverse_propensity(TRAINING, a, b)


def test_too_few_rows():
    with pytest.raises(DataError, match="at least 3 training instances, there are 2"):
        inverse_propensity(TRAINING[:2], 0.55, 1.5)
