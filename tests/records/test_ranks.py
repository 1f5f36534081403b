import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench.errors import StorageError
from xmcbench.metrics import TruePairs
from xmcbench.records import Ranks, Store, Truth

PAIRS = TruePairs.of(csr_matrix(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])))
SEEN = np.array([True, False, True])


def ranks(none=(1, 2, 0), own=(1, 2, 0), file=(100, 0, 7)):
    by_filter = {"none": none, "self": own, "file": file}
    return Ranks({name: np.array(values, np.uint8) for name, values in by_filter.items()}, SEEN)


@pytest.mark.parametrize(
    "given",
    [
        ranks(),
        ranks(own=(3, 0, 0)),
        ranks(file=(1, 2, 0)),
        Ranks({"none": np.array([1, 2, 3], np.uint8)}, SEEN),
        Ranks({"file": np.array([1, 2, 3], np.uint8)}, ~SEEN),
    ],
)
def test_ranks_come_back_as_they_were(tmp_path, given):
    """Also those of a filter file, whose name numpy has a use for."""
    given.save(tmp_path / "r.npz")
    read = Ranks.load(tmp_path / "r.npz", 3, 3)
    assert {name: values.tolist() for name, values in read.by_filter.items()} == {
        name: values.tolist() for name, values in given.by_filter.items()
    }
    assert read.seen.tolist() == given.seen.tolist()
    assert read.digest == given.digest


def test_the_digest_is_of_filters_ranks_and_seen_labels():
    others = [ranks(none=(1, 2, 1)), ranks(own=(1, 1, 0)), Ranks(ranks().by_filter, ~SEEN)]
    others.append(Ranks({"none": ranks().by_filter["none"], "self": ranks().by_filter["file"]}, SEEN))
    assert len({ranks().digest, *(other.digest for other in others)}) == 5
    assert ranks().digest == ranks().digest


def test_equal_ranks_are_kept_once(tmp_path):
    ranks().save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as arrays:
        assert len(arrays.files) == 3


def test_ranks_of_other_pairs_are_refused(tmp_path):
    path = tmp_path / "r.npz"
    ranks().save(path)
    for pairs, labels in ((4, 3), (3, 9)):
        with pytest.raises(StorageError, match=r"r\.npz"):
            Ranks.load(path, pairs, labels)
    np.savez(path, none=np.zeros(3, np.uint8))
    with pytest.raises(StorageError, match="cannot read the ranks"):
        Ranks.load(path, 3, 3)
    path.write_bytes(b"no zip")
    with pytest.raises(StorageError, match="cannot read the ranks"):
        Ranks.load(path, 3, 3)


def test_the_truth_comes_back_as_it_was(tmp_path):
    truth = Truth(PAIRS, np.array([5, 0, 2]), 9)
    truth.save(tmp_path / "t.npz")
    read = Truth.load(tmp_path / "t.npz")
    assert (read.pairs.rows.tolist(), read.pairs.labels.tolist()) == ([0, 0, 2], [1, 2, 0])
    assert (read.pairs.instances, read.frequency.tolist(), read.instances) == (3, [5, 0, 2], 9)
    assert read.digest == truth.digest
    others = [
        Truth(TruePairs(PAIRS.rows, np.array([1, 2, 1]), 3), truth.frequency, 9),
        Truth(TruePairs(PAIRS.rows, PAIRS.labels, 4), truth.frequency, 9),
        Truth(PAIRS, np.array([5, 0, 3]), 9),
        Truth(PAIRS, truth.frequency, 10),
    ]
    assert len({truth.digest, *(other.digest for other in others)}) == 5


def test_a_damaged_truth_is_said(tmp_path):
    path = tmp_path / "t.npz"
    good = {"lengths": [2, 0, 1], "labels": [1, 2, 0], "frequency": [5, 0, 2], "instances": 9}
    for change in ({"lengths": [2, 0, 2]}, {"labels": [1, 2, 3]}, {"labels": [1, 2, -1]}):
        np.savez(path, **{**good, **change})
        with pytest.raises(StorageError, match="cannot read the true pairs"):
            Truth.load(path)
    path.unlink()
    with pytest.raises(StorageError, match="cannot read the true pairs"):
        Truth.load(path)


def test_a_store_gives_only_the_ranks_and_the_truth_of_the_record(tmp_path, record, altered):
    store, truth = Store(tmp_path), Truth(PAIRS, np.array([5, 0, 2]), 9)
    made = altered(record(), (("ranks", "sha256"), ranks().digest), (("ranks", "truth_sha256"), truth.digest))
    for missing in (lambda: store.truth(made), lambda: store.ranks(made, truth)):
        with pytest.raises(StorageError, match="cannot read"):
            missing()
    truth.save(store.truth_path("Tiny", truth.digest))
    ranks().save(store.ranks_path(made.cell))
    assert store.truth(made).digest == truth.digest
    assert store.ranks(made, truth).digest == ranks().digest
    ranks(none=(5, 5, 5)).save(store.ranks_path(made.cell))
    with pytest.raises(StorageError, match="checksum mismatch"):
        store.ranks(made, truth)
    Truth(PAIRS, np.array([5, 0, 3]), 9).save(store.truth_path("Tiny", truth.digest))
    with pytest.raises(StorageError, match="checksum mismatch"):
        store.truth(made)
    without = record(status="failed")
    for missing in (lambda: store.truth(without), lambda: store.ranks(without, truth)):
        with pytest.raises(StorageError, match="has no ranks"):
            missing()
