"""Cells of a small real dataset, end to end: what is predicted is pinned, and every figure is computed a second time.

The figures come from the stored predictions by trec_eval (pytrec_eval) and by the plain code below, which reads the
files of the dataset by itself and knows nothing of the harness.
"""

import gzip
import hashlib
import json
import math
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from xmcbench.command.main import main

pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier, to compare with")

FOLDER = Path(__file__).parent / "sample"
SETTINGS = {
    "ez": ("ez",),
    "fs-label-0.3": ("fs", "--by", "label", "--ratio", "0.3"),
    "fs-pair-0.2": ("fs", "--by", "pair", "--ratio", "0.2"),
    "full": ("full",),
}
LEARNS = ("xr-linear",) if find_spec("pecos") else ()
METHODS = ("tfidf", "bm25", *LEARNS, "random")

#: Draws its predictions, and notes what it was handed.
RANDOM = """
import hashlib
import numpy as np
from xmcbench import Method, TopK


class Random(Method):
    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)
        cells = None if pairs is None else sorted(zip(*map(np.ndarray.tolist, pairs.nonzero())))
        self.notes.update(seed=self.seed, pairs=cells and hashlib.sha256(repr(cells).encode()).hexdigest())

    def predict(self, raw_X, k=100):
        self.notes["k"] = k
        return TopK.from_scores(np.random.RandomState(self.seed).rand(len(raw_X), self.labels), k)
"""

#: SHA-256 of the predicted labels, int32 [113, 117], by method and seed: the same in every setting.
PINNED = {
    ("tfidf", 0): "544d1349e3cf0ad9d247dee97fcbaa4abb9f421b93fc19dfa1f29022cef4d7eb",
    ("tfidf", 1): "544d1349e3cf0ad9d247dee97fcbaa4abb9f421b93fc19dfa1f29022cef4d7eb",
    ("bm25", 0): "4b24ac1dccc44a2295bc62d734e1e67fe0055491da1eef4033752bc88db01e6f",
    ("bm25", 1): "4b24ac1dccc44a2295bc62d734e1e67fe0055491da1eef4033752bc88db01e6f",
    ("random", 0): "67f9e12c2ec1107cb8f2938e724fb02f103ed08b49f7107cefd2e4d1c270b88c",
    ("random", 1): "451030f7184da11c1153e0c0f17d25b625c0847acd8b5f4344eeaa379a402c1a",
}

#: P@1 and R@100 of XR-Linear by setting, of seed 0 and of seed 1: another processor may round its training otherwise.
LEARNED = {
    "ez": [(0.182, 0.379), (0.173, 0.403)],
    "fs-label-0.3": [(0.118, 0.175), (0.136, 0.141)],
    "fs-pair-0.2": [(0.209, 0.337), (0.227, 0.355)],
    "full": [(0.273, 0.500), (0.291, 0.463)],
}


