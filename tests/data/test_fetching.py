"""Fetching from a server on this machine that misbehaves in every way."""

import errno
import gzip
import hashlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench.data import archives, export, load_dataset
from xmcbench.data.archives import download, unpack
from xmcbench.data.fetching import LOCK, fetch_data
from xmcbench.data.verification import examine
from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.storage.atomic import write_json

CONTENT = bytes(range(256)) * 400

#: What is no head of an answer.
HEADS = {"of no protocol": b"SSH-2.0-x\r\n\r\n", "of no answer": b"HTTP/1.1 200 OK\r\nCon"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Downloads give up soon."""
    for name, value in {"_TIMEOUT_S": 0.3, "_ATTEMPTS": 3, "_PAUSE_S": 0.0}.items():
        monkeypatch.setattr(archives, name, value)


class Server:
    """Serves ``content``. Each request takes the next behavior of ``script``, or none: then all goes well."""

    def __init__(self):
        self.content, self.tag, self.script, self.asked = CONTENT, '"1"', [], []
        self.go_on = threading.Event()  # no answer before it is set
        self.go_on.set()

    def answer(self, handler):
        behavior = self.script.pop(0) if self.script else ""
        asked = handler.headers.get("Range")
        self.asked.append(asked)
        start, content = 0, self.content
        if asked and handler.headers.get("If-Range") == self.tag and behavior != "forgets":
            start = int(asked.removeprefix("bytes=").partition("-")[0])
        self.go_on.wait(20)
        if behavior in HEADS or behavior.isdecimal():
            handler.wfile.write(HEADS[behavior]) if behavior in HEADS else handler.send_error(int(behavior))
            return
        if start >= len(content):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(content)}")
            handler.end_headers()
            handler.wfile.write(b"no such range")
            return
        body = content[start:]
        handler.send_response(206 if start else 200)
        if behavior != "untagged":
            handler.send_header("ETag", self.tag)
        if start:
            first = start + 1 if behavior == "elsewhere" else start
            handler.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if behavior == "encodes":
            handler.send_header("Content-Encoding", "gzip")
        if behavior == "redirects to a file":
            handler.send_header("Location", "file:///etc/passwd")
        lengths = {"too long": len(body) + 10, "too short": len(body) - 10, "of a bad length": "-5"}
        length = lengths.get(behavior, len(body))
        if behavior != "of no length":
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        if behavior in ("drops", "too long"):
            body = body[: len(body) // 2] if behavior == "drops" else body
        elif behavior == "stalls":
            handler.wfile.write(body[: len(body) // 2])
            handler.wfile.flush()
            time.sleep(1.0)
            return
        elif behavior == "drips":
            for byte in range(20):
                handler.wfile.write(body[byte : byte + 1])
                handler.wfile.flush()
                time.sleep(0.1)
            return
        handler.wfile.write(body)


@pytest.fixture
def server():
    """A server, its address in ``url``."""
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(BrokenPipeError, ConnectionResetError):
                made.answer(self)
            self.close_connection = True

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    made.url = f"http://127.0.0.1:{http.server_port}/set.tar.gz"
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield made
    http.shutdown()
    http.server_close()


@pytest.mark.parametrize("behavior", ["drops", "stalls", "drips", "too long", "503", "429", "of no answer"])
def test_a_download_goes_on_where_it_broke_off(server, tmp_path, behavior):
    server.script = [behavior]
    path = download(server.url, tmp_path / "file")
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == 2 or behavior == "too long"
    if behavior in ("drops", "stalls"):
        assert server.asked[1] == f"bytes={len(CONTENT) // 2}-"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_later_call_goes_on_with_what_an_earlier_one_left(server, tmp_path):
    server.script = ["drops", "503", "503", "503"]
    with pytest.raises(DataError, match="the server answers 503 [(]run it again to resume[)]"):
        download(server.url, tmp_path / "file")
    download(server.url, tmp_path / "file")
    assert server.asked[-1] == f"bytes={len(CONTENT) // 2}-"
    assert (tmp_path / "file").read_bytes() == CONTENT
    asked = len(server.asked)
    download(server.url, tmp_path / "file")
    assert len(server.asked) == asked


@pytest.mark.parametrize("more", [b"", b"x"])
def test_a_whole_part_is_taken_and_a_longer_one_is_not(server, tmp_path, more):
    """A process can end when the last byte has come, and before the file has its name."""
    server.script = ["drops", *["503"] * 3]
    with pytest.raises(DataError):
        download(server.url, tmp_path / "file")
    (tmp_path / "file.part").write_bytes(CONTENT + more)
    if more:
        with pytest.raises(DataError, match="does not match the file on the server: delete the .part file"):
            download(server.url, tmp_path / "file")
    else:
        assert download(server.url, tmp_path / "file").read_bytes() == CONTENT
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("part", [None, b"of another file"])
def test_a_refused_range_that_was_not_asked_for_completes_nothing(server, tmp_path, part):
    server.content = b""
    if part is not None:
        (tmp_path / "file.part").write_bytes(part)
    with pytest.raises(DataError, match="the server answers 416"):
        download(server.url, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert server.asked == [None]


@pytest.mark.parametrize("way", ["another file", "no tag", "a damaged note", "forgets"])
def test_what_may_be_of_another_file_is_not_gone_on_with(server, tmp_path, way):
    server.script = ["drops", *["503"] * 3]
    with pytest.raises(DataError):
        download(server.url, tmp_path / "file")
    if way == "another file":
        server.content, server.tag = CONTENT[::-1], '"2"'
    if way == "no tag":
        (tmp_path / "file.part.json").write_text(json.dumps({"url": server.url, "version": ""}))
    if way == "a damaged note":
        (tmp_path / "file.part.json").write_text("[")
    if way == "forgets":
        server.script = ["forgets"]
    assert download(server.url, tmp_path / "file").read_bytes() == server.content


def test_a_process_that_ends_behind_the_note_mixes_no_versions(server, tmp_path, monkeypatch):
    server.script = ["drops", *["503"] * 3]
    with pytest.raises(DataError):
        download(server.url, tmp_path / "file")
    server.content, server.tag = CONTENT[::-1], '"2"'

    def write_and_end(*given):
        write_json(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(archives, "write_json", write_and_end)
        download(server.url, tmp_path / "file")
    assert download(server.url, tmp_path / "file").read_bytes() == server.content


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        ("404", "the server answers 404"),
        ("403", "the server answers 403"),
        ("encodes", "a content encoding that was not requested"),
        ("of a bad length", "the head of the answer is not HTTP: bad Content-Length"),
        ("of no protocol", "the head of the answer is not HTTP: illegal status line"),
    ],
)
def test_an_answer_that_another_attempt_would_not_change_is_final(server, tmp_path, behavior, message):
    server.script = [behavior]
    with pytest.raises(DataError, match=message):
        download(server.url, tmp_path / "file")
    assert len(server.asked) == 1
    assert not (tmp_path / "file").exists()


def test_another_part_than_was_asked_for_is_refused(server, tmp_path):
    server.script = ["drops", "elsewhere"]
    with pytest.raises(DataError, match="a different part of the file"):
        download(server.url, tmp_path / "file")


def test_a_file_that_ends_early_does_not_have_its_sum(server, tmp_path):
    """A server that announces too few bytes is found by the sum alone."""
    server.script = ["too short"]
    with pytest.raises(DataError, match=f"the file at {server.url} differs from that of the first fetch"):
        download(server.url, tmp_path / "file", hashlib.sha256(CONTENT).hexdigest())
    assert list(tmp_path.iterdir()) == []
    server.script = ["of no length"]
    assert download(server.url, tmp_path / "file", hashlib.sha256(CONTENT).hexdigest()).exists()


def test_more_than_the_limit_is_refused(server, tmp_path, monkeypatch):
    monkeypatch.setattr("xmcbench.data.archives.STREAM", 1000)
    for behavior in ("", "of no length"):
        server.script = [behavior]
        with pytest.raises(DataError, match="more than the limit"):
            download(server.url, tmp_path / "file")
        assert not (tmp_path / "file.part").exists()


def test_a_server_that_is_not_there_is_said(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(DataError, match="cannot download"):
            download(url, tmp_path / "file")


def tar_of(files, kind=tarfile.REGTYPE, link=""):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(content), kind, link
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zip_of(files, mode=0o100644):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            archive.writestr(member, content)
    return stream.getvalue()


BAD = {
    "a path above": (tar_of({"../x": b"1"}), "leads out of its folder"),
    "a path above, zip": (zip_of({"a/../../x": b"1"}), "leads out of its folder"),
    "an absolute path": (tar_of({"/tmp/x": b"1"}), "leads out of its folder"),
    "a symbolic link": (tar_of({"x": b""}, tarfile.SYMTYPE, "/etc/passwd"), "a link or a device"),
    "a hard link": (tar_of({"x": b""}, tarfile.LNKTYPE, "/etc/passwd"), "leads out of its folder"),
    "a device": (tar_of({"x": b""}, tarfile.CHRTYPE), "a link or a device"),
    "a pipe": (tar_of({"x": b""}, tarfile.FIFOTYPE), "a link or a device"),
    "a link, zip": (zip_of({"x": b"/etc/passwd"}, 0o120777), "a link or a device"),
    "one name twice": (tar_of({"x": b"1", "./x": b"2"}), "twice"),
    "one name in two cases": (zip_of({"x": b"1", "X": b"2"}), "twice"),
    "a file as a folder": (tar_of({"x": b"1", "x/y": b"2"}), "twice"),
    "a folder as a file": (tar_of({"x/y": b"1", "x": b"2"}), "twice"),
    "a name with control characters": (tar_of({"a\x1b[31m": b"1"}), "cannot be seen"),
    "a deep path": (tar_of({"a/" * 40 + "x": b"1"}), "leads out of its folder"),
    "too much": (tar_of({"x": bytes(200_000)}), "more than the limit"),
    "too much, zip": (zip_of({"x": bytes(200_000)}), "more than the limit"),
    "too many": (tar_of({str(number): b"" for number in range(30)}), "more than 20 files"),
    "a web page": (b"<!DOCTYPE html><p>sign in", "looks like a web page"),
    "nothing": (b"", "is not an archive"),
    "an empty archive": (zip_of({"x": b"1"})[:-22] + b"", "is damaged|is not an archive"),
    "a cut archive": (tar_of({"x": bytes(range(256)) * 99})[:-300], "is damaged"),
    "a cut zip": (zip_of({"x": bytes(range(256)) * 99})[:-30], "is damaged"),
    "a name that is no text, zip": (zip_of({"\u00e4": b"1"}).replace("\u00e4".encode(), b"\xff\xff"), "is damaged"),
    "a directory before the beginning, zip": (zip_of({"x": b"1"})[:-6] + b"\xff\xff\xff\x00\x00\x00", "is damaged"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_archive_leaves_nothing_outside(tmp_path, monkeypatch, what):
    content, message = BAD[what]
    monkeypatch.setattr("xmcbench.data.archives.STREAM", 100_000)
    monkeypatch.setattr("xmcbench.data.archives.FILES", 20)
    (tmp_path / "archive").write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match=message):
        unpack(tmp_path / "archive", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "out"]
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("packed", [zip_of, tar_of])
@given(changes=st.lists(st.tuples(st.integers(4, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
def test_damage_is_told_whatever_byte_it_is_in(packed, changes):
    content = bytearray(packed({"d\u00e4/x": b"hello" * 50, "y": b"1" * 10}))
    for place, byte in changes:
        content[4 + place % (len(content) - 4)] = byte
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder, "archive"), Path(folder, "out")
        archive.write_bytes(content)
        out.mkdir()
        with suppress(DataError):
            assert len(unpack(archive, out)) <= 2


@pytest.fixture
def sets(write_folder, tmp_path, monkeypatch, server, own_cache):
    """A folder of datasets with a card whose second download is the server."""
    export(load_dataset(write_folder()), tmp_path / "pecos", "pecos", flatten=True)
    files = {f"deep/Tea/{path.name}": path.read_bytes() for path in (tmp_path / "pecos").iterdir()}
    server.content = tar_of({**files, "readme.txt": b"hello"})
    home = tmp_path / "sets"
    (home / "tea").mkdir(parents=True)
    downloads = "".join(f'[[downloads]]\nurl = "{url}"\n' for url in (f"{server.url}?first", server.url))
    (home / "tea" / "card.toml").write_text(f'name = "Tea"\nslug = "tea"\nhomepage = "http://x"\n{downloads}')
    monkeypatch.setenv("XMCBENCH_DATASETS", str(home))
    return home


def test_the_folder_that_is_named_is_made(sets, monkeypatch, tmp_path):
    """A named folder that is missing is no reason to write into the package."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XMCBENCH_DATASETS", os.pathsep.join(["~/of/mine", os.environ["XMCBENCH_DATASETS"]]))
    fetched = fetch_data("tea")
    assert {path.parent for path in fetched} == {home / "of" / "mine" / "tea"}


