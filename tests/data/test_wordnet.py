"""The recipe of LF-WordNet, on a tiny package with a few synsets of nouns."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from xmcbench.data import build, fetch, load_dataset
from xmcbench.data.card import write_card
from xmcbench.data.catalog import find
from xmcbench.data.recipes.wordnet import is_training
from xmcbench.data.sources.xc_raw import read_rows
from xmcbench.errors import DataError

PACKAGE = "wordnet-base_3.0-37_all.deb"
#: As wndb(5WN) describes it; the offsets are not those of the lines, which nothing reads by offset.
NOUNS = """\
  1 This software and database is being provided to you, the LICENSEE, by
00000001 03 n 01 entity 0 002 ~ 00000002 n 0000 ~ 00000004 n 0000 | that which exists
00000002 15 n 02 body_of_water 0 water 1 003 @ 00000001 n 0000 ~ 00000003 n 0000 + 00000009 v 0101 | a part of the \
earth's surface; "they invaded our territorial waters"; "a | b"
00000003 17 n 0b lake 0 tarn 0 a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 002 @ 00000004 n 0000 @ 00000002 n 0000 | a pool
00000004 03 n 01 thing 0 001 @ 00000001 n 0000 | a  separate entity
00000005 17 n 01 Saimaa 0 002 @i 00000003 n 0000 #p 00000004 n 0000 | the largest lake of Finland
"""


@pytest.fixture
def write_package(tmp_path):
    """Write a package with a file of nouns into a folder; return the folder."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb, which writes and reads packages")

    def write(nouns=NOUNS, name="usr/share/wordnet/data.noun"):
        tree = tmp_path / "tree"
        for path, text in (
            ("DEBIAN/control", "Package: wordnet-base\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n"),
            (name, nouns),
        ):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        for folder in (tree, tree / "DEBIAN"):
            folder.chmod(0o755)
        out = tmp_path / "source"
        out.mkdir()
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(out / PACKAGE)]
        subprocess.run(command, check=True, capture_output=True)
        return out

    return write


def _build(source, out):
    return build("lf-wordnet", out=out, indices=source, allow_other_release=True)


def test_synsets_have_their_direct_hypernyms(write_package, tmp_path, monkeypatch):
    monkeypatch.setattr("xmcbench.data.recipes.wordnet.is_training", lambda uid: uid != "n00000003")
    lines = []
    built = build(
        "lf-wordnet",
        out=tmp_path / "out",
        indices=write_package(),
        allow_other_release=True,
        progress=lines.append,
    )
    assert lines == ["reading usr/share/wordnet/data.noun", "writing 5 synsets"]
    dataset = load_dataset(built.folder)
    # Nothing is a hypernym of "entity", and nothing has "Saimaa" as one.
    assert [*dataset.train.uids] == ["n00000002", "n00000004", "n00000005"]
    assert [*dataset.train.titles] == ["body of water, water", "thing", "Saimaa"]
    example = """a part of the earth's surface; "they invaded our territorial waters"; "a | b\""""
    assert [*dataset.train.contents] == [example, "a separate entity", "the largest lake of Finland"]
    assert [*dataset.test.titles] == ["lake, tarn, a, b, c, d, e, f, g, h, i"]
    assert [*dataset.labels.uids] == ["n00000001", "n00000002", "n00000003", "n00000004"]
    assert dataset.labels.titles[1] == f"body of water, water: {example}"
    assert dataset.train_pairs().toarray().tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    assert dataset.test_pairs().toarray().tolist() == [[0, 1, 0, 1]]
    (row,) = read_rows(built.folder / "tst.json.gz", "instances")
    assert [*row.labels] == [1, 3]
    # The filter of the card: lake is a label too.
    assert dataset.card.filter == "self"
    assert dataset.filter("self").toarray().tolist() == [[0, 0, 1, 0]]


def test_a_digest_decides_the_side():
    uids = [f"n{number:08}" for number in range(1000)]
    assert [is_training(uid) for uid in uids] == [
        int(hashlib.sha256(uid.encode()).hexdigest(), 16) % 10 < 7 for uid in uids
    ]
    assert 650 < sum(map(is_training, uids)) < 750


