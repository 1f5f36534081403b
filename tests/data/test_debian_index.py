import gzip
import hashlib
import json
import lzma
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from xmcbench.data import build, fetch, load_dataset, verify
from xmcbench.data.card import read_card, write_card
from xmcbench.data.recipes.debian_packages import read_packages, version_key
from xmcbench.data.recipes.items import is_training
from xmcbench.data.text_files import sha256_unpacked
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
    assert verify("letters") == []


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
    assert verify(tmp_path / "other") == []


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


APT = """#!/bin/sh
# With a list of sources of its own, it has what that list says, and no other release.
release={codename}
for option; do case "$option" in Dir::Etc::sourcelist=*) read -r kind release rest < "${{option#*=}}"
    release="${{rest##*archive }}"; release="${{release%% *}}" ;; esac; done
case "$*" in
*indextargets*)
    if [ "$release" = {codename} ]; then prefix=; else prefix="$release-"; fi
    printf "Packages\\tDebian\\t$release\\tmain\\t{folder}/${{prefix}}Packages\\thttp://mirror/archive\\n"
    printf "Translations\\tDebian\\t$release\\tmain\\t{folder}/${{prefix}}Translation-en\\thttp://mirror/archive\\n" ;;
*cat-file*) for last; do :; done; cat "$last" ;;
*update*) echo 'E: no network' >&2; exit 100 ;;
esac
"""


@pytest.fixture
def apt(tmp_path, monkeypatch, indices):
    """A stand-in for apt whose sources hold the small indices under a code name."""

    def install(codename):
        program = tmp_path / "bin" / "apt-get"
        program.parent.mkdir()
        program.write_text(APT.format(codename=codename, folder=indices))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr("xmcbench.data.recipes.apt._HELPER", program)

    return install


def test_indices_come_from_the_machines_apt(card, apt, indices, tmp_path):
    apt("greek")
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


def test_the_next_release_comes_from_the_archive_of_the_first(next_card, apt, tmp_path, indices):
    apt("greek")
    paths = fetch("letters", tmp_path / "out")
    names = ["Packages", "Translation-en", "latin-Packages", "latin-Translation-en"]
    assert [path.name for path in paths] == names
    assert [path.read_bytes() for path in paths] == [(indices / name).read_bytes() for name in names]


def test_releases_without_a_new_package_make_no_dataset(next_card, indices):
    (indices / "latin-Packages").write_text(PACKAGES)
    with pytest.raises(DataError, match="no package of the next release refers to a new one"):
        build("letters", next_card.parent.parent / "other", indices, allow_other_release=True)


def test_a_release_that_apt_does_not_hold_is_said(card, apt, tmp_path):
    apt("latin")
    with pytest.raises(DataError, match="do not have Debian greek main: E: no network") as caught:
        fetch("letters", tmp_path / "out")
    assert "--indices" in caught.value.hint
