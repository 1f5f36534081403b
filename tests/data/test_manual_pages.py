"""The recipe that makes a dataset of manual pages and the pages in their SEE ALSO, on packages of a few pages."""

import gzip
import os
import shutil
import subprocess

import pytest

from xmcbench.data import build, fetch, load_dataset
from xmcbench.data.card import read_card
from xmcbench.data.catalog import find
from xmcbench.data.recipes import apt, manual_files
from xmcbench.data.recipes.manual_files import Text, parse, read_pages
from xmcbench.data.verification import examine
from xmcbench.errors import DataError
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.locations import cache_root, find_shipped

MISSING = [tool for tool in ("dpkg-deb", "mandoc") if shutil.which(tool) is None]


def page(name, description, text, related=""):
    """A page in man(7)."""
    end = f'.SH "SEE ALSO"\n{related}\n' if related else ""
    return f".TH {name}\n.SH NAME\n{name} \\- {description}\n.SH DESCRIPTION\n{text}\n{end}.SH NOTES\nThe end.\n"


SORT = """\
.Dd January 1, 2024
.Dt SORT 1
.Os
.Sh NAME
.Nm sort
.Nd order lines
.Sh DESCRIPTION
.Nm
orders the lines of a file.
.Ss See also
.Xr ls 1
.Ss Other programs
There are none.
"""
LIST = page("list", "show files", "Shows \\fBall\\fP files.", "\\fBsort\\fP(1), open (2),\n.BR list (1),\nnowhere(1)")
ALPHA = {
    "man1/list.1": LIST,
    "man1/dir.1": '.\\" the same page\n.so man1/list.1\n',
    "man1/ls.1": ("list.1.gz",),
    "man1/sort.1": SORT,
    "man2/open.2": page("open", "open a file", "Opens a file.", "close(2)"),
    "man2/close.2": page("close", "close a file", "Closes a file."),
    "man1/loop.1": ("pool.1.gz",),
    "man1/pool.1": ("loop.1.gz",),
    "man1/alone.1": ("missing.1.gz",),
    "man1/empty.1": ".TH EMPTY 1\n",
    "de/man1/list.1": page("list", "Dateien zeigen", "Zeigt alle Dateien.", "sort(1)"),
}
BETA = {
    # Of its own package comes first: it refers to itself, and to the close of the other package.
    "man2/open.2beta": page("open", "open a file of beta", "Opens a beta file.", "open(2), close(2), File::Sort"),
    "man3/File::Sort.3pm": page(
        "File::Sort", "order a file", "Orders a file.", "File::None, an e.g. sentence, sort(2)"
    ),
    "man1/arrange.1": SORT,
    "man1/ls.1": page("ls", "another ls", "It cannot be installed beside the first."),
}


@pytest.fixture
def write_deb(tmp_path):
    """Write a package of pages, each as text, or as a tuple with the target of a link."""
    if MISSING:
        pytest.skip(f"this machine lacks {' and '.join(MISSING)}: apt install dpkg mandoc")

    def write(package, pages, out=None):
        root = tmp_path / "roots" / package
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN" / "control").write_text(
            f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: M <m@example.org>\nDescription: pages\n"
        )
        for name, content in pages.items():
            path = root / "usr/share/man" / f"{name}.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, tuple):
                path.symlink_to(*content)
            else:
                path.write_bytes(gzip.compress(content.encode(), mtime=0))
        archive = (out or tmp_path / "debs") / f"{package}_1_all.deb"
        archive.parent.mkdir(exist_ok=True)
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(root), str(archive)]
        subprocess.run(command, check=True, capture_output=True)
        return archive

    return write


@pytest.fixture
def write_card(tmp_path, monkeypatch):
    """Write the card of a dataset ``pages`` that is built from these packages."""
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "cache"))

    def write(*archives):
        path = tmp_path / "sets" / "pages" / "card.toml"
        path.parent.mkdir(parents=True)
        path.write_text(
            'name = "Pages"\nslug = "pages"\nrelease = "Greek 1"\nfilter = "self"\n[build]\nrecipe = "manual-pages"\n'
            'release = "greek"\ncomponent = "main"\narchitecture = "amd64"\n[build.indices]\n'
            + "".join(f'"{archive.name}" = "{sha256_file(archive)}"\n' for archive in archives)
            + '[build.tools]\nmandoc = "0"\n'
        )
        return path

    return write


@pytest.fixture
def archives(write_deb):
    return [write_deb("alpha", ALPHA), write_deb("beta", BETA)]


def _pairs(dataset):
    """The names of the labels of each instance, by its name."""
    names = [*dataset.labels.uids]
    return {
        uid: [names[label] for label in row.indices]
        for texts, pairs in ((dataset.train, dataset.train_pairs()), (dataset.test, dataset.test_pairs()))
        for uid, row in zip(texts.uids, pairs, strict=True)
    }


