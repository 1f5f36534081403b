"""Some documents of a dataset, and names and notes of small datasets."""

import json

import numpy as np
import pytest

from xmcbench.data import load_dataset
from xmcbench.errors import DataError, UsageError
from xmcbench.records import Store


def test_a_sample_is_a_part_of_a_larger_one_and_of_the_whole():
    whole = load_dataset("lf-debian-20k")
    small, large = (load_dataset(f"lf-debian-20k?limit={number}") for number in (30, 60))
    assert (small.name, small.slug) == ("LF-Debian-20K+limit30", whole.slug)
    assert (len(small.train), len(small.test), len(small.labels)) == (30, 30, len(whole.labels))
    assert {*small.test.uids} < {*large.test.uids} < {*whole.test.uids}
    assert len({small.digest, large.digest, whole.digest}) == 3
    assert "limited to 30 of " in small.notes[-1]
    rows = np.array([[*whole.test.uids].index(uid) for uid in small.test.uids])
    assert (small.test_pairs() != whole.test_pairs()[rows]).nnz == 0
    for kind in ("self", "file"):
        assert (small.filter(kind) != whole.filter(kind)[rows]).nnz == 0
    with pytest.raises(UsageError, match="limit=0 is not a number of documents"):
        load_dataset("lf-debian-20k?limit=0")
    assert len(load_dataset("lf-debian-20k?limit=1000000").test) == len(whole.test)


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "docs.csv").write_text("text,labels\nred tea,tea\na cup,cup\ngreen tea,tea\n")
    (tmp_path / "docs.jsonl").write_text('{"text": "x y", "labels": ["x"]}\n{"text": "y z", "labels": ["z"]}\n')
    return tmp_path


def test_two_files_do_not_get_one_name(tables):
    (tables / "other.jsonl").write_text((tables / "docs.jsonl").read_text())
    names = {name: load_dataset(tables / name) for name in ("docs.csv", "docs.jsonl", "other.jsonl")}
    assert {name: (dataset.name, dataset.slug) for name, dataset in names.items()} == {
        "docs.csv": ("docs", "docs"),
        "docs.jsonl": ("docs.jsonl", "docs-jsonl"),
        "other.jsonl": ("other", "other"),
    }
    (tables / "docs.csv").unlink()
    assert load_dataset(tables / "docs.jsonl").name == "docs"


def test_results_on_some_documents_are_marked_and_on_no_board(inside, tables):
    for words in (("--limit", "1"), ()):
        ended = inside("run", "--dataset", "docs.csv,docs.jsonl", "--setting", "ez", "--methods", "tfidf", *words)
        assert ended.returncode == 0, ended.stderr
    names = {record.cell.dataset for record in Store(tables / "runs").records()}
    assert names == {"docs", "docs.jsonl", "docs+limit1", "docs.jsonl+limit1"}
    made = inside("leaderboard", "--runs", "runs", "--out", "board", "--format", "json")
    assert made.returncode == 0, made.stderr
    assert "left out: 2 records of --limit" in made.stderr
    assert "+limit" not in "".join(path.read_text() for path in (tables / "board").rglob("*.json"))
    # A board, whose records are packed, takes none.
    (tables / "packed" / "records").mkdir(parents=True)
    (tables / "packed" / "records" / "docs").mkdir()
    (tables / "packed" / "records" / "docs" / "ez.jsonl").touch()
    words = ("--dataset", "docs.csv", "--setting", "ez", "--methods", "tfidf", "--limit", "1", "--runs", "packed")
    refused = inside("run", *words)
    assert refused.returncode == 2
    assert "packed is a board" in refused.stderr


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("vocabulary.tsv",), "it has vocabulary.tsv, but no train.tsv or test.tsv"),
        (("train/a.txt",), r"it has train, but no vocabulary.tsv \(or .csv, .ttl, .rdf, .nt\) as in Annif\)"),
        (("train/a.txt", "yso.ttl"), "as in Annif; call yso.ttl vocabulary.ttl"),
        (("readme.md",), "expected lbl.json.gz"),
    ],
)
def test_a_folder_of_no_layout_says_what_it_lacks_as_a_corpus_of_annif(tmp_path, files, said):
    for name in files:
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    with pytest.raises(DataError, match=f"has no layout that xmcbench knows .*{said}"):
        load_dataset(tmp_path / "set")


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("\u6771\u4eac\u306e\u56f3\u66f8\u9928", True),
        ("\u0e2b\u0e49\u0e2d\u0e07\u0e2a\u0e21\u0e38\u0e14", True),
        ("\ub3c4\uc11c\uad00 \ubaa9\ub85d", False),
        ("a library \u56f3", False),
        ("123", False),
    ],
)
def test_texts_without_spaces_are_noted_with_a_hint(tmp_path, text, noted):
    rows = [json.dumps({"text": f"{text}{row}", "labels": [text]}) for row in range(4)]
    (tmp_path / "docs.jsonl").write_text("\n".join(rows) + "\n")
    notes = load_dataset(tmp_path / "docs.jsonl").notes
    assert any("--set METHOD.analyzer=icu" in note for note in notes) is noted
