"""Ranks over datasets: Friedman's test is scipy's, critical differences are those of the tables."""

import numpy as np
import pytest
from scipy import stats

from xmcbench.errors import DataError
from xmcbench.metrics import friedman


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ties", [False, True])
def test_the_statistic_is_scipys(seed, ties):
    random = np.random.RandomState(seed)
    shape = (random.randint(2, 12), random.randint(3, 9))
    values = random.randint(0, 4, shape).astype(float) if ties else random.normal(size=shape)
    expected = stats.friedmanchisquare(*values.T)
    found = friedman.friedman(values)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12, abs=1e-12)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-12, abs=1e-12)


def test_ranks_are_scipys_of_falling_values():
    values = np.random.RandomState(0).randint(0, 5, (6, 7)).astype(float)
    assert np.array_equal(friedman.ranks(values), np.apply_along_axis(stats.rankdata, 1, -values))


@pytest.mark.parametrize(
    ("methods", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (10, 3.164)]
)
def test_critical_differences_are_those_of_the_table(methods, quantile):
    """Demšar (2006), table 5a."""
    expected = quantile * np.sqrt(methods * (methods + 1) / (6 * 14))
    assert friedman.critical_difference(methods, 14) == pytest.approx(expected, rel=4e-4)


def test_a_test_that_cannot_be_made():
    assert friedman.friedman(np.ones((5, 2))) is None
    assert friedman.friedman(np.arange(3.0)[None]) is None
    assert friedman.friedman(np.ones((5, 4))) is None
    with pytest.raises(DataError, match="with gaps"):
        friedman.ranks(np.array([[1.0, np.nan]]))


def test_wins_are_counted_pair_by_pair():
    values = np.random.RandomState(1).randint(0, 4, (5, 4)).astype(float)
    expected = []
    for mine in range(4):
        scores = [
            0.5 if block[mine] == block[other] else float(block[mine] > block[other])
            for block in values
            for other in range(4)
            if other != mine
        ]
        expected.append(np.mean(scores))
    assert friedman.win_rates(values) == pytest.approx(expected)


def test_intervals_hold_the_rank_and_cover_it():
    values = np.random.RandomState(0).normal(size=(friedman.FEWEST_BLOCKS, 4))
    low, high = friedman.rank_intervals(values).T
    average = friedman.ranks(values).mean(axis=0)
    assert ((low <= average) & (average <= high)).all()
    assert (low < high).all()
    same = np.tile(np.arange(4.0), (friedman.FEWEST_BLOCKS, 1))
    assert friedman.rank_intervals(same).tolist() == [[4, 4], [3, 3], [2, 2], [1, 1]]
    assert friedman.rank_intervals(same[1:]) is None
    expected = 1 + 2 * stats.norm.cdf(-0.5 / np.sqrt(2))  # one, and each other method that is above
    covered = 0
    for seed in range(100):
        drawn = np.random.RandomState(seed).normal([0.5, 0, 0], size=(20, 3))
        low, high = friedman.rank_intervals(drawn, seed)[0]
        covered += low <= expected <= high
    assert 0.88 <= covered / 100 <= 0.98
