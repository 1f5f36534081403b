import gzip
import lzma

import pytest

from xmcbench.data.text_files import atomic_gzip, find_source, open_source
from xmcbench.errors import DataError


def test_plain_gzip_and_xz_read_alike(tmp_path):
    content = b"a line\n" * 1000
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(content))
    (tmp_path / "b.txt").write_bytes(gzip.compress(content))
    for name in ("a.txt", "a.txt.gz", "a.txt.xz", "b.txt"):
        with open_source(tmp_path / name) as stream:
            assert stream.read() == content


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_truncated_file_is_said(tmp_path, suffix):
    packed = (gzip.compress if suffix == ".gz" else lzma.compress)(bytes(range(256)) * 400)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=f"a{suffix} is truncated"), open_source(path) as stream:
        stream.read()


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_file_of_another_kind_is_said(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b'{"uid": "1"}\n')
    with pytest.raises(DataError, match="damaged or not"), open_source(path) as stream:
        stream.read()


@pytest.mark.parametrize(("name", "hint"), [("a.gz", "again, or remove the suffix .gz"), ("a.txt", r"again\)")])
def test_damage_inside_a_gzip_file_is_said(tmp_path, name, hint):
    packed = bytearray(gzip.compress(bytes(range(256)) * 400, mtime=0))
    packed[-6] ^= 0xFF
    path = tmp_path / name
    path.write_bytes(bytes(packed))
    with pytest.raises(DataError, match=f"damaged or not a gzip file.*{hint}"), open_source(path) as stream:
        stream.read()


def test_a_missing_file_and_a_folder_are_said(tmp_path):
    with pytest.raises(DataError, match="no file at"), open_source(tmp_path / "none.gz"):
        pass
    with pytest.raises(DataError, match="cannot read"), open_source(tmp_path):
        pass


def test_equal_content_gives_equal_bytes_under_any_name(tmp_path):
    for name in ("one.gz", "two.gz"):
        with atomic_gzip(tmp_path / name) as stream:
            stream.write(b"content")
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()) == b"content"


def test_the_packed_file_goes_before_the_plain_one(tmp_path):
    assert find_source(tmp_path, "lbl.json") is None
    (tmp_path / "lbl.json").touch()
    assert find_source(tmp_path, "lbl.json") == tmp_path / "lbl.json"
    (tmp_path / "lbl.json.gz").touch()
    assert find_source(tmp_path, "lbl.json") == tmp_path / "lbl.json.gz"
