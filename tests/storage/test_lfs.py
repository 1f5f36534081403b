import os

import pytest

from xmcbench.errors import DataError, Unavailable
from xmcbench.storage.arrays import read_arrays
from xmcbench.storage.reading import refuse_lfs_pointer

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"


@pytest.mark.parametrize("content", [POINTER, POINTER.replace(b"\n", b"\r\n")])
def test_a_pointer_is_named_with_the_command_that_fetches_the_file(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(
        Unavailable, match=r"model\.safetensors is a Git LFS pointer, not the file itself \(.*: git lfs pull\)"
    ):
        refuse_lfs_pointer(tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="is a Git LFS pointer"):
        refuse_lfs_pointer(tmp_path / "model.safetensors", DataError)
    with pytest.raises(ValueError, match="it is a Git LFS pointer: git lfs pull fetches the file"):
        read_arrays(tmp_path / "model.safetensors", "a")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", POINTER[:43], b"x" + POINTER, POINTER[:43] + b"oid is a word"])
def test_other_files_are_not_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    refuse_lfs_pointer(tmp_path / "file")


def test_a_file_that_cannot_be_read_is_left_to_its_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none", "."):
        refuse_lfs_pointer(tmp_path / name)
