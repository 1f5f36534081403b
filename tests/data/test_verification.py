import gzip
import resource
import shutil

import pytest

from xmcbench.data import export, load_dataset, verify
from xmcbench.data.verification import examine
from xmcbench.errors import DataError, StorageError


@pytest.fixture
def exported(write_folder, tmp_path):
    """A dataset whose card names every file and count."""
    export(load_dataset(write_folder()), tmp_path / "out", "xc")
    return tmp_path / "out"


def test_a_good_dataset_has_no_findings(exported):
    assert verify(exported) == []


def test_a_folder_without_a_card_is_read_at_least(write_folder):
    assert verify(write_folder("good")) == []
    assert "is not JSON" in verify(write_folder("bad", trn=[b"{"]))[0]


def test_a_full_disk_is_no_finding(exported):
    """Loaded data are written to temporary files."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(StorageError, match="^no space left to write "):
            verify(exported)
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
    assert verify(exported) == [f"{path} does not match the SHA-256 of the card"]


def test_lost_and_damaged_files_are_found_together(exported):
    (exported / "trn_X_Y.txt").unlink()
    path = exported / "lbl.json.gz"
    path.write_bytes(path.read_bytes()[:-9])
    findings = "\n".join(verify(exported))
    for finding in ("trn_X_Y.txt is missing", "lbl.json.gz does not match", "lbl.json.gz is truncated"):
        assert finding in findings


def test_counts_other_than_the_cards_are_found(exported):
    card = exported / "card.toml"
    card.write_text(card.read_text().replace("train_pairs = 3", "train_pairs = 4"))
    assert verify(exported) == ["Tea Things: train_pairs is 3, but the card says 4"]


def test_labels_out_of_range_and_broken_filters_are_found(write_folder):
    rows = [{"uid": "A1", "title": "t", "content": "", "target_ind": [9]}]
    assert "line 1: target_ind 9 is out of range" in verify(write_folder("a", trn=rows))[0]
    assert "document 7 is out of range" in verify(write_folder("b", filter_labels_train__txt="7 0\n"))[0]


def test_a_derived_dataset_is_verified_with_its_source(exported, monkeypatch, tmp_path):
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    shutil.copytree(exported, tmp_path / "sets" / "tea-things")
    (tmp_path / "sets" / "half").mkdir()
    card = 'name = "Half"\nslug = "half"\n[counts]\nlabels = {}\n[derive]\nfrom = "tea-things"\nlabels = 2\nseed = 0\n'
    (tmp_path / "sets" / "half" / "card.toml").write_text(card.format(2))
    assert verify("half") == []
    (tmp_path / "sets" / "half" / "card.toml").write_text(card.format(3))
    assert verify("half") == ["Half: labels is 2, but the card says 3"]
    (tmp_path / "sets" / "tea-things" / "tst_X_Y.txt").write_text("")
    assert "does not match the SHA-256" in verify("half")[0]


def test_what_is_not_here_cannot_be_verified():
    with pytest.raises(DataError, match="not on this machine"):
        verify("lf-wikipedia-500k")
