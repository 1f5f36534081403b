import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import Texts, TopK
from xmcbench.methods.hybrid import fusion
from xmcbench.methods.hybrid.fusion import (
    find_own_labels,
    fit_weights,
    fuse,
    hold_out_rows,
    normalize,
    only_seen,
)


def make_ranking(*rows):
    """A TopK of rows of (label, score), filled up to the longest."""
    width = max(map(len, rows))
    whole = [[*row, *[(-1, -np.inf)] * (width - len(row))] for row in rows]
    return TopK.ranked(
        np.array([[label for label, _ in row] for row in whole]),
        np.array([[score for _, score in row] for row in whole]),
    )


FULL = make_ranking([(3, 0.9), (1, 0.5), (0, 0.1)])
SHORT = TopK(np.array([[2, 1, -1]], np.int32), np.array([[4.0, 2.0, -np.inf]], np.float32))


@pytest.mark.parametrize(
    ("how", "full", "short"),
    [
        ("range", [1.0, 0.5, 0.0], [1.0, 0.5, 0.0]),
        ("shift", [0.8, 0.4, 0.0], [4.0, 2.0, 0.0]),
        ("deviation", [0.8 / 0.326599, 0.4 / 0.326599, 0.0], [4.0, 2.0, 0.0]),
        ("rank", [1 / 61, 1 / 62, 1 / 63], [1 / 61, 1 / 62, 0.0]),
    ],
)
def test_normalization(how, full, short):
    """Of a full ranking the last place is what the labels behind it have at most; a short one gave them 0."""
    np.testing.assert_allclose(normalize(FULL, how, 5), [full], rtol=1e-5)
    np.testing.assert_allclose(normalize(SHORT, how, 5), [short], rtol=1e-5)


def test_equal_scores_and_empty_rows():
    same = make_ranking([(0, 0.3), (1, 0.3)], [])
    for how in ("range", "deviation", "shift"):
        assert normalize(same, how, 3).tolist() == [[0, 0], [0, 0]]
    short = make_ranking([(0, 8.0)], [(1, 8.0), (2, 8.0)], [(0, 8.0), (1, 8.0), (2, 4.0)])
    for how in ("range", "deviation"):
        assert normalize(short, how, 4)[:2].tolist() == [[1, 0, 0], [1, 1, 0]]
    found = fuse([same, same], [1, 1], "range", 3, 3)
    assert found.indices.tolist() == [[0, 1, -1], [-1, -1, -1]]


def test_a_weighted_sum():
    found = fuse([FULL, SHORT], [2, 1], "range", 5, 5)
    assert found.indices.tolist() == [[3, 1, 2, 0, -1]]
    np.testing.assert_allclose(found.scores[0, :4], [2.0, 1.5, 1.0, 0.0])
    found.check(1, 5, 5)


@given(st.integers(0, 10_000), st.sampled_from(["range", "deviation", "shift", "rank"]))
def test_against_a_plain_sum(seed, how):
    rng = np.random.default_rng(seed)
    parts = [TopK.from_scores(rng.normal(size=(4, 9)).astype(np.float32), 6) for _ in range(3)]
    weights = rng.random(3)
    dense = np.full((4, 9), -np.inf)
    for part, weight in zip(parts, weights, strict=True):
        for row in range(4):
            for label, value in zip(part.indices[row], normalize(part, how, 9)[row], strict=True):
                dense[row, label] = max(dense[row, label], 0) + weight * value
    expected = TopK.from_scores(dense.astype(np.float32), 9)
    found = fuse(parts, weights, how, 9, 9)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)


def test_the_unit_of_a_part_does_not_count():
    """Scores of another scale and place, as BM25's beside cosines, fuse alike."""
    other = TopK(FULL.indices, 100 * FULL.scores - 30)
    single = make_ranking([(2, 0.3)], [(0, 0.3), (1, 0.3)])
    for how in ("range", "deviation", "rank"):
        found = [fuse([part, SHORT], [1, 1], how, 5, 5) for part in (FULL, other)]
        np.testing.assert_allclose(found[0].scores[0, :4], found[1].scores[0, :4], rtol=1e-4)
        scaled = [normalize(TopK(single.indices, single.scores * scale), how, 5) for scale in (1, 30)]
        np.testing.assert_allclose(*scaled, rtol=1e-6)


@pytest.mark.parametrize("how", ["range", "deviation", "shift", "rank"])
def test_a_ranking_of_all_labels_is_full_whatever_is_asked_for(how):
    padded = TopK(np.array([[3, 1, 0, -1, -1]], np.int32), np.array([[0.9, 0.5, 0.1, -np.inf, -np.inf]], np.float32))
    np.testing.assert_array_equal(normalize(padded, how, 3)[:, :3], normalize(FULL, how, 3))
    # Of four labels, it is a ranking that ended early.
    assert normalize(padded, how, 4)[0, 2] > 0


def test_a_weight_of_zero_brings_no_labels():
    found = fuse([FULL, SHORT], [0, 1], "range", 5, 5)
    assert found.indices.tolist() == [[2, 1, -1, -1, -1]]
    assert fuse([FULL, SHORT], [1, 0], "range", 5, 5).indices.tolist() == [[3, 1, 0, -1, -1]]


