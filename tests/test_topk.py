import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_matrix

from xmcbench import MethodError, TopK
from xmcbench.errors import DataError, StorageError

scores = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 9)),
    elements=st.sampled_from([-np.inf, -2.0, 0.0, 1.0, 1.0, 3.5]),
)


def by_hand(row, k):
    order = sorted((-score, label) for label, score in enumerate(row) if score != -np.inf)[:k]
    return [label for _, label in order] + [-1] * (k - len(order))


@given(scores, st.integers(1, 12))
def test_from_dense_scores(matrix, k):
    best = TopK.from_scores(matrix, k)
    best.check(len(matrix), k, matrix.shape[1])
    assert best.indices.tolist() == [by_hand(row, k) for row in matrix]


@given(scores, st.integers(1, 12))
def test_from_sparse_scores_takes_stored_entries_only(matrix, k):
    stored = np.where(matrix > 0, matrix, 0)
    best = TopK.from_scores(csr_matrix(stored), k)
    best.check(len(matrix), k, matrix.shape[1])
    assert best.indices.tolist() == [by_hand(np.where(row > 0, row, -np.inf), k) for row in stored]


def test_what_only_float64_tells_apart_is_a_tie_in_float32():
    close = csr_matrix(np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 1.0 + 1e-12]]))
    for scores, right in ((close, [[5, 2, -1]]), (close.astype(np.float32), [[2, 5, -1]])):
        best = TopK.from_scores(scores, 3)
        best.check(1, 3, 6)
        assert best.indices.tolist() == right


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_nan_is_refused_wherever_it_is_ranked(form):
    """It would come last, and nobody would see that the label is never predicted."""
    matrix = np.array([[1.0, 2.0, np.inf, -np.inf], [1.0, np.nan, 3.0, 2.0]])
    with pytest.raises(MethodError, match=r"row 1 has a score that is NaN \(a diverged training\? check the loss\)"):
        TopK.from_scores(form(matrix), 1)
    assert TopK.from_scores(form(matrix[:1]), 4).indices.tolist() == [[2, 1, 0, -1]]


def test_candidates_that_cannot_be_ranked_are_refused():
    with pytest.raises(MethodError, match="row 0 has a score that is NaN"):
        TopK.ranked(np.array([[0, 1]]), np.array([[1.0, np.nan]]))
    for index in (2**32, -(2**31) - 1):
        with pytest.raises(MethodError, match="outside the numbers of int32"):
            TopK.ranked(np.array([[index, 1]]), np.array([[1.0, 2.0]]))
    best = TopK.ranked(np.array([[5, -1, 3, 4]]), np.array([[-np.inf, 7.0, 1.0, 2.0]]))
    best.check(1, 4, 6)
    assert best.indices.tolist() == [[4, 3, -1, -1]]


def test_masked_and_complex_scores_are_refused():
    """As arrays of numbers, they would lose their mask and their imaginary parts."""
    masked = np.ma.masked_array([[0.9, 0.5, 0.1]], [[1, 0, 0]])
    said = r"some of the scores are masked, and would be ranked \(.* scores\.filled\(-np\.inf\)\)"
    with pytest.raises(MethodError, match=said):
        TopK.from_scores(masked, 2)
    with pytest.raises(MethodError, match=said):
        TopK.ranked(np.array([[0, 1, 2]]), masked)
    with pytest.raises(MethodError, match=said):
        TopK.from_rows(np.array([0, 3]), np.arange(3), masked[0], 3)
    candidates = np.ma.masked_array([[0, 1, 2]], [[1, 0, 0]])
    with pytest.raises(MethodError, match=r"some of the indices are masked, .* score -inf or index -1"):
        TopK.ranked(candidates, masked.data)
    assert TopK.from_scores(masked.filled(-np.inf), 2).indices.tolist() == [[1, 2]]
    assert TopK.from_scores(np.ma.masked_array(masked.data), 2).indices.tolist() == [[0, 1]]
    for scores in ([[3j, 1, 2j]], np.array([[3j, 1, 2j]], np.complex64), csr_matrix([[3j, 1, 2j]])):
        with pytest.raises(MethodError, match=r"complex numbers \(rank by their real part: scores\.real"):
            TopK.from_scores(scores, 2)


