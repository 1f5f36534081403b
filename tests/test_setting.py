import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random

from xmcbench import UsageError
from xmcbench.setting import Setting, draw
from xmcbench.storage.arrays import Pattern, pairs_digest, read_pairs
from xmcbench.storage.canonical import sha256_json


def pairs(seed=0, rows=60, labels=40, density=0.05):
    matrix = random(rows, labels, density, format="csr", dtype=np.float32, random_state=seed)
    matrix.data[:] = 1
    matrix.sort_indices()
    return matrix


def draw_subset(matrix, setting, seed):
    return draw(Pattern(matrix.indptr, matrix.indices, matrix.shape[1]), setting, seed)


def cells(matrix):
    return set(zip(*matrix.nonzero(), strict=True))


@given(st.integers(0, 50), st.sampled_from(["label", "pair"]), st.floats(0.03, 1), st.floats(0.03, 1))
def test_draws_are_nested_and_of_the_stated_size(seed, by, one, other):
    matrix = pairs()
    small, large = sorted([one, other])
    few, many = (draw_subset(matrix, Setting.of("fs", ratio, by), seed).pairs for ratio in (small, large))
    assert cells(few) <= cells(many) <= cells(matrix)
    units = len(np.unique(matrix.indices)) if by == "label" else matrix.nnz
    number = len(np.unique(few.indices)) if by == "label" else few.nnz
    assert number == math.floor(Fraction(str(small)) * units)
    if by == "label":
        kept = np.unique(few.indices)
        assert few.nnz == np.isin(matrix.indices, kept).sum()


@pytest.mark.parametrize("ratio", [np.float32(0.1), np.float64(0.1), Fraction(1, 10)])
def test_a_ratio_is_any_real_number(ratio):
    assert Setting.of("fs", ratio) == Setting.of("fs", 0.1)
    with pytest.raises(UsageError, match="is outside"):
        Setting.of("fs", ratio * 20)


def test_sizes_are_exact_where_floats_are_not():
    matrix = csr_matrix(np.ones((1, 100), np.float32))
    assert draw_subset(matrix, Setting.of("fs", 0.29), 0).pairs.nnz == 29


def test_zero_shot_has_no_subset_and_full_has_all():
    assert draw_subset(pairs(), Setting.of("ez"), 0) is None
    full = draw_subset(pairs(), Setting.of("full"), 0)
    assert cells(full.pairs) == cells(pairs())
    assert full.digest == draw_subset(pairs(), Setting.of("full"), 1).digest


def test_seeds_draw_differently_and_repeatably():
    setting = Setting.of("fs", 0.3)
    digests = [draw_subset(pairs(), setting, seed).digest for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]


def test_a_draw_that_selects_nothing_says_what_would():
    with pytest.raises(UsageError, match=r"selects nothing \(0.02\d+ selects one\)"):
        draw_subset(pairs(), Setting.of("fs", 0.001), 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fs",), "needs a ratio"),
        (("fs", 0), "outside"),
        (("fs", 1.5), "outside"),
        (("fs", float("nan")), "outside"),
        (("fs", 0.5, "row"), "cannot sample by"),
        (("ez", 0.5), "cannot be used with"),
        (("zero",), "unknown setting"),
    ],
)
def test_refuses_a_wrong_setting(words, message):
    with pytest.raises(UsageError, match=message):
        Setting.of(*words)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_subset_is_the_draw_of_its_own_seed(seed):
    """numpy has frozen the streams of RandomState: whoever has the pairs can draw a subset again."""
    matrix, rows = pairs(), np.repeat(np.arange(60), np.diff(pairs().indptr))
    shuffled = np.random.RandomState(seed).permutation(matrix.nnz)[: matrix.nnz // 4]
    expected = {(rows[place], matrix.indices[place]) for place in shuffled}
    by_pair = draw_subset(matrix, Setting.of("fs", 0.25, "pair"), seed)
    assert cells(by_pair.pairs) == expected
    labels = np.unique(matrix.indices)
    kept = labels[np.random.RandomState(seed).permutation(len(labels))[: len(labels) // 4]]
    by_label = draw_subset(matrix, Setting.of("fs", 0.25), seed)
    assert cells(by_label.pairs) == {cell for cell in cells(matrix) if cell[1] in kept}
    assert (by_pair.name, by_pair.seed) == (f"fs-pair-0.25-s{seed}", seed)
    assert (by_label.name, by_label.labels) == (f"fs-label-0.25-s{seed}", len(kept))
    assert by_label.instances == len({row for row, _ in cells(by_label.pairs)})


def test_a_saved_subset_is_read_back(tmp_path):
    subset = draw_subset(pairs(), Setting.of("fs", 0.5), 3)
    subset.save(tmp_path / "s.npz")
    again = read_pairs(tmp_path / "s.npz", 40)
    assert again.dtype == np.float32
    assert again.shape == subset.pairs.shape
    assert pairs_digest(again.indptr, again.indices) == subset.digest
    assert cells(again) == cells(subset.pairs)


def test_what_a_reader_of_a_table_calls_it():
    assert Setting.of("ez").title == "zero-shot (no pairs)"
    assert Setting.of("full").title == "full (all training pairs)"
    assert Setting.of("fs", 0.05).title == "few-shot, 5% of the labels"
    assert Setting.of("fs", 1, "pair").title == "few-shot, 100% of the pairs"


@pytest.mark.parametrize("name", ["slug", "flags", "title"])
def test_two_ratios_never_have_one_name(name):
    ratios = (1 / 3, 0.3333333333, 0.33333334, 0.01, 0.07, 0.1, 1e-05, 1.0)
    named = [getattr(Setting.of("fs", ratio), name) for ratio in ratios]
    assert len({*named}) == len(ratios)
    assert [name for name in named if name.endswith(("0.1", "10% of the labels"))]


@pytest.mark.parametrize("ratio", [0.01, 0.07, 1 / 3, 1e-05, 1.0])
def test_its_flags_mean_the_same_setting(ratio):
    words = Setting.of("fs", ratio, "pair").flags.split()
    assert Setting.of(words[1], float(words[5]), words[3]) == Setting.of("fs", ratio, "pair")


def test_a_share_is_one_key_however_it_is_written():
    same = [Setting.of("fs", ratio) for ratio in (1, 1.0)]
    assert len({*same}) == 1
    assert len({sha256_json(msgspec.to_builtins(setting)) for setting in same}) == 1


@pytest.mark.parametrize(("by", "what"), [("label", "3 labels with a training pair"), ("pair", "4 training pairs")])
def test_a_ratio_that_draws_nothing_says_of_what(by, what):
    pairs = csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32))
    with pytest.raises(UsageError, match=f"a ratio of 0.1 of {what} selects nothing"):
        draw_subset(pairs, Setting.of("fs", 0.1, by), 0)