def pairs_of(*rows, labels=6):
    columns = [label for row in rows for label in row]
    starts = np.cumsum([0, *map(len, rows)])
    return csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(rows), labels))


def test_weights_find_the_part_that_is_right():
    pairs = pairs_of(*[[row % 6] for row in range(30)])
    right = make_ranking(*[[(row % 6, 0.9), ((row + 1) % 6, 0.8)] for row in range(30)])
    wrong = make_ranking(*[[((row + 2) % 6, 0.9), ((row + 3) % 6, 0.1)] for row in range(30)])
    weights, value = fit_weights([wrong, right], pairs)
    assert weights[1] > weights[0]
    assert sum(weights) == pytest.approx(1)
    assert value == 1.0
    assert fit_weights([right, right], pairs)[0] == [0.5, 0.5]


def test_a_part_that_was_left_out_can_come_back(monkeypatch):
    """A weight of 0 stayed 0 whatever it was multiplied by, also where the part was useful beside the new weights."""
    seen = []

    def without_the_first_and_then_with_it(rankings, weights, *_):
        seen.append(list(weights))
        if weights[0] == 0:
            return 1.0
        return 2.0 if len(seen) > 15 and weights[0] == 0.5 * weights[1] else 0.0

    monkeypatch.setattr(fusion, "_ndcg", without_the_first_and_then_with_it)
    weights, value = fit_weights([FULL, SHORT], None)
    assert (value, weights) == (2.0, [pytest.approx(1 / 3), pytest.approx(2 / 3)])


def test_factors_are_of_the_weight_before_the_pass(monkeypatch):
    tried, values = [], iter(range(1000))

    def better_each_time(rankings, weights, *_):
        tried.append(weights)
        return float(next(values))

    monkeypatch.setattr(fusion, "_ndcg", better_each_time)
    fit_weights([FULL, SHORT], None)
    assert [first for first, _ in tried[1:8]] == [*fusion._FACTORS]


def test_what_is_held_out():
    pairs = pairs_of(*[[1] if row % 2 else [] for row in range(40)])
    rows = hold_out_rows(pairs, 0.2, 100, 0)
    assert len(rows) == 4
    assert (rows % 2 == 1).all()
    assert len(hold_out_rows(pairs, 0.9, 3, 0)) == 3
    assert not np.array_equal(rows, hold_out_rows(pairs, 0.2, 100, 1))
    assert len(hold_out_rows(pairs_of([1], [2]), 0.9, 5, 0)) == 0
    assert len(hold_out_rows(pairs_of([], []), 0.5, 5, 0)) == 0


def test_labels_without_a_known_pair_and_the_instance_itself_do_not_count():
    found = make_ranking([(0, 0.9), (1, 0.8), (2, 0.7)], [(0, 0.9), (1, 0.8), (2, 0.7)])
    texts = Texts.from_lists(["a", "b"], uids=["u", "l1"])
    labels = Texts.from_lists(list("xyz"), uids=["l0", "l1", "l2"])
    own = find_own_labels(texts, labels)
    assert own.tolist() == [-2, 1]
    kept = only_seen(found, own, pairs_of([1], [2], labels=3))
    assert kept.indices.tolist() == [[1, 2, -1], [2, -1, -1]]


def test_numbers_of_rows_do_not_tell_which_label_is_an_instance():
    """Ids of a thesaurus may be numbers, and instances without ids have those of their rows."""
    numbered, named = (Texts.from_lists(list("xy"), uids=uids) for uids in (["0", "1"], ["1", "2"]))
    assert find_own_labels(named, numbered).tolist() == [-2, -2]
    assert find_own_labels(numbered, named).tolist() == [-2, -2]
    assert find_own_labels(named, named).tolist() == [0, 1]


def test_the_order_of_three_parts_decides_no_tie():
    """Labels at the same places, each in another part, have the same sum."""
    places = np.array([[4, 1, 3], [3, 4, 1], [1, 3, 4]])
    parts = [
        make_ranking([(label, 1 / (60 + places[label, part])) for label in np.argsort(places[:, part])])
        for part in range(3)
    ]
    found = fuse(parts, [1, 1, 1], "rank", 3, 3)
    assert found.indices.tolist() == [[0, 1, 2]]
    assert len({*found.scores[0]}) == 1


@pytest.mark.parametrize("how", ["range", "deviation", "shift"])
@pytest.mark.parametrize(
    ("scores", "labels"), [([np.inf, 1], 2), ([np.inf, 9, 8], 3), ([np.inf, -3, -9], 5), ([np.inf], 1), ([np.inf], 4)]
)
def test_an_infinite_score_stays_first(how, scores, labels):
    ranking = make_ranking([*enumerate(scores)])
    assert np.isfinite(normalize(ranking, how, labels)).all()
    found = fuse([ranking, ranking], [0.5, 0.5], how, labels, labels)
    found.check(1, labels, labels)
    assert found.indices[0, : len(scores)].tolist() == [*range(len(scores))]
    assert found.scores[0, 0] > found.scores[0, 1:].max(initial=0)


def test_an_infinite_score_is_as_far_above_the_next_as_that_is_above_the_last():
    assert normalize(make_ranking([(0, np.inf), (1, 9), (2, 8)]), "shift", 3).tolist() == [[2, 1, 0]]
    assert normalize(make_ranking([(0, np.inf)]), "shift", 3).tolist() == [[1]]
