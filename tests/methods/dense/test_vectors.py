"""Files of embeddings."""

import errno
import os

import numpy as np
import pytest

from xmcbench.methods.dense import vectors
from xmcbench.methods.dense.vectors import map_array


@pytest.fixture(params=["the system", "writing"])
def room(request, monkeypatch):
    """Both ways to take room for a file; there is no ``posix_fallocate`` on macOS."""
    if request.param == "writing":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
        monkeypatch.setattr(vectors, "_WRITTEN", 1000)
    elif not hasattr(os, "posix_fallocate"):
        pytest.skip("needs posix_fallocate")
    return request.param


@pytest.mark.parametrize("shape", [(0, 3), (7, 3), (250, 2), (251, 2)])
def test_a_file_has_room_for_all_rows(room, tmp_path, shape):
    made = map_array(tmp_path / "rows", shape, np.dtype(np.float32))
    assert made.shape == shape
    assert not made.any()
    if made.size:
        assert (tmp_path / "rows").stat().st_size == made.nbytes
        assert (tmp_path / "rows").stat().st_blocks * 512 >= made.nbytes, "a hole is no room"


def test_no_room(room, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    if room == "writing":
        monkeypatch.setattr(vectors, "bytes", full, raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        map_array(tmp_path / "rows", (7, 3), np.dtype(np.float32))
