"""Runs folders that are sent as a folder, as an archive, or by address."""

import errno
import io
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from xmcbench.data import archives
from xmcbench.errors import DataError, UsageError
from xmcbench.submissions import runs_folders


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "sent"
    (folder / "records" / "d").mkdir(parents=True)
    (folder / "records" / "d" / "r.json").write_text("{}")
    return folder


@pytest.fixture
def served(tmp_path):
    """The address of a server of the folder of the test."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.func.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def raising(error):
    def raise_it(*_):
        raise error

    return raise_it


def pack(runs, name, inside):
    path = runs.parent / name
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(runs / "records" / "d" / "r.json", f"{inside}records/d/r.json")
    else:
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:
            archive.add(runs, inside or ".")
    return path


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar", "a.zip"])
@pytest.mark.parametrize("inside", ["", "sent/"])
def test_folders_archives_and_addresses_hold_the_same(runs, served, name, inside):
    path = pack(runs, name, inside)
    with runs_folders([str(runs), str(path), f"{served}/{name}"]) as found:
        assert found[0] == runs
        for folder in found:
            assert (folder / "records" / "d" / "r.json").read_text() == "{}"
        scratch = found[1]
    assert not scratch.exists()
    assert runs.exists()


def test_what_holds_no_records_is_refused(tmp_path, served, monkeypatch):
    monkeypatch.setattr(archives, "_ATTEMPTS", 1)
    (tmp_path / "empty").mkdir()
    pack(tmp_path / "empty", "empty.tar", "")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("other/r.json", "{}")
    for source, error, said in (
        (str(tmp_path / "empty"), UsageError, "there are no records in"),
        (str(tmp_path / "nowhere"), UsageError, "there are no records in"),
        (str(tmp_path / "empty.tar"), DataError, "is empty"),
        (str(tmp_path / "other.zip"), UsageError, "there are no records in"),
        (f"{served}/empty/", DataError, "looks like a web page"),
        (f"{served}/missing.zip", DataError, "cannot download .*404"),
        ("http://127.0.0.1:1/a.zip", DataError, "cannot download"),
    ):
        with pytest.raises(error, match=said), runs_folders([source]):
            pass


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.zip").touch()
    monkeypatch.setattr("xmcbench.submissions.unpack", raising(OSError(errno.EIO, "Input/output error")))
    with (
        pytest.raises(DataError, match="cannot unpack .*a.zip: Input/output error"),
        runs_folders([str(tmp_path / "a.zip")]),
    ):
        pass


def test_a_tar_archive_stores_a_file_with_two_names_once(tmp_path):
    """As `tar` does with a runs folder, whose predictions are also an artifact."""
    runs = tmp_path / "runs"
    (runs / "records").mkdir(parents=True)
    (runs / "predictions").mkdir()
    (runs / "records" / "r.json").write_text("{}")
    (runs / "predictions" / "r.npz").write_bytes(b"ranks")
    (runs / "ranking.npz").hardlink_to(runs / "predictions" / "r.npz")
    with tarfile.open(tmp_path / "runs.tar.gz", "w:gz") as archive:
        archive.add(runs, "runs")
        assert [member.name for member in archive.getmembers() if member.islnk()]
    with runs_folders([str(tmp_path / "runs.tar.gz")]) as (found,):
        assert (found / "predictions" / "r.npz").read_bytes() == b"ranks"
        assert (found / "ranking.npz").read_bytes() == b"ranks"


def test_an_archive_cannot_write_elsewhere_or_fill_the_disk(tmp_path, monkeypatch):
    def tar(name, member, content=b""):
        path = tmp_path / name
        with tarfile.open(path, "w") as archive:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return path

    link = tarfile.TarInfo("records/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    lost = tarfile.TarInfo("records/link")
    lost.type, lost.linkname = tarfile.LNKTYPE, "records/other"
    away = tarfile.TarInfo("records/link")
    away.type, away.linkname = tarfile.LNKTYPE, "../../etc/passwd"
    for path, said in (
        (tar("link.tar", link), "a link or a device"),
        (tar("lost.tar", lost), "a link to a file that it lacks"),
        (tar("away.tar", away), "leads out of its folder"),
        (tar("up.tar", tarfile.TarInfo("../out.json"), b"{}"), "leads out of its folder"),
    ):
        with pytest.raises(DataError, match=said), runs_folders([str(path)]):
            pass
    zipped = tmp_path / "bad.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("../out.json", "{}")
    with pytest.raises(DataError, match="leads out of its folder"), runs_folders([str(zipped)]):
        pass
    assert not list(tmp_path.rglob("out.json"))
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("records/r.json", b" " * 5_000_000)
    rare = tmp_path / "rare.zip"
    with zipfile.ZipFile(rare, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("records/r.json", b" " * 5_000_000)
    with pytest.raises(DataError, match="in a rare compression"), runs_folders([str(rare)]):
        pass
    for name in ("n" * 2_000_000, "records/r.json"):
        long = tarfile.TarInfo(name)
        long.pax_headers = {"comment": "c" * (2_000_000 if name == "records/r.json" else 0)}
        with tarfile.open(tmp_path / "long.tar", "w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(long)
        with pytest.raises(DataError, match="a name in it is too long"), runs_folders([str(tmp_path / "long.tar")]):
            pass
    monkeypatch.setattr("xmcbench.submissions.ARRAYS", 1_000_000)
    with pytest.raises(DataError, match="--max-unpacked"), runs_folders([str(zipped)]):
        pass
    (tmp_path / "damaged.tgz").write_bytes(b"\x1f\x8bno")
    with pytest.raises(DataError, match="is damaged"), runs_folders([str(tmp_path / "damaged.tgz")]):
        pass