def test_entries_of_a_sparse_matrix_that_name_a_label_twice_are_summed():
    """As scipy reads them."""
    twice = csr_matrix(([1.0, 2.0, 3.5], [0, 0, 1], [0, 3]), shape=(1, 4))
    best = TopK.from_scores(twice, 3)
    best.check(1, 3, 4)
    assert (best.indices.tolist(), best.scores.tolist()) == ([[1, 0, -1]], [[3.5, 3.0, -np.inf]])
    assert twice.nnz == 3


@given(scores, st.integers(0, 10))
def test_ranked_restores_the_order(matrix, seed):
    best = TopK.from_scores(matrix, matrix.shape[1])
    shuffle = np.random.RandomState(seed).permutation(matrix.shape[1])
    again = TopK.ranked(best.indices[:, shuffle], best.scores[:, shuffle])
    assert np.array_equal(again.indices, best.indices)
    assert np.array_equal(again.scores, best.scores)


@given(scores, st.integers(0, 3))
def test_rows_end_to_end_become_columns(matrix, spare):
    """Predictions one row after the other; a row may be empty, and there may be more columns."""
    k = matrix.shape[1] + spare
    best = TopK.from_scores(matrix, k)
    there = best.indices >= 0
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    found = TopK.from_rows(starts, best.indices[there], best.scores[there], k)
    assert np.array_equal(found.indices, best.indices)
    assert np.array_equal(found.scores, best.scores)
    found.check(len(matrix), k, matrix.shape[1])


def test_rows_put_equal_scores_in_order():
    labels, values = np.array([7, 2, 1]), np.array([0.5 + 1e-12, 0.5, 0.1])
    for scores, right in ((values, [[7, 2, -1], [1, -1, -1]]), (values.astype(np.float32), [[2, 7, -1], [1, -1, -1]])):
        found = TopK.from_rows(np.array([0, 2, 3]), labels, scores, 3)
        assert found.indices.tolist() == right
        found.check(2, 3, 8)
    # Where one is out of order, all of the row is ranked.
    fallen = TopK.from_rows(np.array([0, 3]), np.array([5, 9, 1]), np.array([0.3, 0.4, 0.4]), 3)
    assert fallen.indices.tolist() == [[1, 9, 5]]
    behind = TopK.from_rows(np.array([0, 3]), np.array([5, 9, 1]), np.array([0.9, 0.4, 0.4]), 3)
    assert behind.indices.tolist() == [[5, 1, 9]]
    assert TopK.from_rows(np.array([0, 0]), np.empty(0, int), np.empty(0), 2).indices.tolist() == [[-1, -1]]
    assert TopK.from_rows(np.array([0]), np.empty(0, int), np.empty(0), 2).indices.shape == (0, 2)


def test_missing_candidates_are_ranked_last():
    found = TopK.ranked(np.array([[3, -1, 2]]), np.array([[1.0, 5.0, 2.0]]))
    assert found.indices.tolist() == [[2, 3, -1]]
    assert found.scores.tolist() == [[2.0, 1.0, -np.inf]]
    assert TopK.ranked(np.array([[-1, 4]]), np.full((1, 2), -np.inf)).indices.tolist() == [[-1, -1]]


def test_without_labels_nothing_is_predicted():
    assert TopK.from_scores(np.zeros((2, 0)), 3).indices.tolist() == [[-1] * 3] * 2


def test_parts_are_joined_below_one_another():
    first = TopK.from_scores(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), 2)
    second = TopK.from_scores(np.array([[1.0, 5.0, 3.0]]), 1)
    found = TopK.joined([first, second], 3)
    assert found.indices.tolist() == [[2, 1, -1], [0, 1, -1], [1, -1, -1]]
    assert found.scores.tolist() == [[3, 2, -np.inf], [3, 2, -np.inf], [5, -np.inf, -np.inf]]
    found.check(3, 3, 3)
    more = TopK.joined([first], 2, 4)
    more.check(4, 2, 3)
    assert more.indices.tolist() == [[2, 1], [0, 1], [-1, -1], [-1, -1]]
    TopK.joined([], 2, 3).check(3, 2, 1)
    assert TopK.joined([], 2).indices.shape == (0, 2)


