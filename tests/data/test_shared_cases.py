"""Datasets that were once misread or refused without a reason, as they were reported: what is right about each."""

import os
import shutil
from pathlib import Path

import pytest

from xmcbench.data import load_dataset
from xmcbench.errors import DataError

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.data

#: What is noted about a table without a test set.
DRAWN = "there is one set of instances"


@pytest.fixture
def case(tmp_path):
    """A copy of a case by name; skips where it is not on the machine."""
    data = Path(os.environ.get("XMCBENCH_TEST_DATA", ROOT.parent / "shared" / "data")).resolve()

    def copy(name):
        folder = data.parent / "cases" / name
        if not folder.is_dir():
            pytest.skip(f"no case {name}: the cases lie beside the folder that XMCBENCH_TEST_DATA names")
        return Path(shutil.copytree(folder, tmp_path / name, copy_function=shutil.copyfile))

    return copy


#: Case -> the notes that are right. All have 40 + 12 instances, 10 labels, and 50 + 18 pairs.
RIGHT = {
    "annif_depr": ["1 subject of vocabulary.tsv left out: deprecated, or without a label"],
    "annif_depr2": ["1 subject of vocabulary.tsv left out: deprecated, or without a label"],
    "annif_full": [],
    "annif_json": [],
    "annif_mixed": [],
    "beir_blankend": [],
    "beir_missingdoc": ["1 judgment of test.tsv left out: not in the corpus"],
    "hfjson": ["columns of train.json and test.json: uid=id, text=text, labels=labels"],
    "skos_depr": ["1 subject of vocabulary.ttl left out: deprecated, or without a label"],
    "skos_scheme": [],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_dataset_is_read_with_all_its_pairs(case, name):
    dataset = load_dataset(case(name) / "data")
    counts = {"train": 40, "test": 12, "labels": 10, "train_pairs": 50, "test_pairs": 18}
    assert {key: dataset.counts()[key] for key in counts} == counts
    assert [*dataset.found] == RIGHT[name]
    # The texts of an instance contain both words of each of its labels.
    for texts, pairs in ((dataset.train, dataset.train_pairs()), (dataset.test, dataset.test_pairs())):
        labels = [{*title.split()} for title in dataset.labels.titles]
        for row, text in enumerate(texts):
            expected = [label for label, words in enumerate(labels) if words <= {*text.split()}]
            assert pairs[row].indices.tolist() == expected


def test_a_table_of_views_is_read(case):
    dataset = load_dataset(case("parquet_view") / "view.parquet")
    assert (len(dataset.labels), dataset.train_pairs().nnz + dataset.test_pairs().nnz) == (10, 40)
    assert [note for note in dataset.found if not note.startswith((DRAWN, "columns of"))] == []


REFUSED = [
    ("multihot", "multihot.csv", r"multihot\.csv, line 2: labels is '\[0, .*, a vector of 10 zeros and ones"),
    ("multihot", "multihot.jsonl", r"multihot\.jsonl, line 1: labels is '\[0, .*, a vector of 10 zeros and ones"),
    ("multihot", "multihot.parquet", r"multihot\.parquet, line 1: labels is '\[0, .*, a vector of 10 zeros and ones"),
    ("multihot", "multihot_bare.csv", r"bare\.csv, line 2: labels is '0000000001', a vector of 10 zeros and ones"),
    ("pyset_pytuple", "pyset.csv", r"pyset\.csv, line 2: labels is .*, which is not a JSON list"),
    ("pyset_pytuple", "pytuple.csv", r"pytuple\.csv, line 2: labels is .*, which is not a JSON list"),
    ("xcl_cancel", "data", r"trn_X_Y\.txt, line 3: has a line end of CR alone"),
]


@pytest.mark.parametrize(("name", "path", "message"), REFUSED)
def test_what_cannot_be_read_with_certainty_is_refused(case, name, path, message):
    with pytest.raises(DataError, match=message):
        load_dataset(case(name) / path)
