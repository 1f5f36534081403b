import gzip
import hashlib
import json
import lzma
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from xmcbench.command.main import main
from xmcbench.data import build, fetch, load_dataset
from xmcbench.data.card import read_card, write_card
from xmcbench.data.recipes.debian_packages import read_packages, version_key
from xmcbench.data.recipes.items import is_training
from xmcbench.data.text_files import sha256_unpacked
from xmcbench.data.verification import examine
from xmcbench.errors import DataError, UnknownName, UsageError

PACKAGES = """\
Package: alpha
Version: 1.0-1
Suggests: beta (>= 2) | gamma, delta:any, nowhere, alpha
Description: first letter
Description-md5: a1

Package: beta
Version: 2:1.9
Recommends: gamma [amd64] <!nocheck>,
 delta
Description: second letter
Description-md5: b1

Package: gamma
Version: 1
Enhances: alpha
Description: third letter
 The long text, here.
Description-md5: none

Package: delta
Version: 1.10
Description: the newer one
Description-md5: d2

Package: delta
Version: 1.9
Suggests: alpha
Description: the older one
Description-md5: d1
"""
TRANSLATION = """\
Package: alpha
Description-md5: a1
Description-en: first letter
 It is  the first\tone.
 .
   * of the alphabet

Package: beta
Description-md5: b1
Description-en: second letter
 It follows.

Package: delta
Description-md5: d1
Description-en: the older one
 Old.

Package: delta
Description-md5: d2
Description-en: the newer one
 New.
"""


@pytest.fixture
def indices(tmp_path):
    """A folder with a small pair of indices."""
    folder = tmp_path / "indices"
    folder.mkdir()
    (folder / "Packages").write_text(PACKAGES)
    (folder / "Translation-en").write_text(TRANSLATION)
    return folder


@pytest.fixture
def card(tmp_path, monkeypatch, indices):
    """The path of the card of a dataset ``letters`` that is built from these indices."""
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    path = tmp_path / "sets" / "letters" / "card.toml"
    path.parent.mkdir(parents=True)
    sums = {name: sha256_unpacked(indices / name) for name in ("Packages", "Translation-en")}
    path.write_text(
        'name = "Letters"\nslug = "letters"\nrelease = "Greek 1"\n[build]\nrecipe = "debian-packages"\n'
        'release = "greek"\ncomponent = "main"\narchitecture = "amd64"\n[build.indices]\n'
        + "".join(f'{name} = "{digest}"\n' for name, digest in sums.items())
    )
    return path


def _read(indices):
    return read_packages(indices / "Packages", indices / "Translation-en")


def test_a_package_has_one_line_texts_and_its_relations(indices):
    packages = _read(indices)
    assert packages["alpha"].title == "alpha - first letter"
    assert packages["alpha"].content == "It is the first one. * of the alphabet"
    assert packages["alpha"].related == {"beta", "gamma", "delta", "nowhere"}
    assert packages["beta"].related == {"gamma", "delta"}
    assert packages["gamma"].content == "The long text, here."


def test_other_fields_and_another_language(indices):
    (indices / "Packages").write_text(PACKAGES.replace("Suggests: alpha", "Depends: alpha, gamma"))
    packages = read_packages(indices / "Packages", indices / "Translation-en", ("Depends", "Enhances"))
    assert {name: sorted(package.related) for name, package in packages.items()} == {
        "alpha": [],
        "beta": [],
        "gamma": ["alpha"],
        "delta": [],
    }
    (indices / "Translation-de").write_text(TRANSLATION.replace("Description-en", "Description-de"))
    german = read_packages(indices / "Packages", indices / "Translation-de", language="de")
    assert sorted(german) == ["alpha", "beta", "delta"]
    assert german["alpha"].content == "It is the first one. * of the alphabet"