def test_a_cache_that_cannot_be_written_is_what_is_named(sets, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "file" / "x"))
    with pytest.raises(StorageError, match="cannot write .*file"):
        fetch_data("tea")


def test_a_dataset_is_fetched_from_the_first_download_that_works(sets, server, tmp_path, capsys):
    server.script = ["404"]
    fetched = fetch_data("tea")
    assert {path.parent for path in fetched} == {sets / "tea"}
    assert load_dataset("tea").digest == load_dataset(tmp_path / "pecos").digest
    assert examine("tea").findings == []
    assert "[[downloads]]" in (sets / "tea" / "card.toml").read_text()
    assert "the server answers 404" in capsys.readouterr().err
    asked = len(server.asked)
    assert fetch_data("tea") == fetched
    assert len(server.asked) == asked
    assert not any((tmp_path / "cache" / "downloads").iterdir())


def test_of_two_at_once_one_fetches_and_the_other_takes_what_it_has_fetched(sets, server):
    card = sets / "tea" / "card.toml"
    card.write_text(card.read_text().replace(f'[[downloads]]\nurl = "{server.url}?first"\n', ""))
    server.go_on.clear()
    command = [sys.executable, "-c", "from xmcbench.data.fetching import fetch_data; print(*fetch_data('tea'))"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **options) as first:
        while not server.asked and first.poll() is None:
            time.sleep(0.01)
        with subprocess.Popen(command, **options) as second:
            line = second.stderr.readline()
            server.go_on.set()
            printed = [process.communicate(timeout=60) for process in (first, second)]
    assert line == f"xmcbench: waiting for another process that downloads {server.url}\n"
    assert [process.returncode for process in (first, second)] == [0, 0], printed
    assert printed[0] == printed[1]
    assert server.asked == [None]