@given(scores, st.integers(1, 12))
def test_predictions_as_pairs(matrix, k):
    best = TopK.from_scores(matrix, k)
    pairs = best.pairs(matrix.shape[1] + 2)
    assert (pairs.dtype, pairs.shape) == (np.float32, (len(matrix), matrix.shape[1] + 2))
    expected = [[float(label in row) for label in range(matrix.shape[1] + 2)] for row in best.indices.tolist()]
    assert pairs.toarray().tolist() == expected


GOOD = ([[1, 0, -1]], [[2.0, 1.0, -np.inf]])


@pytest.mark.parametrize(
    ("indices", "values", "reason"),
    [
        ([[1, 0]], [[2.0, 1.0]], "shapes"),
        ([[1, 0, -1]], [[2.0, np.nan, -np.inf]], "NaN"),
        ([[1, 4, -1]], [[2.0, 1.0, -np.inf]], "outside 0..3"),
        ([[1, -2, -1]], [[2.0, 1.0, -np.inf]], "outside 0..3"),
        ([[1, 1, -1]], [[2.0, 1.0, -np.inf]], "twice"),
        ([[1, 0, -1]], [[1.0, 2.0, -np.inf]], "order"),
        ([[1, 0, -1]], [[1.0, 1.0, -np.inf]], "order"),
        ([[1, 0, -1]], [[2.0, 1.0, 0.5]], "apart"),
        ([[1, 0, 2]], [[2.0, 1.0, -np.inf]], "apart"),
        ([[0, 1, 2]], [[np.inf, np.inf, 2.0]], "several scores that are infinite"),
    ],
)
def test_check_names_what_is_wrong(indices, values, reason):
    TopK(np.array(GOOD[0], np.int32), np.array(GOOD[1], np.float32)).check(1, 3, 4)
    with pytest.raises(MethodError, match=reason):
        TopK(np.array(indices, np.int32), np.array(values, np.float32)).check(1, 3, 4)


@pytest.mark.parametrize("wrong", ["indices", "scores"])
def test_check_wants_both_arrays_of_the_shape(wrong):
    arrays = {"indices": np.array(GOOD[0], np.int32), "scores": np.array(GOOD[1], np.float32)}
    arrays[wrong] = arrays[wrong][:, :2]
    with pytest.raises(MethodError, match="shapes"):
        TopK(**arrays).check(1, 3, 4)


def test_check_wants_int32_and_float32():
    with pytest.raises(MethodError, match="int64 and float64"):
        TopK(np.array(GOOD[0]), np.array(GOOD[1])).check(1, 3, 4)


def test_check_wants_arrays_without_a_mask():
    """The rules would hold for what is not masked, and all of it is saved."""
    indices = np.ma.masked_array(np.array([[1, 0, 99]], np.int32), [[0, 0, 1]])
    with pytest.raises(MethodError, match="some of the indices are masked"):
        TopK(indices, np.array([[3.0, 2.0, 1.0]], np.float32)).check(1, 3, 4)


def test_saves_equal_bytes_and_loads_them(tmp_path):
    best = TopK.from_scores(np.random.RandomState(0).rand(5, 20), 7)
    best.save(tmp_path / "a.npz")
    best.save(str(tmp_path / "b.npz"))
    first, second = (hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("a.npz", "b.npz"))
    assert first == second
    again = TopK.load(tmp_path / "a.npz")
    assert np.array_equal(again.indices, best.indices)
    assert np.array_equal(again.scores, best.scores)


@given(scores, st.integers(1, 12), st.integers(1, 5))
def test_parts_are_saved_as_the_whole_is(matrix, k, rows):
    whole = TopK.from_scores(matrix, k)
    parts = (TopK(whole.indices[at : at + rows], whole.scores[at : at + rows]) for at in range(0, len(whole), rows))
    with TemporaryDirectory() as folder:
        TopK.save_joined(Path(folder, "parts.npz"), parts, len(whole), k)
        whole.save(Path(folder, "whole.npz"))
        assert Path(folder, "parts.npz").read_bytes() == Path(folder, "whole.npz").read_bytes()
        with np.load(Path(folder, "parts.npz")) as arrays:  # it is an .npz like any other
            assert {name: array.tolist() for name, array in arrays.items()} == {
                "indices": whole.indices.tolist(),
                "scores": whole.scores.tolist(),
            }


