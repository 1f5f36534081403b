import numpy as np
import pytest

from xmcbench.storage.arrays import read_arrays


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
        with pytest.raises(ValueError, match="."):
            read_arrays(good, "a")
    good.write_bytes(whole)
    with pytest.raises(ValueError, match="no array 'c'"):
        read_arrays(good, "a", "c")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz", "a")
