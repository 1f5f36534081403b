import os

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import SafetensorError

from xmcbench import MethodError, load_arrays, save_arrays
from xmcbench.errors import DataError, StorageError

arrays = hnp.arrays(
    st.one_of(hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes()),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "__metadata__"), arrays, max_size=3))
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
    assert "free some space" in caught.value.hint


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