def test_loads_some_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("xmcbench.topk._ROWS", 3)
    whole = TopK.from_scores(np.random.RandomState(0).rand(7, 20), 4)
    whole.save(tmp_path / "p.npz")
    parts = list(TopK.load_parts(tmp_path / "p.npz"))
    assert [len(part) for part in parts] == [3, 3, 1]
    again = TopK.joined(TopK.check_parts(parts, 7, 4, 20), 4, 7)
    assert np.array_equal(again.indices, whole.indices)
    assert np.array_equal(again.scores, whole.scores)


@pytest.mark.parametrize(("instances", "k"), [(3, 2), (5, 2), (4, 3)])
def test_parts_of_another_shape_are_not_saved(tmp_path, instances, k):
    parts = [TopK.from_scores(np.eye(2), 2)] * 2
    TopK.save_joined(tmp_path / "right.npz", parts, 4, 2)
    with pytest.raises(ValueError, match=r"the parts have 4 rows|a part has the shapes \(2, 2\)"):
        TopK.save_joined(tmp_path / "wrong.npz", parts, instances, k)
    assert [path.name for path in tmp_path.iterdir()] == ["right.npz"]


@pytest.mark.parametrize("error", [ConnectionError("server down"), OSError(28, "No space left on device")])
def test_an_error_of_who_makes_the_parts_is_not_that_of_the_file(tmp_path, error):
    def parts():
        yield TopK.from_scores(np.eye(2), 2)
        raise error

    with pytest.raises(OSError, match=str(error.args[-1])) as raised:
        TopK.save_joined(tmp_path / "p.npz", parts(), 4, 2)
    assert raised.value is error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("load", [TopK.load, lambda path: list(TopK.load_parts(path))], ids=["whole", "parts"])