def test_a_card_says_fields_and_language(card, indices):
    (indices / "Translation-en").rename(indices / "Translation-de")
    text = (indices / "Translation-de").read_text().replace("Description-en", "Description-de")
    (indices / "Translation-de").write_text(text)
    recipe = read_card(card)
    sums = {name: sha256_unpacked(indices / name) for name in ("Packages", "Translation-de")}
    made = replace(recipe.build, relations=("Suggests", "Recommends"), language="de", indices=sums)
    write_card(card, replace(recipe, build=made))
    assert read_card(card).build == made
    build("letters", indices=indices)
    dataset = load_dataset("letters")
    assert [*dataset.labels.uids] == ["beta", "delta"]
    assert ([*dataset.train.uids], [*dataset.test.uids]) == (["alpha"], ["beta"])
    assert dataset.train_pairs().toarray().tolist() == [[1, 1]]


def test_the_highest_version_of_a_name_counts(indices):
    delta = _read(indices)["delta"]
    assert (delta.content, delta.related) == ("New.", frozenset())


def test_versions_are_ordered_as_dpkg_does():
    ordered = ["1~~", "1~~a", "1~", "1", "1-1", "1a", "1a+", "1+", "1.9", "1.10", "1.10-2", "1.10-10", "2", "1:0.1"]
    assert sorted(ordered[::2] + ordered[1::2], key=version_key) == ordered
    assert version_key("0:1.0") == version_key("1.0")


@given(st.text("0123456789abc.+~-:", min_size=1), st.text("0123456789abc.+~-:", min_size=1))
def test_any_two_versions_compare(one, other):
    assert (version_key(one) < version_key(other)) + (version_key(one) > version_key(other)) <= 1


@pytest.mark.parametrize("pack", [None, gzip.compress, lzma.compress])
def test_packed_indices_build_the_same_bytes(card, indices, tmp_path, pack):
    if pack:
        for name in ("Packages", "Translation-en"):
            suffix = ".gz" if pack is gzip.compress else ".xz"
            (indices / f"{name}{suffix}").write_bytes(pack((indices / name).read_bytes()))
            (indices / name).unlink()
    built = build("letters", tmp_path / "out", indices)
    assert hashlib.sha256((built.folder / "lbl.json.gz").read_bytes()).hexdigest() == built.card.files["lbl.json.gz"]
    lines = gzip.decompress((built.folder / "lbl.json.gz").read_bytes()).decode().splitlines()
    assert [json.loads(line)["uid"] for line in lines] == ["alpha", "beta", "delta", "gamma"]
    assert built.card.counts["train_pairs"] + built.card.counts["test_pairs"] == 6


def test_two_builds_are_byte_for_byte_the_same(card, indices, tmp_path):
    first = build("letters", indices=indices)
    assert first.folder == card.parent
    assert not first.as_pinned
    again = build("letters", tmp_path / "again", indices)
    assert again.as_pinned
    for path in first.folder.iterdir():
        assert path.read_bytes() == (again.folder / path.name).read_bytes()
    assert examine("letters").findings == []


def test_a_built_dataset_holds_the_pairs(card, indices):
    build("letters", indices=indices)
    dataset = load_dataset("letters")
    assert {name: is_training(name) for name in ("alpha", "beta", "gamma")} == {
        "alpha": True,
        "beta": False,
        "gamma": False,
    }
    assert list(dataset.train) == ["alpha - first letter\tIt is the first one. * of the alphabet"]
    assert list(dataset.test.uids) == ["beta", "gamma"]
    assert dataset.train_pairs().toarray().tolist() == [[0, 1, 1, 1]]
    assert dataset.test_pairs().toarray().tolist() == [[0, 0, 1, 1], [1, 0, 0, 0]]
    assert (dataset.filter("self") != dataset.filter("file")).nnz == 0
    assert dataset.filter("self").toarray().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]


def test_indices_of_another_release_are_refused_unless_allowed(card, indices, tmp_path):
    (indices / "Packages").write_text(PACKAGES.replace("first letter", "a letter"))
    with pytest.raises(DataError, match=r"Packages in .* are not those of Greek 1"):
        build("letters", indices=indices)
    with pytest.raises(UsageError, match="another release is another dataset"):
        build("letters", indices=indices, allow_other_release=True)
    built = build("letters", tmp_path / "other", indices, allow_other_release=True)
    made = read_card(tmp_path / "other" / "card.toml")
    assert made == built.card
    assert made.release == "other than Greek 1"
    assert made.build.indices["Packages"] == sha256_unpacked(indices / "Packages")
    assert examine(tmp_path / "other").findings == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "lists no package"),
        (" x\n", "line 1: is a continuation line without a field"),
        ("Package: a\nVersion: 1\n\nno colon\n", "line 4: 'no colon' is not a field"),
        ("Package: a\nVersion: 1\n\nVersion: 2\n", "line 4: a stanza without Package or Version"),
        (b"Package: \xff\n", "line 1: is not UTF-8"),
    ],
)
def test_a_broken_index_names_file_and_line(indices, text, reason):
    (indices / "Packages").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        _read(indices)
    assert reason in caught.value.message
    assert "Packages" in caught.value.message