def read(name):
    with gzip.open(FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


class Files:
    """The dataset as its files say it."""

    def __init__(self):
        train, test, labels = read("trn"), read("tst"), read("lbl")
        self.rows, self.labels = len(test), len(labels)
        self.training = [(row, label) for row, instance in enumerate(train) for label in sorted(instance["target_ind"])]
        self.true = {row: {*instance["target_ind"]} for row, instance in enumerate(test) if instance["target_ind"]}
        self.frequency = np.bincount([label for _, label in self.training], minlength=self.labels)
        own = [{label for label, other in enumerate(labels) if other["uid"] == instance["uid"]} for instance in test]
        listed = [set() for _ in test]
        for line in (FOLDER / "filter_labels_test.txt").read_text().splitlines():
            row, label = map(int, line.split())
            listed[row].add(label)
        self.removed = {"none": [set() for _ in test], "self": own, "file": listed}
        # The constants of the card, in the formula of Jain et al. (2016).
        a, b = 0.6, 2.6
        c = (math.log(len(train)) - 1) * (b + 1) ** a
        self.weights = [1 + c * math.exp(-a * math.log(count + b)) for count in self.frequency]

    def draw_pairs(self, setting, seed):
        """The pairs that a setting and a seed let a method see; None at zero shot."""
        if setting == "ez":
            return None
        if setting == "full":
            return self.training
        random = np.random.RandomState(seed)
        if setting.startswith("fs-pair"):
            order = random.permutation(len(self.training))
            kept = {*order[: len(self.training) * 2 // 10].tolist()}
            return [pair for place, pair in enumerate(self.training) if place in kept]
        labels = sorted({label for _, label in self.training})
        kept = {labels[place] for place in random.permutation(len(labels))[: len(labels) * 3 // 10]}
        return [pair for pair in self.training if pair[1] in kept]

    def groups(self, handed):
        """Group -> its labels."""
        seen = {label for _, label in handed or ()}
        order = sorted(range(self.labels), key=lambda label: (-self.frequency[label], label))
        found = {"seen": seen, "unseen": {*range(self.labels)} - seen, "head": set(), "middle": set(), "tail": set()}
        before = 0
        for label in order:
            third = 3 * before / len(self.training)
            found["head" if third < 1 else "middle" if third < 2 else "tail"].add(label)
            before += self.frequency[label]
        return found


@pytest.fixture(scope="module")
def files():
    return Files()


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """(method, seed) -> record and predictions of a setting; each setting is run once."""
    folder = tmp_path_factory.mktemp("golden")
    (folder / "random_method.py").write_text(RANDOM)
    done = {}

    def run(setting):
        if setting not in done:
            words = ["run", "--dataset", FOLDER, "--setting", *SETTINGS[setting]]
            words += ["--methods", ",".join(METHODS), "--plugin", "random_method.py"]
            with pytest.MonkeyPatch.context() as patched:
                patched.chdir(folder)
                patched.setattr(signal, "signal", lambda *_: None)
                for seed in "01":  # of several in one run, methods that no seed changes would get the first alone
                    assert main([*map(str, words), "--seed", seed]) == 0
            done[setting] = {}
            for path in (folder / "runs" / "records").rglob(f"{setting}/*.json"):
                record = json.loads(path.read_text())
                with np.load(folder / "runs" / record["predictions"]["file"]) as arrays:
                    predicted = arrays["indices"]
                done[setting][record["cell"]["method"], record["cell"]["seed"]] = record, predicted
        return done[setting]

    return run


@pytest.mark.parametrize("setting", SETTINGS)
def test_predictions_are_pinned(cells, setting):
    found = {
        (method, seed): hashlib.sha256(np.ascontiguousarray(predicted, "<i4").tobytes()).hexdigest()
        for (method, seed), (_, predicted) in cells(setting).items()
        if method != "xr-linear"
    }
    assert found == PINNED
    if not LEARNS:
        pytest.skip("needs libpecos for XR-Linear; the other predictions are as pinned")
    learned = [cells(setting)["xr-linear", seed][0]["metrics"]["file"]["values"] for seed in (0, 1)]
    for said, expected in zip(learned, LEARNED[setting], strict=True):
        assert (said["P@1"], said["R@100"]) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_cell_saw_the_draw_of_its_seed(cells, files, setting):
    made = cells(setting)
    assert {*made} == {(method, seed) for method in METHODS for seed in (0, 1)}
    subsets = []
    for (method, seed), (record, predicted) in made.items():
        drawn = files.draw_pairs(setting, seed)
        assert record["status"] == "ok"
        # 100 are scored after the longest filter has taken its 17.
        assert predicted.shape == (113, 117)
        assert record["predictions"]["depth"] == 117
        assert record["cell"]["seed"] == seed
        if drawn is None:
            assert record["subset"] is None
        else:
            facts = (len(drawn), len({label for _, label in drawn}), len({row for row, _ in drawn}))
            assert tuple(record["subset"][name] for name in ("pairs", "labels", "instances")) == facts
        if method == "random":
            digest = drawn and hashlib.sha256(repr(drawn).encode()).hexdigest()
            assert record["notes"] == {"seed": seed, "pairs": digest, "k": 117}
            subsets.append(digest)
    assert len({*subsets}) == (2 if setting.startswith("fs") else 1)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_figure_is_that_of_trec_eval(cells, files, setting):
    for (_, seed), (record, predicted) in cells(setting).items():
        groups = files.groups(files.draw_pairs(setting, seed))
        assert {*record["metrics"]} == {"none", "self", "file"}
        assert record["protocol"]["filter"] == "file"
        for name, said in record["metrics"].items():
            removed = files.removed[name]
            lists = [
                [label for label in row.tolist() if label >= 0 and label not in removed[place]][:100]
                for place, row in enumerate(predicted)
            ]
            compare(said, files, lists, files.true)
            members = {group: restrict(files.true, labels) for group, labels in groups.items()}
            assert {*said["views"]} == {group for group, true in members.items() if true}
            for group, figures in said["views"].items():
                compare(figures, files, lists, members[group])


def restrict(true, labels):
    return {row: kept for row, labels_of in true.items() if (kept := labels_of & labels)}


def compare(said, files, lists, true):
    """Every figure against trec_eval's, and propensity-scored precision against its formula."""
    assert (said["scored"], said["unlabeled"]) == (len(true), files.rows - len(true))
    relevant = {str(row): {str(label): 1 for label in labels} for row, labels in true.items()}
    ranked = {str(row): {str(label): 1000.0 - rank for rank, label in enumerate(lists[row])} for row in true}
    families = {"P": "P", "recall": "R", "ndcg_cut": "nDCG"}
    measures = {"P.1,3,5", "recall.1,3,5,10,100", "ndcg_cut.1,3,5"}
    scores = pytrec_eval.RelevanceEvaluator(relevant, measures).evaluate(ranked)
    expected = {}
    for measure in next(iter(scores.values())):
        family, _, k = measure.rpartition("_")
        expected[f"{families[family]}@{k}"] = sum(of_query[measure] for of_query in scores.values()) / len(true)
    for k in (1, 3, 5):
        found = [label for row, labels in true.items() for label in lists[row][:k] if label in labels]
        best = [sum(sorted((files.weights[label] for label in labels), reverse=True)[:k]) for labels in true.values()]
        expected[f"PSP@{k}"] = sum(files.weights[label] for label in found) / sum(best)
    assert said["values"] == pytest.approx(expected, abs=1e-9)
    assert {*said["intervals"]} == {*expected}
    for name, (low, high) in said["intervals"].items():
        assert low <= said["values"][name] <= high
