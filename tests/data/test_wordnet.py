"""The recipe of LF-WordNet, on a tiny package with a few synsets of nouns."""

import hashlib
import shutil
import subprocess

import pytest

from xmcbench.data import build, fetch, load_dataset
from xmcbench.data.card import write_card
from xmcbench.data.catalog import find
from xmcbench.data.recipes.wordnet import is_training
from xmcbench.data.sources.xc_raw import read_rows
from xmcbench.errors import DataError

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
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(out / "wordnet-base.deb")]
        subprocess.run(command, check=True, capture_output=True)
        return out

    return write


def _build(source, out):
    return build("lf-wordnet", out=out, indices=source, allow_other_release=True)


def test_synsets_have_their_direct_hypernyms(write_package, tmp_path, monkeypatch):
    monkeypatch.setattr("xmcbench.data.recipes.wordnet.is_training", lambda uid: uid != "n00000003")
    built = _build(write_package(), tmp_path / "out")
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
    content = (write_package() / "wordnet-base.deb").read_bytes()
    indices = {f"bookworm_main_{name}": b"" for name in ("Packages", "Translation-en")}
    fake_apt("bookworm", {**indices, "bookworm_wordnet-base": content})
    (path,) = fetch("lf-wordnet", tmp_path / "out")
    assert (path.name, path.read_bytes()) == ("wordnet-base.deb", content)
    (tmp_path / "lists" / "archive_dists_bookworm_wordnet-base").unlink()
    with pytest.raises(DataError, match="apt cannot download wordnet-base of bookworm"):
        fetch("lf-wordnet", tmp_path / "out")


def test_another_package_is_refused(write_package, tmp_path):
    with pytest.raises(DataError, match=r"wordnet-base.deb in .* are not those of Debian 12 \(bookworm\)"):
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
    content = (source / "wordnet-base.deb").read_bytes()
    for damaged in (
        content[:-100],
        b"none",
        _archive({"debian-binary": b"2.0\n", "control.tar": b"", "data.tar": b"x" * 600}),
    ):
        (source / "wordnet-base.deb").write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged"):
            _build(source, tmp_path / "out")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="dpkg-deb, which this machine does not have"):
        _build(source, tmp_path / "out")


def test_without_the_data_a_run_offers_the_build(tmp_path, monkeypatch):
    (tmp_path / "lf-wordnet").mkdir()
    write_card(tmp_path / "lf-wordnet" / "card.toml", find("lf-wordnet").card)
    monkeypatch.setattr("xmcbench.data.catalog.find_bundled", lambda: [tmp_path])
    with pytest.raises(DataError, match="LF-WordNet is not on this machine") as caught:
        load_dataset("lf-wordnet")
    assert "build it: xmcbench data build lf-wordnet" in caught.value.hint