def test_two_builds_are_byte_for_byte_the_same(write_package, tmp_path, monkeypatch):
    monkeypatch.setattr("xmcbench.data.recipes.wordnet.is_training", lambda uid: uid != "n00000003")
    source = write_package()
    first, second = (_build(source, tmp_path / name).folder for name in ("one", "two"))
    for name in ("lbl.json.gz", "trn.json.gz", "tst.json.gz", "card.toml"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_package_comes_from_apt(write_package, fake_apt, tmp_path):
    content, lines = (write_package() / PACKAGE).read_bytes(), []
    packages = f"Package: wordnet-base\nFilename: pool/main/w/wordnet/{PACKAGE}\n".encode()
    fake_apt("bookworm", {"bookworm_main_Packages": packages, "bookworm_main_Translation-en": b""})
    (tmp_path / "lists" / PACKAGE).write_bytes(content)
    (path,) = fetch("lf-wordnet", tmp_path / "out", lines.append)
    assert (path.name, path.read_bytes()) == (PACKAGE, content)
    assert lines == [f"0 of 1 packages fetched; now {PACKAGE}"]
    (tmp_path / "lists" / PACKAGE).unlink()
    with pytest.raises(DataError, match=f"cannot fetch .*{PACKAGE}: E: no network") as caught:
        fetch("lf-wordnet", tmp_path / "out")
    assert "run it again to go on" in caught.value.hint


def test_another_package_is_refused(write_package, tmp_path):
    with pytest.raises(DataError, match=rf"{PACKAGE} in .* are not those of Debian 12 \(bookworm\)"):
        build("lf-wordnet", out=tmp_path / "out", indices=write_package())


@pytest.mark.parametrize(
    ("nouns", "reason"),
    [
        (NOUNS.replace(" | a  separate", " a separate"), "data.noun, line 5: is not a synset: it has no gloss"),
        (NOUNS.replace("lake 0 tarn", "lake tarn"), "line 4: is not a synset: "),
        (NOUNS.replace("#p 00000004 n 0000", "#p 00000004 n"), "line 6: is not a synset: it has another number"),
        (NOUNS.replace("@i 00000003", "@i 00000030"), "does not have the hypernym n00000030"),
        ("  1 The license\n", "has no synset"),
    ],
)
def test_a_damaged_database_is_named(write_package, tmp_path, nouns, reason):
    with pytest.raises(DataError) as caught:
        _build(write_package(nouns), tmp_path / "out")
    assert reason in caught.value.message
    assert not (tmp_path / "out").exists()


def _archive(members):
    """An ar archive, as a package is one."""
    headers = {
        name: f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n" for name, content in members.items()
    }
    return b"!<arch>\n" + b"".join(headers[name].encode() + content for name, content in members.items())


def test_what_is_no_such_package_is_named(write_package, tmp_path, monkeypatch):
    source = write_package(name="usr/share/other")
    with pytest.raises(DataError, match="does not contain usr/share/wordnet/data.noun"):
        _build(source, tmp_path / "out")
    content = (source / PACKAGE).read_bytes()
    for damaged in (
        content[:-100],
        b"none",
        _archive({"debian-binary": b"2.0\n", "control.tar": b"", "data.tar": b"x" * 600}),
    ):
        (source / PACKAGE).write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged"):
            _build(source, tmp_path / "out")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="dpkg-deb, which this machine does not have"):
        _build(source, tmp_path / "out")


def test_without_the_data_the_command_that_builds_them_is_said(tmp_path, monkeypatch):
    home, own = tmp_path / "share", tmp_path / "own data"
    (home / "lf-wordnet").mkdir(parents=True)
    write_card(home / "lf-wordnet" / "card.toml", find("lf-wordnet").card)
    monkeypatch.setattr("xmcbench.data.catalog.find_bundled", lambda: [home])
    with pytest.raises(DataError, match="LF-WordNet is not on this machine") as caught:
        load_dataset("lf-wordnet")
    assert caught.value.hint == "build it: xmcbench data build lf-wordnet"
    # In an installation that belongs to somebody else, the data go into a folder of the user.
    monkeypatch.setattr("os.access", lambda path, _: not Path(path).is_relative_to(home))
    assert find("lf-wordnet").hint == "build it: xmcbench data build lf-wordnet --out FOLDER"
    monkeypatch.setenv("XMCBENCH_DATASETS", str(own))
    assert find("lf-wordnet").hint == f"build it: xmcbench data build lf-wordnet --out '{own / 'lf-wordnet'}'"
