"""Datasets that are made up: drawn, and with the counts and the shape of another one."""

import hashlib

import numpy as np
import pytest

from xmcbench.data import imitate, load_dataset, synthesize
from xmcbench.errors import DataError, UnknownName, UsageError


def test_sizes_are_as_asked_and_the_skew_is_zipfs(tmp_path):
    dataset = load_dataset(synthesize(tmp_path / "made", 2000, 300, 1))
    assert {name: dataset.counts()[name] for name in ("train", "test", "labels")} == {
        "train": 2000,
        "test": 500,
        "labels": 300,
    }
    frequency = np.bincount(dataset.train_pairs().indices, minlength=300)
    assert frequency[:3].sum() > 20 * frequency[-3:].sum()
    assert 1.5 < dataset.train_pairs().nnz / 2000 < 2.5


def test_instances_mention_their_labels(tmp_path):
    dataset = load_dataset(synthesize(tmp_path / "made", 300, 500, 2))
    words = [set(label.split()) for label in dataset.labels]
    pairs = dataset.train_pairs().tocoo()
    texts = [set(text.split()) for text in dataset.train]
    shared = [
        len(texts[row] & words[label]) / len(words[label]) for row, label in zip(pairs.row, pairs.col, strict=True)
    ]
    assert 0.4 < np.mean(shared) < 0.8


def test_equal_arguments_give_equal_bytes(tmp_path):
    for name, seed in (("a/made", 0), ("b/made", 0), ("c/made", 1)):
        synthesize(tmp_path / name, 50, 20, seed)
    contents = [(tmp_path / side / "made" / "trn.json.gz").read_bytes() for side in "abc"]
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (5, 5, -1)])
def test_impossible_sizes_are_refused(tmp_path, sizes):
    with pytest.raises(UsageError, match="cannot make"):
        synthesize(tmp_path / "made", *sizes)


@pytest.mark.parametrize("make", [lambda out: synthesize(out, 5, 5), lambda out: imitate(out, "lf-debian-2k", 0.1)])
def test_a_folder_whose_name_is_no_name_of_a_dataset(tmp_path, make):
    """The data could not be used, so that none are made."""
    with pytest.raises(DataError, match="the name of the folder cannot be the name of a dataset.* 120 bytes"):
        make(tmp_path / ("n" * 121))
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="already exists"):
        synthesize(tmp_path, 5, 5)


def sums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_has_the_counts_and_the_shape_of_the_other(tmp_path):
    dataset = load_dataset(imitate(tmp_path / "big", "lf-amazon-131k", scale=0.01, words=30))
    counts = dataset.counts()
    assert {name: counts[name] for name in ("train", "test", "labels")} == {"train": 2948, "test": 1348, "labels": 1311}
    assert dataset.propensity == (0.6, 2.6)
    lengths = np.array([len(text.split()) for text in dataset.train])
    assert 25 < lengths.mean() < 35
    assert lengths.max() >= 10 * lengths.min()
    assert 1.5 < counts["train_pairs"] / counts["train"] < 2.7
    frequency = np.bincount(dataset.train_pairs().indices, minlength=1311)
    assert (frequency == 0).sum() > 100
    assert frequency.max() > 20 * np.median(frequency[frequency > 0])
    # Half of the smaller side are labels too, both filters remove them, and no true pair is among them.
    assert dataset.filters == ("none", "self", "file")
    assert dataset.filter("self").nnz == 655
    assert (dataset.filter("self") != dataset.filter("file")).nnz == 0
    assert dataset.filter("self").multiply(dataset.test_pairs()).nnz == 0
    assert np.diff(dataset.test_pairs().indptr).min() > 0


def test_a_text_says_something_about_its_labels(tmp_path):
    dataset = load_dataset(imitate(tmp_path / "big", "lf-amazon-131k", scale=0.002, words=30))
    words = [{*text.split()} for text in dataset.labels]
    pairs, random = dataset.train_pairs().tocoo(), np.random.RandomState(0)
    texts = [{*text.split()} for text in dataset.train]
    true = np.mean([len(texts[row] & words[label]) for row, label in zip(pairs.row, pairs.col, strict=True)])
    other = np.mean([len(texts[row] & words[random.randint(len(words))]) for row in pairs.row])
    assert true > 2 * other


def test_equal_arguments_imitate_equal_bytes(tmp_path):
    seeds = {"a": 1, "b": 1, "c": 2}
    one, same, other = (
        sums(imitate(tmp_path / name / "x", "lf-debian-2k", scale=0.1, words=9, seed=seed))
        for name, seed in seeds.items()
    )
    assert one == same
    assert one["trn.json"] != other["trn.json"]


def test_what_cannot_be_made_is_said(tmp_path):
    for arguments in ({"scale": 0}, {"words": 0}, {"seed": -1}):
        with pytest.raises(UsageError, match="cannot imitate"):
            imitate(tmp_path / "x", "lf-debian-2k", **arguments)
    with pytest.raises(UnknownName):
        imitate(tmp_path / "x", "lf-debian-3k")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").touch()
    with pytest.raises(UsageError, match="already exists"):
        imitate(tmp_path / "x", "lf-debian-2k")


def test_a_card_without_counts_is_said(tmp_path, monkeypatch):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "card.toml").write_text('name = "Bare"\nslug = "bare"\n')
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path))
    with pytest.raises(DataError, match="does not say how many train there are"):
        imitate(tmp_path / "x", "bare")


def test_another_shape_is_not_mixed_with_an_earlier_one(tmp_path):
    """One is gzipped and has no filter, the other is not and has one: a reader would take files of both."""
    synthesize(tmp_path / "plain", 8, 4)
    with pytest.raises(UsageError, match=r"json\.gz would be taken for a part of the new dataset"):
        imitate(tmp_path / "plain", "lf-amazon-131k", scale=0.0001, words=5, force=True)
    imitate(tmp_path / "like", "lf-amazon-131k", scale=0.0001, words=5)
    with pytest.raises(UsageError, match=r"filter_labels_test\.txt would be taken for a part of the new dataset"):
        synthesize(tmp_path / "like", 8, 4, force=True)