def test_pages_and_the_pages_that_they_name(archives, write_card):
    write_card(*archives)
    built = build("pages", indices=archives[0].parent)
    dataset = load_dataset("pages")
    # arrange is sort, by its first name, and ls is list. A page is no label of itself.
    assert _pairs(dataset) == {
        "arrange.1": ["list.1"],
        "list.1": ["arrange.1", "open.2"],
        "open.2": ["close.2"],
        "open.2beta": ["File::Sort.3pm", "close.2"],
    }
    assert dict(zip(dataset.labels.uids, dataset.labels, strict=True)) == {
        "File::Sort.3pm": "File::Sort(3) - order a file",
        "arrange.1": "arrange(1) - order lines",
        "close.2": "close(2) - close a file",
        "list.1": "list(1) - show files",
        "open.2": "open(2) - open a file",
    }
    texts = {text for side in (dataset.train, dataset.test) for text in side}
    assert "list(1) - show files\tDESCRIPTION Shows all files. NOTES The end." in texts
    sort = "DESCRIPTION sort orders the lines of a file. Other programs There are none."
    assert f"arrange(1) - order lines\t{sort}" in texts
    own = dataset.filter("self").nnz, dataset.filter("file").nnz
    assert own[0] == own[1] == len({"arrange.1", "list.1", "open.2"} & {*dataset.test.uids})
    assert built.card.build.tools["mandoc"] != "0"
    assert examine("pages").findings == []


def test_two_builds_of_pages_are_byte_for_byte_the_same(archives, write_card, tmp_path):
    write_card(*archives)
    first = build("pages", indices=archives[0].parent)
    again = build("pages", tmp_path / "again", archives[0].parent)
    assert again.as_pinned
    for path in first.folder.iterdir():
        assert path.read_bytes() == (again.folder / path.name).read_bytes()


def test_pages_that_are_nearly_the_same_are_on_one_side(write_deb, write_card):
    def write(number, word):
        body = " ".join(f"word{number}-{place}" for place in range(60))
        return page(word, f"page {number}", f"{body} {word}.", "open(2)")

    near = {f"man1/{word}{number}.1": write(number, word) for number in range(20) for word in "az"}
    # A page of the same name in another package is on the same side too, however different.
    named = {f"man1/a{number}.1other": page("a", "another", f"Page {number}.", "open(2)") for number in range(20)}
    archives = write_deb("alpha", ALPHA), write_deb("near", near), write_deb("other", named)
    write_card(*archives)
    build("pages", indices=archives[0].parent)
    dataset = load_dataset("pages")
    training = {*dataset.train.uids}
    sides = [{name in training for name in (f"a{n}.1", f"z{n}.1", f"a{n}.1other")} for n in range(20)]
    assert {True} in sides
    assert {False} in sides
    assert {True, False} not in sides


def test_names_and_links_of_pages(archives):
    pages, links = read_pages(archives)
    assert links == {"dir.1": "list.1", "ls.1": "list.1"}
    assert sorted(pages) == [
        *("File::Sort.3pm", "arrange.1", "close.2", "empty.1", "list.1", "open.2", "open.2beta", "sort.1"),
    ]
    assert {pages[name].package for name in ("list.1", "sort.1", "open.2")} == {"alpha"}


def rendered(*lines):
    """The output of mandoc: a header, lines of which those with a * are headings, and a footer."""
    bold = ("".join(f"{sign}\b{sign}" if sign.strip() else sign for sign in line.replace("*", "")) for line in lines)
    shown = (heading if "*" in line else f"       {line}" for line, heading in zip(lines, bold, strict=True))
    return "\n\n".join(["LIST(1)", "\n".join(shown), "Debian"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (["list - show files"], "show files"),
        (["list, ls \u2013 show\u00a0files"], "show files"),
        (["a-b- show files"], "show files"),
        (["list -show files"], "show files"),
        (["list,", "ls - show files", "with sizes"], "show files"),
        (["list"], ""),
    ],
)
def test_the_description_is_the_rest_of_a_line(name, expected):
    text = parse(rendered("*Name", *name, "*TEXT", "Text.", "_" * 20))
    assert text.synopsis == expected
    assert text.content == ("with sizes " if "with sizes" in name else "") + "TEXT Text."


def test_a_later_name_is_text():
    assert parse(rendered("*NAME", "a - b", "*TEXT", "   *name", "c - d")) == Text("b", "TEXT name c - d", ())


def test_references_are_those_of_see_also():
    lines = ["*TEXT", "no(1)", "*SEE ALSO", "a\u2010b(3), \u201cc\u201d(n), long-", "name(1), List::Util,"]
    lines += ["   *Others", "r.in.x, ls (1), a-b(3); no word", "*NOTES", "no(2)"]
    names = [("a-b", "3"), ("c", "n"), ("long-name", "1"), ("ls", "1"), ("List::Util", ""), ("r.in.x", "")]
    assert parse(rendered(*lines)) == Text("", "TEXT no(1) NOTES no(2)", tuple(names))


