"""Datasets compared with their cards: those that come with xmcbench, and others."""

import gzip
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from xmcbench.data import export, known_datasets, load_dataset
from xmcbench.data.verification import examine
from xmcbench.data.xc_matrix import read_filter, read_matrix
from xmcbench.errors import DataError, StorageError

COUNTS = {
    "lf-debian-20k": {"train": 11_879, "test": 5_115, "labels": 20_252, "train_pairs": 37_257, "test_pairs": 15_642},
    "lf-debian-20k-dev": {
        "train": 10_379,
        "test": 1_500,
        "labels": 20_252,
        "train_pairs": 32_354,
        "test_pairs": 4_903,
    },
    "lf-debian-2k": {"train": 2_650, "test": 1_121, "labels": 2_000, "train_pairs": 3_647, "test_pairs": 1_535},
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_bundled_dataset_is_what_its_card_says(name):
    assert examine(name).findings == []
    dataset = load_dataset(name)
    assert dataset.counts() == dict(dataset.card.counts) == COUNTS[name]
    assert dataset.longest_filter == 1
    if name.endswith("-dev"):  # the filter file is about the test instances
        assert dataset.filters == ("none", "self")
    else:
        assert dataset.filters == ("none", "self", "file")
        assert (dataset.filter("self") != dataset.filter("file")).nnz == 0
    assert dataset.filter("self").multiply(dataset.test_pairs()).nnz == 0


@pytest.mark.parametrize("name", COUNTS)
def test_bundled_texts_are_one_line_each(name):
    dataset = load_dataset(name)
    for text in (*dataset.train, *dataset.test, *dataset.labels):
        title, _, content = text.partition("\t")
        assert " ".join(title.split()) == title
        assert " ".join(content.split()) == content


def test_every_bundled_card_is_whole():
    for listing in known_datasets():
        card = listing.card
        assert card is not None, listing.problem
        assert card.description
        assert card.source
        assert card.license
        assert card.homepage
        assert {"train", "test", "labels"} <= set(card.counts)


def test_a_card_with_downloads_says_when_they_were_checked():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    cards = [listing.card for listing in known_datasets() if listing.card.downloads]
    assert len(cards) == 4
    for card in cards:
        assert f"| `{card.slug}` | {card.checked[:10]} |" in page


@pytest.mark.data
def test_the_real_matrix_of_lf_amazontitles_131k(real_data):
    folder = real_data("LF-AmazonTitles-131K")
    pairs = read_matrix(folder / "tst_X_Y.txt.gz")
    removed = read_filter(folder / "tst_filter_labels.txt.gz", *pairs.shape)
    assert (pairs.shape, pairs.nnz) == ((134_835, 131_073), 284_746)
    assert np.diff(pairs.indptr).min() == 1
    assert len(np.unique(pairs.indices)) == 131_073
    assert (removed.nnz, np.count_nonzero(np.diff(removed.indptr))) == (79_663, 38_808)
    assert removed.multiply(pairs).nnz == 0


@pytest.mark.data
def test_the_real_texts_of_lf_yso_25k(real_data):
    dataset = load_dataset(real_data("LF-YSO-25K"))
    assert dataset.counts() == {
        "train": 521_801,
        "test": 130_312,
        "labels": 25_145,
        "train_pairs": 1_279_482,
        "test_pairs": 317_004,
    }
    assert dataset.filters == ("none",)
    assert dataset.labels.uids[0] == "p3"


@pytest.fixture
def exported(write_folder, tmp_path):
    """A dataset whose card names every file and count."""
    export(load_dataset(write_folder()), tmp_path / "out", "xc")
    return tmp_path / "out"


def test_a_good_dataset_has_no_findings(exported):
    assert examine(exported).findings == []


def test_a_folder_without_a_card_is_read_at_least(write_folder):
    assert examine(write_folder("good")).findings == []
    assert "is not JSON" in examine(write_folder("bad", trn=[b"{"])).findings[0]


def test_a_full_disk_is_no_finding(exported):
    """Loaded data are written to temporary files."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(StorageError, match="^no space left to write "):
            examine(exported)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(("missing", "other", "file"), [("test", "training", "tst"), ("training", "test", "trn")])
def test_a_set_that_is_drawn_is_said(exported, missing, other, file):
    (exported / "card.toml").unlink()
    (exported / f"{file}.json.gz").unlink()
    said = f"there is no separate {missing} set; {missing} instances are drawn from the {other} instances"
    assert examine(exported).facts == [said]


def test_a_changed_file_is_found(exported):
    path = exported / "tst.json.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))
    assert examine(exported).findings == [f"{path} does not match the SHA-256 of the card"]


def test_lost_and_damaged_files_are_found_together(exported):
    (exported / "trn_X_Y.txt").unlink()
    path = exported / "lbl.json.gz"
    path.write_bytes(path.read_bytes()[:-9])
    findings = "\n".join(examine(exported).findings)
    for finding in ("trn_X_Y.txt is missing", "lbl.json.gz does not match", "lbl.json.gz is truncated"):
        assert finding in findings


def test_counts_other_than_the_cards_are_found(exported):
    card = exported / "card.toml"
    card.write_text(card.read_text().replace("train_pairs = 3", "train_pairs = 4"))
    assert examine(exported).findings == ["Tea Things: train_pairs is 3, but the card says 4"]


def test_labels_out_of_range_and_broken_filters_are_found(write_folder):
    rows = [{"uid": "A1", "title": "t", "content": "", "target_ind": [9]}]
    assert "line 1: target_ind 9 is out of range" in examine(write_folder("a", trn=rows)).findings[0]
    assert "document 7 is out of range" in examine(write_folder("b", filter_labels_train__txt="7 0\n")).findings[0]


def test_a_derived_dataset_is_verified_with_its_source(exported, monkeypatch, tmp_path):
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    shutil.copytree(exported, tmp_path / "sets" / "tea-things")
    (tmp_path / "sets" / "half").mkdir()
    card = 'name = "Half"\nslug = "half"\n[counts]\nlabels = {}\n[derive]\nfrom = "tea-things"\nlabels = 2\nseed = 0\n'
    (tmp_path / "sets" / "half" / "card.toml").write_text(card.format(2))
    assert examine("half").findings == []
    (tmp_path / "sets" / "half" / "card.toml").write_text(card.format(3))
    assert examine("half").findings == ["Half: labels is 2, but the card says 3"]
    (tmp_path / "sets" / "tea-things" / "tst_X_Y.txt").write_text("")
    assert "does not match the SHA-256" in examine("half").findings[0]


def test_what_is_not_here_cannot_be_verified():
    with pytest.raises(DataError, match="not on this machine"):
        examine("lf-wikipedia-500k")


@pytest.mark.parametrize("option", ["dev=0.5", "limit=1", "documents=lf-debian-20k", "dev=0.5&limit=1"])
def test_all_documents_are_verified_whichever_are_chosen(exported, option):
    card = exported / "card.toml"
    card.write_text(card.read_text().replace("train_pairs = 3", "train_pairs = 4"))
    assert examine(f"{exported}?{option}").findings == ["Tea Things: train_pairs is 3, but the card says 4"]
