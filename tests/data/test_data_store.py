import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from xmcbench.data import store
from xmcbench.data.sources import Place
from xmcbench.data.sources.xc_raw import XCRaw, json_part, write_labels
from xmcbench.data.store import get_cached, get_corpus, open_corpus
from xmcbench.errors import DataError, StorageError
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.locations import cache_root
from xmcbench.texts import Texts, text_digest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "cache"))


def labels_of(path):
    return get_corpus(json_part(path, "labels"), XCRaw(Place(str(path.parent), path.parent)))


def test_the_cache_lies_where_it_is_told_to(tmp_path, monkeypatch):
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv("XMCBENCH_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "xmcbench"


def test_the_store_carries_the_digest_of_its_texts(tmp_path):
    write_labels(tmp_path / "lbl.json", [("a", "one"), ("b", "two")])
    texts = Texts.open(labels_of(tmp_path / "lbl.json").texts)
    assert texts.digest == Texts.from_lists(["one", "two"]).digest == text_digest(texts._table)


def test_a_changed_source_is_read_again_even_with_its_size_and_time_kept(tmp_path):
    path = tmp_path / "lbl.json"
    write_labels(path, [("a", "one")])
    os.utime(path, (1e9, 1e9))
    before = fingerprint(path), list(Texts.open(labels_of(path).texts))
    write_labels(path, [("a", "two")])
    os.utime(path, (1e9, 1e9))
    after = fingerprint(path), list(Texts.open(labels_of(path).texts))
    assert before[0] != after[0]
    assert (before[1], after[1]) == (["one"], ["two"])


def test_a_source_that_changes_while_it_is_read_is_not_kept(tmp_path, monkeypatch):
    """The content of its second version would be found under the digest of the first one, for good."""
    path = tmp_path / "lbl.json"
    write_labels(path, [("a", "one")])
    load = store.load_corpus

    def slow(part, folder):
        write_labels(path, [("a", "two")])
        return load(part, folder)

    with monkeypatch.context() as patched, pytest.raises(DataError, match="lbl.json changed while it was read"):
        patched.setattr(store, "load_corpus", slow)
        labels_of(path)
    write_labels(path, [("a", "one")])
    assert list(Texts.open(labels_of(path).texts)) == ["one"]


def test_a_hash_is_remembered(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("text")
    monkeypatch.setattr("xmcbench.storage.fingerprint._SETTLED_S", -1)
    digest = fingerprint(path)
    monkeypatch.setattr("xmcbench.storage.fingerprint.sha256_file", lambda _: pytest.fail("hashed again"))
    assert fingerprint(path) == digest


def test_the_digest_of_several_files_follows_their_names_and_contents(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("x" if name != "c" else "y")
    a, b, c = (tmp_path / name for name in ("a", "b", "c"))
    found = {fingerprint(a), fingerprint(a, b), fingerprint(b, a), fingerprint(a, c)}
    assert len(found) == 4
    (tmp_path / "b").write_text("z")
    assert fingerprint(a, b) not in found


def test_a_broken_note_of_a_hash_is_not_believed(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("text")
    monkeypatch.setattr("xmcbench.storage.fingerprint._SETTLED_S", -1)
    digest = fingerprint(path)
    (note,) = (cache_root() / "hashes").glob("*.json")
    for broken in ("", "[]", "{}", '{"state": 3}'):
        note.write_text(broken)
        assert fingerprint(path) == digest


def test_a_missing_source_is_said(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        fingerprint(tmp_path / "none")


def test_two_readers_at_once_read_once(tmp_path):
    write_labels(tmp_path / "lbl.json", [(str(row), f"label {row}") for row in range(2000)])
    with ThreadPoolExecutor(4) as pool:
        folders = {corpus.folder for corpus in pool.map(lambda _: labels_of(tmp_path / "lbl.json"), range(8))}
    assert len(folders) == 1


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(StorageError, match="XMCBENCH_CACHE"):
        get_cached("kind", {}, lambda folder: None)


def test_damaged_facts_are_said(tmp_path):
    for content in ("", "{", "[]", '{"rows": 1}'):
        (tmp_path / "facts.json").write_text(content)
        with pytest.raises(DataError, match="cannot read the store .*delete the folder"):
            open_corpus(tmp_path)


def test_listing_imports_nothing_heavy():
    check = (
        "import sys, xmcbench.data; from xmcbench.data import known_datasets; known_datasets();"
        "sys.exit(bool({'numpy', 'scipy', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_reading_texts_imports_no_scipy(write_folder):
    check = (
        "import sys; from xmcbench.data import load_dataset; d = load_dataset(sys.argv[1]); d.train[0]; d.labels[0];"
        "sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check, write_folder()], check=False).returncode == 0


def test_a_link_of_another_name_is_another_file(tmp_path, monkeypatch):
    """git-annex, DVC and the cache of the hub keep files under other names, and link to them."""
    monkeypatch.setattr("xmcbench.storage.fingerprint._SETTLED_S", -1)
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)
    links = [tmp_path / "a", tmp_path / "b"]
    for link, target in zip(links, ("one", "other"), strict=True):
        link.symlink_to(target)
    before = fingerprint(*links)
    links[1].rename(tmp_path / "c")
    assert fingerprint(links[0], tmp_path / "c") != before
    (tmp_path / "c").rename(links[1])
    assert fingerprint(*links) == before
