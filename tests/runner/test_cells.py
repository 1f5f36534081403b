"""Cells of a dataset where the filter decides: an instance that is its first label, a true label that stands 101st."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

#: uid and true labels of the test instances. The labels L0, L1, ... are ranked in this order, or the other way round.
TEST = [("L0", [100]), ("L4", [5]), ("other", [0, 99]), ("L7", [7])]
LABELS = 130
#: R@5 and R@100 of the order of the labels, instance by instance.
WITHOUT_FILTER = {"R@5": (0, 0, 0.5, 0), "R@100": (0, 1, 1, 1)}
WITH_FILTER = {"R@5": (0, 1, 0.5, 0), "R@100": (1, 1, 1, 0)}

METHODS = """
import numpy as np
from xmcbench import Method, TopK


class Ascending(Method):
    supervision = "unused"
    deterministic = True
    sign: int = -1

    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)

    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.tile(self.sign * np.arange(self.labels), (len(raw_X), 1)), k)


class Descending(Ascending):
    sign: int = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the dataset, the methods, and the runs of both."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "edge").mkdir()
    files = {
        "trn": [{"uid": f"t{row}", "title": "one", "content": "", "target_ind": [row]} for row in range(120)],
        "tst": [{"uid": uid, "title": "two", "content": "", "target_ind": true} for uid, true in TEST],
        "lbl": [{"uid": f"L{label}", "title": f"label {label}"} for label in range(LABELS)],
    }
    for name, lines in files.items():
        with gzip.open(folder / "edge" / f"{name}.json.gz", "wt") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines)
    (folder / "edge" / "card.toml").write_text('name = "Edge"\nslug = "edge"\nfilter = "self"\n')
    (folder / "methods.py").write_text(METHODS)
    ended = _run(folder, "run", "--dataset", "edge/.", "--setting", "ez", "--methods", "ascending,descending", *PLUGIN)
    assert ended.returncode == 0, ended.stderr
    return folder


PLUGIN = ("--plugin", "methods.py")


def _run(folder, *words):
    command = [sys.executable, "-m", "xmcbench", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def record(folder):
    (path,) = (folder / "runs" / "records").rglob("ascending*.json")
    return json.loads(path.read_text())


def test_a_cell_is_asked_for_what_the_longest_filter_may_remove_too(folder, record):
    assert record["predictions"]["depth"] == 101
    with np.load(folder / "runs" / record["predictions"]["file"]) as arrays:
        assert arrays["indices"].tolist() == [list(range(101))] * 4


def test_the_filter_is_applied_before_the_cut(record):
    """The label 100 is the 101st prediction, and the 100th once the instance itself, which is label 0, is gone."""
    for name, expected in (("none", WITHOUT_FILTER), ("self", WITH_FILTER)):
        for metric, values in expected.items():
            assert record["metrics"][name]["values"][metric] == pytest.approx(np.mean(values)), (name, metric)


def test_the_figures_of_groups_are_filtered_too(record):
    """At zero shot every label is unseen, so that the group has the figures of the whole."""
    for name, expected in (("none", WITHOUT_FILTER), ("self", WITH_FILTER)):
        views = record["metrics"][name]["views"]
        assert set(views) == {"unseen", "head", "tail"}
        for metric, values in expected.items():
            assert views["unseen"]["values"][metric] == pytest.approx(np.mean(values)), (name, metric)
        assert views["unseen"]["values"] == record["metrics"][name]["values"]
    # The labels 0 to 39 are the head, 80 and above the tail: 5 and 7 in the former, 99 and 100 in the latter.
    assert record["metrics"]["self"]["views"]["head"]["values"]["R@5"] == pytest.approx(2 / 3)
    assert record["metrics"]["self"]["views"]["tail"]["values"]["R@100"] == 1
    assert record["metrics"]["none"]["views"]["tail"]["values"]["R@100"] == 0.5


def test_what_is_compared_is_filtered_too(folder):
    for words, expected in (((), WITH_FILTER), (("--filter", "none"), WITHOUT_FILTER)):
        ended = _run(folder, "compare", "ascending", "descending", "--json", *words, *PLUGIN)
        document = json.loads(ended.stdout)
        for metric, values in expected.items():
            assert document["metrics"][metric]["first"] == pytest.approx(np.mean(values)), words
        # The other way round: 29 labels above 100, 124 above 5, 30 above 99, 122 above 7.
        others = (1, 0, 0.5, 0)
        assert document["metrics"]["R@100"]["second"] == pytest.approx(np.mean(others))
        expected_delta = np.mean(expected["R@100"]) - np.mean(others)
        assert document["metrics"]["R@100"]["delta"] == pytest.approx(expected_delta)


def test_the_ranks_are_those_under_the_filter(folder, record):
    with np.load(folder / "runs" / record["ranks"]["file"]) as arrays:
        found = {name: arrays[name].tolist() for name in arrays.files if name != "seen"}
    assert sorted(found.values()) == sorted([[0, 6, 1, 100, 8], [100, 5, 1, 100, 0]])
