import hashlib
import struct

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench.errors import DataError, StorageError
from xmcbench.storage.arrays import pairs_digest, read_pairs, read_pattern, write_pairs

PAIRS = csr_matrix(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]], np.float32))


def test_pairs_come_back_as_they_were(tmp_path):
    write_pairs(tmp_path / "pairs.npz", PAIRS.indptr, PAIRS.indices)
    read = read_pairs(tmp_path / "pairs.npz", 3)
    assert (read.dtype, read.shape) == (np.float32, (3, 3))
    assert read.toarray().tolist() == PAIRS.toarray().tolist()
    assert (read.indptr.dtype, read.indices.dtype) == (np.int32, np.int32)
    assert read_pairs(tmp_path / "pairs.npz", 9).shape == (3, 9)


def test_a_pattern_is_the_matrix_without_its_ones(tmp_path):
    write_pairs(tmp_path / "pairs.npz", PAIRS.indptr, PAIRS.indices)
    pattern = read_pattern(tmp_path / "pairs.npz", 3)
    assert len(pattern) == 3
    assert pattern.digest == pairs_digest(PAIRS.indptr, PAIRS.indices)
    made = pattern.matrix()
    assert (made.dtype, made.toarray().tolist()) == (np.float32, PAIRS.toarray().tolist())
    assert pattern.only(np.array([False, True, True])).matrix().toarray().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]


def test_no_pair_at_all(tmp_path):
    write_pairs(tmp_path / "pairs.npz", np.zeros(5, int), np.zeros(0, int))
    assert read_pairs(tmp_path / "pairs.npz", 2).shape == (4, 2)


def test_what_is_not_a_store_is_said(tmp_path):
    path = tmp_path / "pairs.npz"
    write_pairs(path, PAIRS.indptr, PAIRS.indices)
    whole = path.read_bytes()
    for content in (b"no zip", b"", whole[:100]):
        path.write_bytes(content)
        for read in (read_pairs, read_pattern):
            with pytest.raises(DataError, match="cannot read the pairs .*delete its folder"):
                read(path, 3)
    path.unlink()
    with pytest.raises(DataError, match="cannot read the pairs"):
        read_pairs(path, 3)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        write_pairs(tmp_path / "file" / "pairs.npz", PAIRS.indptr, PAIRS.indices)


def test_ids_beyond_the_columns_are_said(tmp_path):
    write_pairs(tmp_path / "pairs.npz", PAIRS.indptr, PAIRS.indices)
    with pytest.raises(DataError, match="cannot read the pairs"):
        read_pairs(tmp_path / "pairs.npz", 2)


def test_the_digest_is_of_the_structure_on_any_machine():
    written = struct.pack("<q4q", 4, 0, 2, 2, 3) + struct.pack("<q3q", 3, 1, 2, 0)
    expected = hashlib.sha256(written).hexdigest()
    for kind in (np.int32, np.int64, ">i8"):
        assert pairs_digest(PAIRS.indptr.astype(kind), PAIRS.indices.astype(kind)) == expected
    others = [
        (PAIRS.indptr, np.array([1, 2, 1])),
        (np.array([0, 1, 2, 3]), PAIRS.indices),
        (np.array([0, 2, 2, 3, 3]), PAIRS.indices),
    ]
    assert len({expected, *(pairs_digest(*arguments) for arguments in others)}) == 4


def test_few_pairs_are_read_with_small_numbers(tmp_path):
    write_pairs(tmp_path / "pairs.npz", PAIRS.indptr.astype(np.int64), PAIRS.indices)
    assert read_pairs(tmp_path / "pairs.npz", 3).indptr.dtype == np.int32