def test_load_explains_a_bad_file(tmp_path, load):
    with pytest.raises(DataError, match="no prediction file at"):
        load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match="is not a prediction file"):
        load(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(DataError, match="is not a prediction file: it has no array 'indices'"):
        load(tmp_path / "other.npz")
    np.savez(tmp_path / "flat.npz", indices=np.zeros(5, np.int32), scores=np.zeros(5, np.float32))
    with pytest.raises(DataError, match=r"the shapes \(5,\) and \(5,\)"):
        load(tmp_path / "flat.npz")


def test_save_into_a_file_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        TopK.from_scores(np.ones((1, 2)), 1).save(tmp_path / "file" / "p.npz")


def test_a_part_that_is_joined_is_in_its_rows_only():
    parts = [TopK.from_scores(np.array([[float(row), 0.5]]), 1) for row in range(3)]
    joined = TopK.joined(parts, 2, instances=5)
    assert joined.indices.tolist() == [[1, -1], [0, -1], [0, -1], [-1, -1], [-1, -1]]
    assert joined.scores[:, 0].tolist() == [0.5, 1.0, 2.0, -np.inf, -np.inf]
    assert TopK.joined([], 2).indices.shape == (0, 2)


@pytest.mark.parametrize("label", [0, 1])
def test_a_label_is_named_once(label):
    twice = TopK(np.array([[label, label]], np.int32), np.array([[2.0, 1.0]], np.float32))
    with pytest.raises(MethodError, match="row 0 names a label twice"):
        twice.check(1, 2, 2)


FAR = np.array([[10.0**40, 10.0**42, 10.0**41], [1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    "rank",
    [
        lambda scores: TopK.from_scores(scores, 2),
        lambda scores: TopK.from_scores(csr_matrix(scores), 2),
        lambda scores: TopK.ranked(np.tile(np.arange(3), (len(scores), 1)), scores),
        lambda scores: TopK.from_rows(np.array([0, 3]), np.array([1, 2, 0]), scores[0][[1, 2, 0]], 3),
    ],
    ids=["dense", "sparse", "ranked", "rows"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_scores_beyond_float32_are_refused(rank, sign):
    """As infinite ones they would be ties, and the lowest label ids the first ones; below, no predictions at all."""
    with pytest.raises(MethodError, match=r"row 0 has the score -?1e\+4\d, which is beyond float32 \(scale the scores"):
        rank(sign * FAR)
    rank(FAR[1:])


def test_scores_that_cannot_be_told_apart_at_the_end_of_float32_are_refused():
    """The second is lowered by the least, and there is none below."""
    least = -float(np.finfo(np.float32).max)
    scores = np.array([[1.0, 0.0], [least * (1 + 1e-9), least]])
    with pytest.raises(MethodError, match="row 1 has the score -3.40282e.38, which is beyond float32"):
        TopK.from_scores(scores, 2)
    TopK.from_scores(scores[:, ::-1], 2).check(2, 2, 2)


def test_what_numpy_takes_for_a_matrix_is_one():
    rows = [[1.0, 3.0, 2.0], [0.0, -1.0, 1.0]]
    for scores in (rows, csr_matrix(rows).todense(), np.array(rows)):
        best = TopK.from_scores(scores, 2)
        best.check(2, 2, 3)
        assert best.indices.tolist() == [[1, 2], [2, 0]]


many = st.one_of(
    hnp.arrays(np.float32, (3, 40), elements=st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 1.0, 3.5, np.inf])),
    hnp.arrays(np.float64, (3, 40), elements=st.floats(-1e6, 1e6)),
    hnp.arrays(np.int64, (3, 40), elements=st.integers(-(2**63), -(2**63) + 5)),
    hnp.arrays(np.uint8, (3, 40), elements=st.integers(0, 3)),
)


@given(many, st.integers(1, 300))
def test_the_best_of_many_are_those_of_a_sorted_row(part, k):
    matrix = np.tile(part, 30)
    best = TopK.from_scores(matrix, k)
    assert best.indices.tolist() == [by_hand(row, k) for row in matrix.tolist()]


def test_a_number_beyond_the_limit_is_said_to_be(tmp_path, monkeypatch):
    TopK.from_scores(np.ones((2, 20)), 20).save(tmp_path / "p.npz")
    monkeypatch.setattr("xmcbench.storage.arrays.ARRAYS", 100)
    for load in (TopK.load, lambda path: list(TopK.load_parts(path))):
        with pytest.raises(DataError, match=r"cannot read .*p.npz: .*takes more than the limit"):
            load(tmp_path / "p.npz")


def test_a_score_beyond_float32_that_is_not_among_the_best_is_none():
    far_below = np.array([[-1e300, 2.0, 1.0]])
    assert TopK.from_scores(far_below, 2).indices.tolist() == [[1, 2]]


close = st.one_of(
    hnp.arrays(np.float64, (3, 8), elements=st.integers(0, 5).map(lambda step: 1 + step * 2.0**-50)),
    hnp.arrays(np.int64, (3, 8), elements=st.integers(2**62, 2**62 + 5)),
    hnp.arrays(np.uint64, (3, 8), elements=st.integers(2**64 - 5, 2**64 - 1)),
    hnp.arrays(np.int64, (3, 8), elements=st.integers(-(2**63), -(2**63) + 5)),
    hnp.arrays(np.float16, (3, 8), elements=st.sampled_from([-np.inf, -1.0, 0.0, 65504.0])),
    hnp.arrays(np.bool_, (3, 8)),
)


@given(close, st.integers(1, 9), st.randoms(use_true_random=False))
def test_scores_are_compared_as_they_are_given(matrix, k, random):
    """The order of what float32 cannot tell apart is kept: by the scores that are stored, it is the same."""
    right = [by_hand(row, k) for row in matrix.tolist()]
    order = random.sample(range(8), 8)
    sparse = csr_matrix((matrix.ravel(), np.tile(np.arange(8), 3), np.arange(0, 25, 8)), shape=(3, 8))
    for best in (
        TopK.from_scores(matrix, k),
        TopK.from_scores(sparse, k),
        TopK.joined([TopK.ranked(np.tile(order, (3, 1)), matrix[:, order])], max(k, 8)),
    ):
        best.check(3, best.k, 8)
        assert best.indices[:, :k].tolist() == right
        again = TopK.ranked(best.indices, best.scores)
        assert np.array_equal(again.indices, best.indices)
        there = best.indices >= 0
        given_scores = np.take_along_axis(matrix.astype(np.float32), best.indices.clip(0), 1)[there]
        assert (np.abs(best.scores[there] - given_scores) <= 8 * np.spacing(np.abs(given_scores))).all()


def test_equal_scores_stay_equal():
    best = TopK.from_scores(np.array([[1.0, 1.0 + 1e-12, 1.0, 1.0]]), 4)
    assert best.indices.tolist() == [[1, 0, 2, 3]]
    assert best.scores[0, 0] == 1
    assert (best.scores[0, 1:] == np.nextafter(np.float32(1), np.float32(0))).all()
