"""The layout of the SemEval-2025 task LLMs4Subjects, on a tiny made-up clone of the form of its repository."""

import json

import pytest
from test_layouts import tibkat

from xmcbench.data import load_dataset
from xmcbench.errors import DataError

CORE = [{"Code": "gnd:4056795-3", "Classification Number": "31.3a", "Name": "Sta\u0308dtebau", "Alternate Name": []}]
SUBJECTS = [*CORE, {"Code": "gnd:4053474-1", "Classification Number": "6.4", "Name": "Schule"}]
FILES = {
    "GND/dataset/GND-Subjects-all.json": json.dumps(SUBJECTS, indent=4),
    "GND/dataset/GND-Subjects-tib-core.json": json.dumps(CORE, indent=4),
    "data/train/Book/de/3A010.jsonld": tibkat("Die Stadt", "gnd:4056795-3", "gnd:4053474-1", abstract="Vom Bauen."),
    "data/train/Article/en/3A02X.jsonld": tibkat("Schools", "gnd:4053474-1", "gnd:999", abstract=["One.", "Two."]),
    "data/dev/Book/de/3A03.jsonld": tibkat("Bauen", "gnd:4056795-3"),
    "data/test/Book/de/3A04.jsonld": tibkat("Schule heute"),
    "data/test/gold-standard-testset/Book/de/3A04.jsonld": tibkat("Schule heute", "gnd:4053474-1"),
}


@pytest.fixture
def collection(made):
    """Write a clone; return the folder of one of its collections."""

    def write(name, files=FILES):
        paths = {path: path if path.startswith("GND") else f"TIBKAT/{name}/{path}" for path in files}
        return made({paths[path]: text for path, text in files.items()}, "shared-task-datasets") / "TIBKAT" / name

    return write


def test_records_are_read_in_place_in_a_clone(collection):
    dataset = load_dataset(collection("all-subjects"))
    assert [*dataset.train.uids] == ["Article/en/3A02X", "Book/de/3A010"]
    assert [*dataset.train] == ["Schools\tOne. Two.", "Die Stadt\tVom Bauen."]
    assert [*dataset.labels.uids] == ["gnd:4056795-3", "gnd:4053474-1"]
    # The names of the GND are in decomposed letters, the texts of TIBKAT in composed ones.
    assert [*dataset.labels] == ["St\u00e4dtebau", "Schule"]
    assert dataset.train_pairs().toarray().tolist() == [[0, 1], [1, 1]]
    assert ([*dataset.test.uids], dataset.test_pairs().toarray().tolist()) == (["Book/de/3A04"], [[0, 1]])
    assert dataset.found == ("dev is not used", "1 subject of train left out: not in GND-Subjects-all.json")


def test_the_smaller_collection_has_the_smaller_vocabulary(collection):
    folder = collection("tib-core-subjects")
    dataset = load_dataset(folder)
    assert [*dataset.labels.uids] == ["gnd:4056795-3"]
    assert dataset.train_pairs().toarray().tolist() == [[0], [1]]
    assert "3 subjects of train left out: not in GND-Subjects-tib-core.json" in dataset.found
    named = f"{folder}?vocabulary=../../GND/dataset/GND-Subjects-all.json"
    assert [*load_dataset(named).labels] == ["St\u00e4dtebau", "Schule"]
    with pytest.raises(DataError, match=r"has no none\.json"):
        load_dataset(f"{folder}?vocabulary=none.json")


def test_before_the_test_subjects_were_published_dev_is_the_test_set(collection):
    files = {path: text for path, text in FILES.items() if "gold" not in path}
    dataset = load_dataset(collection("all-subjects", files))
    assert [*dataset.test] == ["Bauen"]
    assert dataset.found[0] == "dev is the test set: there is no test/gold-standard-testset"


def test_a_collection_without_training_records_is_refused(collection):
    files = {path: text for path, text in FILES.items() if "train" not in path}
    with pytest.raises(DataError, match="data has no train"):
        load_dataset(f"{collection('all-subjects', files)}?layout=llms4subjects")


def test_a_folder_with_another_name_gives_other_uids(collection):
    folder = collection("all-subjects")
    (folder / "data/train/Article/en/3A02X.jsonld").rename(folder / "data/train/Article/en/3A00.jsonld")
    assert [*load_dataset(folder).train.uids] == ["Article/en/3A00", "Book/de/3A010"]
    (folder / "data/train/Article/en").rename(folder / "data/train/Article/de")
    assert [*load_dataset(folder).train.uids] == ["Article/de/3A00", "Book/de/3A010"]