def test_a_missing_index_is_named(card, indices):
    (indices / "Translation-en").unlink()
    with pytest.raises(DataError, match="has no Translation-en"):
        build("letters", indices=indices)


def test_a_failed_build_leaves_what_was_there(card, indices):
    before = build("letters", indices=indices).folder
    content = {path.name: path.read_bytes() for path in before.iterdir()}
    (indices / "Packages").write_text("Package: alone\nVersion: 1\n")
    path = before / "card.toml"
    made = read_card(path)
    sums = made.build.indices | {"Packages": sha256_unpacked(indices / "Packages")}
    write_card(path, replace(made, build=replace(made.build, indices=sums)))
    content["card.toml"] = path.read_bytes()
    with pytest.raises(DataError, match="no package of the index refers to another one"):
        build("letters", indices=indices)
    assert {path.name: path.read_bytes() for path in before.iterdir()} == content


def test_a_folder_with_other_things_is_not_replaced(card, indices, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "letters.doc").write_text("mine")
    with pytest.raises(UsageError, match=r"contains letters.doc \("):
        build("letters", out, indices)
    build("letters", out, indices, force=True)
    assert (out / "letters.doc").read_text() == "mine"
    before = (out / "trn.json.gz").read_bytes()
    (out / "letters.doc").unlink()
    (out / "trn.json.gz").write_text("changed by hand")
    with pytest.raises(UsageError, match=r"contains trn.json.gz \("):
        build("letters", out, indices)
    build("letters", out, indices, force=True)
    assert (out / "trn.json.gz").read_bytes() == before
    build("letters", out, indices)  # over its own files


def test_what_has_no_recipe_says_where_to_get_it():
    with pytest.raises(DataError, match="cannot be built") as caught:
        fetch("lf-amazon-131k", Path("unused"))
    assert "XMLRepository" in caught.value.hint
    with pytest.raises(DataError, match="cannot be built") as caught:
        build("lf-debian-2k")
    assert "lf-debian-20k" in caught.value.hint
    with pytest.raises(UnknownName):
        build("lf-debian-20")


def test_without_apt_the_indices_are_asked_for(card, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="apt-get, which this machine does not have") as caught:
        fetch("letters", tmp_path / "out")
    assert "--indices" in caught.value.hint


@pytest.fixture
def apt(fake_apt, indices):
    """A stand-in for apt whose archive holds the small indices, as those of the releases of the given names."""

    def install(machine="greek", archive=("greek", "latin")):
        files = {}
        for release in archive:
            prefix = "" if release == "greek" else f"{release}-"
            for name in ("Packages", "Translation-en"):
                if (indices / f"{prefix}{name}").exists():
                    files[f"{release}_main_{name}"] = (indices / f"{prefix}{name}").read_bytes()
            files[f"{release}_InRelease"] = IN_RELEASE.encode()
        return fake_apt(machine, files)

    return install


IN_RELEASE = """\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Origin: Debian
Codename: latin
Date: Sat, 21 Nov 2026 23:15:44 UTC
"""


def test_indices_come_from_the_machines_apt(card, apt, indices, tmp_path):
    apt()
    paths = fetch("letters", tmp_path / "out")
    assert [path.read_bytes() for path in paths] == [(indices / path.name).read_bytes() for path in paths]
    assert build("letters").card.counts["labels"] == 4


NEXT = (
    PACKAGES.replace("Suggests: beta (>= 2) | gamma, delta:any, nowhere, alpha", "Suggests: beta, omega")
    + """\

Package: omega
Version: 1
Recommends: alpha, beta
Description: last letter
Description-md5: o1

Package: psi
Version: 1
Suggests: omega, gamma, alpha, psi
Description: a new letter
Description-md5: p1
"""
)


