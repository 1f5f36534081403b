import tracemalloc
import zipfile

import numpy as np
import pytest

from xmcbench.storage import arrays
from xmcbench.storage.arrays import read_arrays, read_rows


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
