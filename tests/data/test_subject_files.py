"""The recipe that makes a dataset of titles from a folder with a file of texts for each subject."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from xmcbench.data import build, fetch, load_dataset
from xmcbench.data.card import write_card
from xmcbench.data.catalog import find
from xmcbench.data.recipes import subject_files
from xmcbench.data.sources.xc_raw import read_rows, write_instances
from xmcbench.errors import DataError
from xmcbench.storage.canonical import sha256_file, sha256_folder
from xmcbench.storage.locations import cache_root

ROOT = Path(__file__).parents[2]

#: By the number of the subject: its label, its synonyms, and its texts.
SUBJECTS = {
    "10": (
        "lakes",
        "inland waters",
        ["Lakes of the north ", "LAKES", "Maps", "lakes", "", "Maps", "Ferries", "Ferries"],
    ),
    "9": ("Maps", "", ["Old maps", "Lakes of the north", "maps"]),
    "8": ("Ships", "boats", []),
    "7": ("Ferries", "", ["Ferries", " Ferries"]),
    "100": (
        "harbors",
        "ports",
        ["Lakes of the north", "ships", "Charts", "boats", "É", "Old \u2028maps"],
    ),
}


@pytest.fixture
def clone(tmp_path):
    """The folder of the corpus, as in a clone of its repository."""
    folder = tmp_path / "clone" / "subjects" / "yso-finna-en"
    folder.mkdir(parents=True)
    for number, (label, synonyms, texts) in SUBJECTS.items():
        lines = [f"http://www.yso.fi/onto/yso/p{number} {label}", synonyms, *texts]
        (folder / f"p{number}-en.txt").write_text("".join(f"{line}\n" for line in lines), newline="\n")
    return tmp_path / "clone"


def _build(clone, tmp_path):
    return build("lf-yso-25k", out=tmp_path / "out", indices=clone, allow_other_release=True)


def test_files_become_labels_and_their_texts_instances(clone, tmp_path):
    built = _build(clone, tmp_path)
    assert not built.as_pinned
    dataset = load_dataset(tmp_path / "out")
    # Ships and Ferries have no text, so that "ships" and "Ferries" are texts of other subjects; 9 comes before 10.
    assert ([*dataset.labels.uids], [*dataset.labels.titles]) == (["p9", "p10", "p100"], ["Maps", "lakes", "harbors"])
    found = {}
    for texts, pairs, is_test in (
        (dataset.train, dataset.train_pairs(), False),
        (dataset.test, dataset.test_pairs(), True),
    ):
        assert list(texts.titles) == sorted(texts.titles)
        for uid, title, content, labels in zip(texts.uids, texts.titles, texts.contents, pairs, strict=True):
            digest = hashlib.sha1(title.encode()).hexdigest()
            assert (uid, content) == (digest[:12], "")
            assert (int(digest[:4], 16) % 5 == 0) == is_test
            found[title] = labels.indices.tolist()
    # "LAKES" and "maps" are labels in lower case.
    assert found == {
        "Charts": [2],
        "Ferries": [1],
        "Lakes of the north": [0, 1, 2],
        "Old maps": [0],
        "Old \u2028maps": [2],
        "boats": [2],
        "ships": [2],
        "É": [2],
    }
    assert list(dataset.test.titles) == ["Charts"]
    # A text is an instance once, and it names a subject once.
    rows = {row.title: [*row.labels] for row in read_rows(tmp_path / "out" / "trn.json.gz", "instances")}
    assert rows["Ferries"] == [1]


def test_two_builds_are_byte_for_byte_the_same(clone, tmp_path):
    first = _build(clone, tmp_path).folder
    second = build("lf-yso-25k", out=tmp_path / "again", indices=clone, allow_other_release=True).folder
    for name in ("lbl.json.gz", "trn.json.gz", "tst.json.gz", "card.toml"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_folder_is_pinned_by_the_sums_of_its_files(clone, tmp_path):
    folder = clone / "subjects" / "yso-finna-en"
    command = "LC_ALL=C; export LC_ALL; sha256sum * | sha256sum"
    printed = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert _build(clone, tmp_path).card.build.indices == {"subjects/yso-finna-en": printed.split()[0]}
    with pytest.raises(DataError, match="are not those of NatLibFi/Annif-corpora"):
        build("lf-yso-25k", out=tmp_path / "other", indices=clone)
    before = sha256_folder(folder)
    (folder / "p9-en.txt").rename(folder / "p90-en.txt")
    assert sha256_folder(folder) != before
    (folder / "more").mkdir()
    with pytest.raises(DataError, match=r"cannot read .*yso-finna-en: .*regular file \(a folder of files only\)"):
        build("lf-yso-25k", out=tmp_path / "other", indices=clone, allow_other_release=True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "line 1: is not the URI and the label"),
        (b"http://www.yso.fi/onto/yso/p3\n", "line 1: is not the URI and the label"),
        (b"http://www.yso.fi/onto/yso/p3 a\n\n\xff\n", "line 3: is not UTF-8"),
    ],
)
def test_a_broken_file_is_named(clone, tmp_path, content, reason):
    (clone / "subjects" / "yso-finna-en" / "p9-en.txt").write_bytes(content)
    with pytest.raises(DataError, match=rf"p9-en.txt, {reason}"):
        _build(clone, tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_without_subjects_is_refused(clone, tmp_path):
    with pytest.raises(DataError, match="has no subjects/yso-finna-en"):
        _build(tmp_path, tmp_path)
    folder = clone / "subjects" / "yso-finna-en"
    for path in folder.iterdir():
        path.rename(path.with_suffix(".tsv"))
    with pytest.raises(DataError, match="has no file of a subject"):
        _build(clone, tmp_path)


@pytest.fixture
def repository(clone, tmp_path, monkeypatch):
    """A repository with the folder and another one, and a dataset Subjects that is built from it."""
    if shutil.which("git") is None:
        pytest.skip("no git, which clones the folder")
    (clone / "other").mkdir()
    (clone / "other" / "p1-en.txt").write_text("of another corpus")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (
        ("init", "--quiet"),
        ("config", "uploadpack.allowFilter", "true"),
        ("config", "uploadpack.allowAnySHA1InWant", "true"),
        ("add", "."),
        (*identity, "commit", "--quiet", "--message=corpus"),
    ):
        subprocess.run(["git", *words], cwd=clone, check=True)
    card = find("lf-yso-25k").card
    digest = {"subjects/yso-finna-en": sha256_folder(clone / "subjects" / "yso-finna-en")}
    recipe = replace(card.build, release=clone.as_uri(), indices=digest)
    home = tmp_path / "datasets" / "subjects"
    home.mkdir(parents=True)
    write_card(home / "card.toml", replace(card, name="Subjects", slug="subjects", files={}, build=recipe))
    monkeypatch.setenv("XMCBENCH_DATASETS", str(home.parent))
    return clone


def test_a_build_clones_the_folder_and_goes_on_where_it_was_interrupted(repository, tmp_path, monkeypatch):
    run, commands = subject_files._run, []

    def interrupted(*command, **options):
        commands.append(command)
        if len(commands) == 8:
            raise KeyboardInterrupt
        return run(*command, **options)

    monkeypatch.setattr(subject_files, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build("subjects")
    folder = cache_root() / "sources" / "subjects"
    assert sorted(path.name for path in folder.glob("subjects/*/*")) == ["p10-en.txt", "p100-en.txt"]
    assert not (folder / "other").exists()
    lines = []
    build("subjects", progress=lines.append)
    assert [command for command in commands[8:] if "clone" in command] == []
    assert lines[0] == f"0 of 9 parts of {repository.as_uri()} fetched"
    assert "0 of 5 subjects read" in lines
    assert not folder.exists()
    assert load_dataset("subjects").digest == load_dataset(_build(repository, tmp_path).folder).digest


def test_a_clone_that_fails_is_said(repository, tmp_path, monkeypatch):
    out = tmp_path / "fetched"
    shutil.copytree(repository / ".git", out / ".git")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="fetched is a clone of another repository"):
        fetch("subjects", Path("fetched"))
    assert [path.name for path in fetch("subjects", Path("whole"))] == ["yso-finna-en"]
    assert len([*Path("whole").glob("subjects/*/*")]) == 5
    shutil.rmtree(repository / ".git")
    with pytest.raises(DataError, match="git cannot fetch the source: .*") as caught:
        fetch("subjects", tmp_path / "new")
    assert "--indices CLONE" in caught.value.hint
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="fetched with git, which this machine does not have"):
        fetch("subjects", tmp_path / "new")


@pytest.mark.data
def test_the_pinned_files_are_those_of_the_records(real_data, tmp_path):
    card, folder = find("lf-yso-25k").card, real_data("LF-YSO-25K")
    real = load_dataset(folder)
    assert (dict(card.counts), card.filter) == (real.counts(), real.card.filter)
    for record in (ROOT / "leaderboards" / "records" / "lf-yso-25k" / "ez.jsonl").read_text().splitlines():
        assert json.loads(record)["cell"]["dataset_sha256"] == real.digest
    rows = ((row.uid, row.title, row.content, row.labels) for row in read_rows(folder / "tst.json.gz", "instances"))
    write_instances(tmp_path / "tst.json.gz", rows)
    assert sha256_file(tmp_path / "tst.json.gz") == card.files["tst.json.gz"]