def test_what_is_here_needs_no_connection_and_what_is_not_opens_none(sets, server, monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a socket was opened")

    monkeypatch.setattr("socket.socket", refuse)
    with pytest.raises(DataError, match="--offline opens no connection"):
        fetch_data("tea", offline=True)
    monkeypatch.undo()
    monkeypatch.setenv("XMCBENCH_DATASETS", str(sets))
    fetch_data("tea")
    monkeypatch.setattr("socket.socket", refuse)
    assert fetch_data("tea", offline=True)
    (sets / "tea" / LOCK).unlink()
    with pytest.raises(
        DataError, match=r"the files in .*tea were not fetched, and --offline opens no connection \(they"
    ):
        fetch_data("tea", offline=True)


def test_other_bytes_than_at_the_first_fetch_are_an_error(sets, server, tmp_path):
    fetch_data("tea")
    path = sets / "tea" / "X.trn.txt"
    good, lock = path.read_bytes(), (sets / "tea" / LOCK).read_bytes()
    changed = good.replace(b"tea", b"gin")
    path.write_bytes(changed)
    assert examine("tea").findings == [f"{path} is not what was fetched first"]
    asked = len(server.asked)
    with pytest.raises(UsageError, match=r"X\.trn\.txt was changed after it was fetched \(--force replaces it\)"):
        fetch_data("tea")
    assert (path.read_bytes(), len(server.asked)) == (changed, asked)
    fetch_data("tea", force=True)  # it is made good again
    assert path.read_bytes() == good
    path.unlink()
    files = {name: bytes(content) for name, content in read_tar(server.content).items()}
    server.content = tar_of({name: content.replace(b"pot", b"pan") for name, content in files.items()})
    with pytest.raises(DataError, match="differs from that of the first fetch"):
        fetch_data("tea")
    assert (sets / "tea" / LOCK).read_bytes() == lock
    assert not path.exists()


def read_tar(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def test_files_of_others_are_not_replaced(sets, server):
    (sets / "tea" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"contains notes\.txt \("):
        fetch_data("tea")
    assert server.asked == []
    fetch_data("tea", force=True)
    assert (sets / "tea" / "notes.txt").read_text() == "mine"


def test_files_of_others_that_would_be_read_in_place_of_those_fetched_are_told(sets, server, write_folder):
    """Also with --force: a reader takes a compressed file before a plain one."""
    old, new = write_folder("old"), write_folder("new", suffix=".json")
    server.content = tar_of({path.name: path.read_bytes() for path in new.iterdir()})
    for path in old.iterdir():
        path.rename(sets / "tea" / path.name)
    before = {path.name: path.read_bytes() for path in (sets / "tea").iterdir()}
    with pytest.raises(UsageError, match=r"tea/\w+\.json\.gz would be taken for a part of the new dataset \(move it"):
        fetch_data("tea", force=True)
    assert {path.name: path.read_bytes() for path in (sets / "tea").iterdir()} == before


def test_an_archive_that_cannot_be_used_is_not_kept(sets, server, tmp_path):
    good = server.content
    server.content = tar_of({"x": b"no dataset"})
    with pytest.raises(DataError, match="has no layout that xmcbench knows .*http://x"):
        fetch_data("tea")
    server.content = b"<html>"
    with pytest.raises(DataError, match="looks like a web page"):
        fetch_data("tea")
    assert [path.name for path in (sets / "tea").iterdir()] == ["card.toml"]
    server.content = good
    assert fetch_data("tea")


def test_the_outermost_folder_of_an_archive_is_taken_and_two_are_refused(sets, server, tmp_path):
    """In which order a file system lists them is no reason for one of them."""
    files = {name.removeprefix("deep/Tea/"): content for name, content in read_tar(server.content).items()}
    deep, other = ({f"{folder}/{name}": content for name, content in files.items()} for folder in ("a/Tea", "b"))
    server.content = tar_of({**deep, **other})
    assert fetch_data("tea")
    server.content = tar_of({**deep, **{f"b/{name}": content for name, content in other.items()}})
    with pytest.raises(DataError, match=r"downloaded for Tea has several datasets: a/Tea, b/b"):
        fetch_data("tea", tmp_path / "out")


def test_a_file_is_not_a_folder_to_fetch_into(sets, server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file already exists and is not a folder \(choose a new or empty folder\)"):
        fetch_data("tea", tmp_path / "file")
    assert server.asked == []


def test_another_dataset_is_not_taken_for_this_one(sets, server, tmp_path):
    """``--out`` can lead to a folder where another dataset was fetched before."""
    out = tmp_path / "out"
    fetched = fetch_data("tea", out)
    content = fetched[0].read_bytes()
    (sets / "gin").mkdir()
    card = (sets / "tea" / "card.toml").read_text()
    (sets / "gin" / "card.toml").write_text(card.replace("Tea", "Gin").replace("tea", "gin").replace("set.", "gin."))
    for offline in (False, True):
        with pytest.raises(UsageError, match=r"holds what was fetched from http.*set\.tar\.gz.*, not Gin"):
            fetch_data("gin", out, offline=offline)
    assert fetched[0].read_bytes() == content
    files = {name: content.replace(b"pot", b"pan") for name, content in read_tar(server.content).items()}
    server.content = tar_of(files)
    assert fetch_data("gin", out, force=True) == fetched
    assert "gin.tar.gz" in (out / LOCK).read_text()
    assert "set.tar.gz" not in (out / LOCK).read_text()


@pytest.mark.parametrize("way", ["more", "less"])
def test_a_mirror_with_other_files_is_refused(sets, server, way):
    """A file that the first fetch did not bring has no sum to be compared with, and may be one of the user."""
    server.script = ["404"]
    fetch_data("tea")
    (sets / "tea" / "notes.txt").write_text("mine")
    (sets / "tea" / "X.trn.txt").unlink()
    files = read_tar(server.content)
    if way == "more":
        files["deep/Tea/notes.txt"] = b"theirs"
    else:
        del files["deep/Tea/X.trn.txt"]
        files["deep/Tea/X.trn.txt.gz"] = gzip.compress(b"other texts\n")
    server.content = tar_of(files)
    server.script = ["", "404"]
    with pytest.raises(DataError, match="no download of Tea works"):
        fetch_data("tea")
    assert (sets / "tea" / "notes.txt").read_text() == "mine"
    assert not (sets / "tea" / "X.trn.txt.gz").exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_was_downloaded_is_kept_until_it_is_used(sets, server, monkeypatch, error):
    def fail(*_):
        raise error

    expected, message = (StorageError, "no space left") if isinstance(error, OSError) else (KeyboardInterrupt, None)
    with monkeypatch.context() as patched, pytest.raises(expected, match=message):
        patched.setattr("xmcbench.data.fetching.unpack", fail)
        fetch_data("tea")
    asked = len(server.asked)
    assert asked
    assert fetch_data("tea")
    assert len(server.asked) == asked
    assert sorted(path.name for path in sets.iterdir()) == ["tea"]