@pytest.fixture
def next_card(card, indices):
    """The card of a dataset of two releases, the second with the new packages omega and psi."""
    latin = NEXT.replace("Enhances: alpha", "Enhances: alpha, omega, beta").replace("third letter", "changed letter")
    (indices / "latin-Packages").write_text(latin)
    (indices / "latin-Translation-en").write_text(TRANSLATION.replace("first letter", "changed letter"))
    names = [f"{release}{name}" for release in ("", "latin-") for name in ("Packages", "Translation-en")]
    recipe = read_card(card)
    sums = {name: sha256_unpacked(indices / name) for name in names}
    write_card(card, replace(recipe, build=replace(recipe.build, next_release="latin", indices=sums)))
    return card


def test_labels_that_are_new_in_the_next_release(next_card, indices):
    build("letters", indices=indices)
    dataset = load_dataset("letters")
    # alpha trains. beta names no new package; alpha is a training instance, whatever it names in the next release.
    assert [*dataset.train.uids] == ["alpha"]
    assert [*dataset.test.uids] == ["gamma", "psi"]
    # alpha is named by a test instance, but it is neither seen nor new; nothing names psi but itself.
    assert [*dataset.labels.uids] == ["beta", "delta", "gamma", "omega"]
    # A label has the text of the release that it is seen in.
    assert [*dataset.labels][2:] == ["gamma - third letter", "omega - last letter"]
    assert dataset.train_pairs().toarray().tolist() == [[1, 1, 1, 0]]
    assert dataset.test_pairs().toarray().tolist() == [[1, 0, 0, 1], [0, 0, 1, 1]]
    assert dataset.filter("self").toarray().tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("machine", ["greek", "hebrew"])
def test_releases_come_from_the_archive_of_the_machine(next_card, apt, tmp_path, indices, machine):
    for name in ("Packages", "Translation-en"):
        (indices / f"hebrew-{name}").write_text("")
    log = apt(machine, ("greek", "latin", "hebrew"))
    (indices / "latin-InRelease").write_text(IN_RELEASE)
    paths = fetch("letters", tmp_path / "out")
    names = ["Packages", "Translation-en", "latin-Packages", "latin-Translation-en", "latin-InRelease"]
    assert [path.name for path in paths] == names
    assert [path.read_bytes() for path in paths] == [(indices / name).read_bytes() for name in names]
    sources = log.read_text().splitlines()
    assert [line.partition("] ")[2] for line in sources] == [
        f"http://mirror/archive {release} main" for release in ("greek", "latin")[machine == "greek" :]
    ]
    assert all("check-valid-until=yes" in line for line in sources)


def test_releases_without_a_new_package_make_no_dataset(next_card, indices):
    (indices / "latin-Packages").write_text(PACKAGES)
    with pytest.raises(DataError, match="no package of the next release refers to a new one"):
        build("letters", next_card.parent.parent / "other", indices, allow_other_release=True)


@pytest.mark.parametrize("archive", [("greek",), ()])
def test_a_release_that_apt_does_not_hold_is_said(next_card, apt, tmp_path, archive):
    apt("greek", archive)
    release = "latin" if archive else "greek"
    with pytest.raises(DataError, match=f"apt does not find Debian {release} main: E: no network") as caught:
        fetch("letters", tmp_path / "out")
    assert "--indices" in caught.value.hint


def _other_releases(tmp_path, indices, **releases):
    return build("letters", tmp_path / "other", indices, **releases)