def test_a_page_can_include_no_file(write_deb, write_card, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("A secret.\n")
    text = f"Shown.\n.so {tmp_path}/secret\n.so ../secret\n.so secret\nAlso shown."
    archive = write_deb("alpha", {**ALPHA, "man1/spy.1": page("spy", "read files", text, "open(2)")})
    write_card(archive)
    build("pages", indices=archive.parent)
    dataset = load_dataset("pages")
    (found,) = (text for side in (dataset.train, dataset.test) for text in side if text.startswith("spy"))
    assert "Shown." in found
    assert "A secret" not in found


def test_damaged_packages_are_said(archives, write_deb, monkeypatch):
    content = archives[0].read_bytes()
    archives[0].write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"alpha_1_all.deb is damaged"):
        read_pages(archives)
    archives[0].write_bytes(content)
    monkeypatch.setattr(manual_files, "_LONGEST", 1000)
    with pytest.raises(DataError, match=r"gamma_1_all.deb is damaged: a page takes more than the limit"):
        read_pages([write_deb("gamma", {"man1/long.1": "word\n" * 1000})])


def test_packages_without_references_make_no_dataset(write_deb, write_card):
    archive = write_deb("alpha", {"man2/close.2": ALPHA["man2/close.2"]})
    write_card(archive)
    with pytest.raises(DataError, match="no page of the packages refers to another one"):
        build("pages", indices=archive.parent)


def test_a_missing_program_is_asked_for_before_anything_is_fetched(archives, write_card, monkeypatch, tmp_path):
    write_card(*archives)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="Pages is built with mandoc, which this machine does not have") as caught:
        build("pages")
    assert caught.value.hint == "apt install mandoc"


APT = """#!/bin/sh
case "$*" in
*indextargets*)
    for kind in Packages Translations; do
        printf "$kind\\tDebian\\tgreek\\tgreek\\tmain\\t{folder}/$kind\\t{folder}/\\n"
    done ;;
*cat-file*) for last; do :; done; cat "$last" ;;
*download-file*)
    while [ "$1" != download-file ]; do shift; done
    echo "$2" >> {folder}/log
    if ! cp "$2" "$3" 2> /dev/null; then echo 'E: no network' >&2; exit 100; fi ;;
esac
"""


@pytest.fixture
def mirror(tmp_path, monkeypatch, archives):
    """A stand-in for apt, and the folder that it fetches from."""
    folder = tmp_path / "mirror"
    (folder / "pool").mkdir(parents=True)
    (folder / "Packages").write_text("".join(f"Package: x\nFilename: pool/{path.name}\n\n" for path in archives))
    (folder / "Translations").write_text("")
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(APT.format(folder=folder))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(apt, "_HELPER", program)
    return folder


def test_a_build_goes_on_with_the_packages_that_are_missing(archives, write_card, mirror):
    path = write_card(*archives)
    shutil.copy(archives[0], mirror / "pool")
    with pytest.raises(DataError, match=r"cannot fetch .*beta_1_all.deb: E: no network") as caught:
        build("pages")
    assert "run it again to go on" in caught.value.hint
    shutil.copy(archives[1], mirror / "pool")
    lines = []
    build("pages", progress=lines.append)
    asked = [line.rpartition("/")[2] for line in (mirror / "log").read_text().splitlines()]
    assert asked == ["alpha_1_all.deb", "beta_1_all.deb", "beta_1_all.deb"]
    assert lines[0] == "1 of 2 packages fetched; now beta_1_all.deb"
    assert "0 of 8 pages rendered" in lines
    assert [*(cache_root() / "sources").iterdir()] == []
    assert read_card(path).counts["labels"] == 5


def test_a_package_that_the_archive_no_longer_has_is_said(archives, write_card, mirror, tmp_path):
    write_card(*archives)
    (mirror / "Packages").write_text("Package: alpha\nFilename: pool/alpha_2_all.deb\n")
    with pytest.raises(DataError, match="has no alpha_1_all.deb in greek") as caught:
        fetch("pages", tmp_path / "out")
    assert "snapshot.debian.org" in caught.value.hint


def test_the_corpus_is_pinned_and_offers_its_build():
    listing = find("lf-manseealso")
    recipe = listing.card.build
    assert len(recipe.indices) == 168
    assert recipe.tools == {"mandoc": "1.14.6"}
    assert listing.card.counts["train"] + listing.card.counts["test"] >= 12_000


def test_a_run_without_the_data_offers_the_build_in_one_line(inside, tmp_path, monkeypatch):
    folder = tmp_path / "datasets" / "lf-manseealso"
    folder.mkdir(parents=True)
    shutil.copy(find_shipped("datasets") / folder.name / "card.toml", folder)
    monkeypatch.setattr("xmcbench.data.catalog.find_bundled", lambda: [folder.parent])
    ended = inside("run", "--dataset", "lf-manseealso", "--setting", "ez", "--methods", "tfidf")
    said = "LF-ManSeeAlso is not on this machine (build it: xmcbench data build lf-manseealso)"
    assert (ended.stdout, ended.stderr) == ("", f"xmcbench: error: {said}\n")
