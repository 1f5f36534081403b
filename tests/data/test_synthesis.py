import numpy as np
import pytest

from xmcbench.data import imitate, load_dataset, synthesize
from xmcbench.errors import DataError, UsageError


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