def test_other_releases_make_another_dataset(next_card, indices, tmp_path):
    build("letters", indices=indices)
    for name in ("Packages", "Translation-en"):
        (indices / f"latin-{name}").rename(indices / f"trixie-{name}")
    (indices / "trixie-InRelease").write_text(IN_RELEASE)
    with pytest.raises(UsageError, match="another release is another dataset"):
        build("letters", indices=indices, train="12", test="13")
    built = _other_releases(tmp_path, indices, train="12", test="13")
    assert built.as_pinned is None
    made = read_card(tmp_path / "other" / "card.toml")
    assert (made.name, made.slug) == ("Letters-bookworm-trixie", "letters-bookworm-trixie")
    assert (made.release, made.date) == ("Debian bookworm and trixie, main", "2026-11-21")
    assert (made.build.release, made.build.next_release) == ("bookworm", "trixie")
    assert "Debian trixie that suggest" in made.description
    assert made.counts["test"] == 2
    assert examine(tmp_path / "other").findings == []
    # Its card is one that can be built again, and then it has checksums.
    shutil.copytree(tmp_path / "other", next_card.parent.parent / "letters-bookworm-trixie")
    before = (tmp_path / "other" / "trn.json.gz").read_bytes()
    again = build("letters-bookworm-trixie", indices=indices)
    assert again.as_pinned
    assert (again.folder / "trn.json.gz").read_bytes() == before
    assert again.card == made


def test_releases_are_chosen_on_the_command_line(next_card, indices, tmp_path, capsys):
    for name in ("Packages", "Translation-en"):
        (indices / f"latin-{name}").rename(indices / f"trixie-{name}")
    (indices / "trixie-InRelease").write_text(IN_RELEASE)
    releases = ["--train", "12", "--test", "13"]
    assert main(["data", "build", "letters", "--indices", str(indices), "--out", str(tmp_path / "new"), *releases]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Letters-bookworm-trixie in {tmp_path / 'new'}: ")
    assert printed.endswith("; the card had no checksums to compare with\n")


def test_the_releases_of_the_card_are_the_dataset_of_the_card(next_card, indices):
    build("letters", indices=indices)
    path = next_card
    write_card(path, replace(read_card(path), date="2026-11-20"))
    built = build("letters", indices=indices, test="latin@2026-11-20")
    assert built.as_pinned
    assert (built.card.name, built.card.date) == ("Letters", "2026-11-20")
    assert (built.card.build.release, built.card.build.next_release) == ("greek", "latin@2026-11-20")
    (indices / "latin-Packages").write_text(PACKAGES)
    with pytest.raises(DataError, match="latin-Packages in .* are not those of Greek 1") as caught:
        build("letters", indices=indices)
    assert "or take a snapshot: --test latin@2026-11-20" in caught.value.hint


def test_a_day_asks_for_a_snapshot(next_card, apt, indices, tmp_path):
    for name in ("Packages", "Translation-en"):
        (indices / f"latin-{name}").rename(indices / f"testing-{name}")
    log = apt("greek", ("greek", "testing"))
    built = build("letters", tmp_path / "other", train="greek", test="testing@2026-11-21")
    assert (built.card.name, built.card.slug, built.card.date) == (
        "Letters-greek-testing-2026-11-21",
        "letters-greek-testing-2026-11-21",
        "2026-11-21",
    )
    (line,) = log.read_text().splitlines()
    assert line.endswith("] http://snapshot.debian.org/archive/debian/20261121T235959Z testing main")
    assert "check-valid-until=no" in line


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("testing", "testing changes with time"),
        ("sid", "sid changes with time"),
        ("16", "'16' is not a release of Debian"),
        ("trixie main\ndeb", "is not a release of Debian"),
        ("13@yesterday", "'13@yesterday' is not a release of Debian"),
        ("13@", "'13@' is not a release of Debian"),
    ],
)
def test_what_is_no_fixed_release_is_refused(next_card, indices, tmp_path, release, reason):
    with pytest.raises(UsageError, match=reason):
        _other_releases(tmp_path, indices, train="12", test=release)


def test_releases_are_for_datasets_of_two(card, indices, tmp_path):
    with pytest.raises(UsageError, match="Letters is not of two releases"):
        _other_releases(tmp_path, indices, test="13")


@pytest.mark.parametrize(("content", "reason"), [(None, "has no latin-InRelease"), ("Origin: Debian\n", "valid Date")])
def test_the_day_of_the_test_data_has_to_be_known(next_card, indices, tmp_path, content, reason):
    if content:
        (indices / "latin-InRelease").write_text(content)
    (indices / "Packages").write_text(PACKAGES.replace("first letter", "a letter"))
    with pytest.raises(DataError, match=reason):
        build("letters", tmp_path / "other", indices, allow_other_release=True)
