"""Arrays in files: of numpy, of safetensors, and pairs."""

import hashlib
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import SafetensorError
from scipy.sparse import csr_matrix

from xmcbench import MethodError, load_arrays, save_arrays
from xmcbench.errors import DataError, StorageError
from xmcbench.storage import arrays
from xmcbench.storage.arrays import pairs_digest, read_arrays, read_pairs, read_pattern, read_rows, write_pairs


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.npz"
    np.savez_compressed(path, a=np.random.RandomState(0).rand(2_000), b=np.arange(3))
    return path


def test_arrays_come_in_the_order_asked_for(good):
    b, a = read_arrays(good, "b", "a")
    assert b.tolist() == [0, 1, 2]
    assert a.shape == (2_000,)


def test_what_is_not_such_a_file_is_a_value_error(good, tmp_path):
    whole = good.read_bytes()
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], object))
    broken = {
        "empty": b"",
        "text": b"hello",
        "one array": (tmp_path / "one.npy").read_bytes(),
        "pickled": (tmp_path / "pickled.npz").read_bytes(),
        "cut": whole[: len(whole) // 2],
        "overwritten": whole[:500] + b"\xff" * 60 + whole[560:],
    }
    for content in broken.values():
        good.write_bytes(content)
        for read in (read_arrays, lambda *asked: list(read_rows(asked[0], 7, *asked[1:]))):
            with pytest.raises(ValueError, match="."):
                read(good, "a")
    with zipfile.ZipFile(good, "w", zipfile.ZIP_BZIP2) as archive:  # a member of gigabytes would be unpacked at once
        archive.writestr("a.npy", b"0" * 100)
    for read in (read_arrays, lambda *asked: list(read_rows(asked[0], 7, *asked[1:]))):
        with pytest.raises(ValueError, match="compressed in a way that numpy does not write"):
            read(good, "a")
    good.write_bytes(whole)
    with pytest.raises(ValueError, match="no array 'c'"):
        read_arrays(good, "a", "c")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz", "a")


def test_a_long_header_is_refused_before_it_is_read(tmp_path):
    """A header may say that it takes 4 GiB, which deflate packs into 4 MB."""
    size = 64 << 20
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("a.npy", np.lib.format.magic(2, 0) + size.to_bytes(4, "little") + b" " * size)
    tracemalloc.start()
    for read in (read_arrays, lambda path, name: list(read_rows(path, 7, name))):
        with pytest.raises(ValueError, match=r"the header of the array 'a' is longer than 10,000 bytes"):
            read(tmp_path / "bomb.npz", "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize(
    ("length", "rows", "parts"), [(10, 3, [3, 3, 3, 1]), (10, 5, [5, 5]), (2, 3, [2]), (0, 3, [0])]
)
def test_rows_come_some_at_a_time(tmp_path, length, rows, parts):
    a, b = np.random.RandomState(0).rand(length, 2), np.arange(length)
    np.savez_compressed(tmp_path / "two.npz", a=a, b=b)
    found = list(read_rows(tmp_path / "two.npz", rows, "b", "a"))
    assert [len(part) for part, _ in found] == parts
    assert np.array_equal(np.concatenate([part for part, _ in found]), b)
    assert np.array_equal(np.concatenate([part for _, part in found]), a)


@pytest.mark.parametrize("other", [np.zeros((4, 2)), np.zeros(()), np.asfortranarray(np.zeros((3, 2)))])
def test_arrays_without_the_same_rows_do_not_come_by_rows(tmp_path, other):
    np.savez(tmp_path / "two.npz", a=np.zeros((3, 2)), b=other)
    with pytest.raises(ValueError, match="its arrays 'a' and 'b' are not row by row of one length"):
        list(read_rows(tmp_path / "two.npz", 2, "a", "b"))
    with pytest.raises(FileNotFoundError):
        list(read_rows(tmp_path / "none.npz", 2, "a"))


def test_the_limit_of_rows_is_one_of_a_part(tmp_path, monkeypatch):
    """Predictions for millions of rows are read by rows, and fit into memory however many there are."""
    monkeypatch.setattr(arrays, "ARRAYS", 800)
    np.savez(tmp_path / "long.npz", a=np.zeros((100, 10), np.float32))
    assert sum(len(part) for (part,) in read_rows(tmp_path / "long.npz", 20, "a")) == 100
    for read in (lambda path: list(read_rows(path, 21, "a")), lambda path: read_arrays(path, "a")):
        with pytest.raises(ValueError, match="unpack"):
            read(tmp_path / "long.npz")


any_arrays = hnp.arrays(
    st.one_of(hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes()),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "__metadata__"), any_arrays, max_size=3))
def test_arrays_come_back_as_they_were(tmp_path_factory, given_):
    folder = tmp_path_factory.mktemp("arrays")
    save_arrays(folder / "a.safetensors", given_)
    save_arrays(folder / "b.safetensors", dict(reversed(given_.items())))
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()
    found = load_arrays(folder / "a.safetensors")
    assert set(found) == set(given_)
    for name, array in given_.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f")


def test_any_layout_and_what_numpy_takes_for_an_array(tmp_path):
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    save_arrays(tmp_path / "x", {"columns": whole[:, ::2], "turned": whole.T, "list": [1, 2], "number": np.float32(3)})
    found = load_arrays(tmp_path / "x")
    assert np.array_equal(found["columns"], whole[:, ::2])
    assert np.array_equal(found["turned"], whole.T)
    assert (found["list"].tolist(), found["number"].shape, float(found["number"])) == ([1, 2], (), 3.0)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.array(["a"]), "<U1"),
        (np.array([{}], object), "object"),
        (np.zeros(2, complex), "complex128"),
        (np.zeros(2, np.longdouble), str(np.dtype(np.longdouble))),
    ],
)
def test_what_is_not_an_array_of_numbers_is_the_methods_fault(tmp_path, array, kind):
    with pytest.raises(MethodError, match=f"the array 'it' has the type {kind}"):
        save_arrays(tmp_path / "x", {"good": np.zeros(2), "it": array})
    assert not (tmp_path / "x").exists()


def test_a_full_disk_and_a_folder_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="cannot write .*none/x: "):
        save_arrays(tmp_path / "none" / "x", {"a": np.zeros(2)})

    def full(*_):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(StorageError, match="cannot write .*: No space left") as caught:
        save_arrays(tmp_path / "x", {"a": np.zeros(2)})
    assert "free some space, then run again: a training with checkpoints continues" in caught.value.hint


def test_what_is_not_such_a_file_is_said(tmp_path):
    path = tmp_path / "x"
    save_arrays(path, {"a": np.arange(100)})
    whole = path.read_bytes()
    for content in (b"", b"no tensors", whole[:60], whole[:-8]):
        path.write_bytes(content)
        with pytest.raises(DataError, match="cannot read .*/x: .*delete its folder"):
            load_arrays(path)
    path.unlink()
    with pytest.raises(DataError, match="cannot read .*/x: "):
        load_arrays(path)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_a_file_has_the_mode_that_the_umask_says(tmp_path, umask, mode):
    """Cells of other users read it, where they share a folder."""
    before = os.umask(umask)
    try:
        save_arrays(tmp_path / "a.safetensors", {"a": np.zeros(2)})
    finally:
        os.umask(before)
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == mode


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
