"""The datasets that come with xmcbench, and real ones where they are on the machine."""

from pathlib import Path

import numpy as np
import pytest

from xmcbench.data import known_datasets, load_dataset, verify
from xmcbench.data.xc_matrix import read_filter, read_matrix

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
    assert verify(name) == []
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
