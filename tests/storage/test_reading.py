import gzip
import os
import threading

import numpy as np
import pytest

from xmcbench.data.text_files import lines, open_source
from xmcbench.errors import DataError, UsageError
from xmcbench.storage import arrays, reading
from xmcbench.storage.arrays import read_arrays
from xmcbench.storage.reading import FLAG, VARIABLE, Unreadable, open_regular, read_bytes, read_text


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, read_text, open_regular, read_arrays):
        thread = threading.Thread(target=_refuse, args=(read, tmp_path / "pipe"), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), read


def _refuse(read, path):
    with pytest.raises(Unreadable, match="not a regular file"):
        read(path)


def test_a_device_and_a_folder_are_refused(tmp_path):
    with pytest.raises(Unreadable, match="not a regular file"):
        read_bytes(tmp_path / ".." / "/dev/zero")
    with pytest.raises((Unreadable, IsADirectoryError)):
        read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none")


def test_the_limit_is_named_and_the_flag_raises_it(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 5000)
    assert read_bytes(path, 5000) == b"x" * 5000
    with pytest.raises(Unreadable, match=rf"limit of 0\.0 MiB: {FLAG} 1 raises it"):
        read_bytes(path, 4999)
    monkeypatch.setenv(VARIABLE, "1")
    assert len(read_bytes(path, 10)) == 5000
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(UsageError, match="is 'much'"):
        read_bytes(path)


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "x").write_bytes("\ufeffname = 1".encode())
    assert read_text(tmp_path / "x") == "name = 1"


def test_a_small_archive_of_large_arrays_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(1 << 20, np.int8))
    assert (tmp_path / "bomb.npz").stat().st_size < 5000
    assert len(read_arrays(tmp_path / "bomb.npz", "a")[0]) == 1 << 20
    monkeypatch.setattr(arrays, "ARRAYS", 1 << 19)
    with pytest.raises(ValueError, match=f"unpacks to takes more than the limit of 0.5 MiB: {FLAG} 1"):
        read_arrays(tmp_path / "bomb.npz", "a")


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"short\n" + b"x" * 3000))
    with open_source(path) as stream:
        assert [len(line) for line in lines(stream)] == [6, 3000]
    monkeypatch.setattr("xmcbench.data.text_files.LINE", 1000)
    with pytest.raises(DataError, match=rf"x\.gz: line 2 takes .*{FLAG}"), open_source(path) as stream:
        list(lines(stream))


def test_many_lines_are_refused_in_all(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1000))
    monkeypatch.setattr("xmcbench.data.text_files.STREAM", 2000)
    with pytest.raises(DataError, match="what it unpacks to takes"), open_source(path) as stream:
        list(lines(stream))


def test_limits_of_a_real_size_are_shown_in_units():
    with pytest.raises(Unreadable, match=rf"it takes more than the limit of 2\.0 GiB: {FLAG} 10 raises it"):
        reading.check_size(10 << 30, reading.ARRAYS)
