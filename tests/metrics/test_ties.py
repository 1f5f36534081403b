"""Ties with the best row: the tests of ``paired``, in closed form."""

import numpy as np
import pytest

from xmcbench.metrics import METRICS, Scores, paired
from xmcbench.metrics.ties import Contender, difference, find_ties, p_value


def run(hits):
    """A run whose metrics are all the mean of ``hits``."""
    per_instance = {name: np.asarray(hits, float) for name in METRICS if name[:3] != "PSP"}
    values = {name: float(column.mean()) for name, column in per_instance.items()}
    return Scores(values, len(hits), 0, per_instance, {})


def contender(*runs, deterministic=False, subset="s"):
    return Contender([run(hits) for hits in runs], [f"{subset}{place}" for place, _ in enumerate(runs)], deterministic)


def draw(rng, share, rows=2000):
    return (rng.random(rows) < share).astype(float)


@pytest.mark.parametrize("gap", [0.0, 0.005, 0.01, 0.02])
def test_a_single_run_is_tested_as_by_randomization(gap):
    """The normal tail and the randomized one differ by a hundredth at most, and agree on significance."""
    rng = np.random.default_rng(1)
    first = draw(rng, 0.4)
    second = np.where(rng.random(2000) < 0.1 + gap, 1 - first, first)
    one, other = contender(first, deterministic=True), contender(second, deterministic=True)
    exact = paired.compare(one.runs, other.runs, deterministic=(True, True))["P@1"].p
    assert p_value(one, other, "P@1") == pytest.approx(exact, abs=0.01)


def test_several_runs_are_tested_over_seeds():
    rng = np.random.default_rng(2)
    one, other = (contender(*(draw(rng, share) for _ in range(3))) for share in (0.42, 0.40))
    exact = paired.compare(one.runs, other.runs, matched=True)["P@1"].p
    assert p_value(one, other, "P@1") == pytest.approx(exact, rel=1e-9)
    apart = Contender(other.runs, ["t0", "t1", "t2"], deterministic=False)
    exact = paired.compare(one.runs, apart.runs)["P@1"].p
    assert p_value(one, apart, "P@1") == pytest.approx(exact, rel=1e-9)


def test_the_interval_is_that_of_paired():
    rng = np.random.default_rng(6)
    one, other = (contender(*(draw(rng, share) for _ in range(3))) for share in (0.42, 0.40))
    exact = paired.compare(one.runs, other.runs, matched=True)["P@1"]
    assert difference(one, other, "P@1") == pytest.approx((exact.low, exact.high, exact.p), rel=1e-9)
    first, second = contender(draw(rng, 0.4), deterministic=True), contender(draw(rng, 0.38), deterministic=True)
    exact = paired.compare(first.runs, second.runs, deterministic=(True, True))["P@1"]
    found = difference(first, second, "P@1")
    assert found[:2] == pytest.approx((exact.low, exact.high), abs=5e-4)
    few, fewer = (contender(draw(rng, share, 50), deterministic=True) for share in (0.5, 0.3))
    exact = paired.compare(few.runs, fewer.runs, deterministic=(True, True), matched=True)["P@1"]
    assert difference(few, fewer, "P@1") == (exact.low, exact.high, exact.p)


def test_few_rows_are_tested_as_by_paired():
    rng = np.random.default_rng(3)
    one, other = (contender(draw(rng, share, 50), deterministic=True) for share in (0.5, 0.3))
    exact = paired.compare(one.runs, other.runs, deterministic=(True, True), matched=True)["P@1"].p
    assert p_value(one, other, "P@1") == exact


def test_equal_rows_are_tied_and_clear_differences_are_not():
    rng = np.random.default_rng(4)
    best = draw(rng, 0.5)
    worse = best * (rng.random(2000) < 0.8)
    rows = {"best": contender(best), "twin": contender(best.copy()), "worse": contender(worse)}
    assert find_ties(rows, ["P@1", "R@100"]) == {metric: {"twin"} for metric in ("P@1", "R@100")}


def test_holms_correction_is_over_the_column():
    """One row of p = 0.02 is separated alone, and tied among thirty others that are equal to the best."""
    rng = np.random.default_rng(5)
    best = draw(rng, 0.5)
    flipped = np.flatnonzero(best)[:27]
    other = best.copy()
    other[flipped] = 0
    other[np.flatnonzero(best == 0)[:12]] = 1
    pair = {"best": contender(best), "other": contender(other)}
    assert p_value(*pair.values(), "P@1") == pytest.approx(0.0164, abs=0.001)
    assert find_ties(pair, ["P@1"]) == {"P@1": frozenset()}
    crowd = {f"twin{number}": contender(best - 0.0) for number in range(30)}
    assert "other" in find_ties({**pair, **crowd}, ["P@1"])["P@1"]


def test_no_row_has_no_ties():
    assert find_ties({}, ["P@1"]) == {"P@1": frozenset()}
