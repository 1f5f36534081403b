"""A threshold on scores that is chosen on held-out instances."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score, precision_score, recall_score

from xmcbench import TopK, UsageError
from xmcbench.analysis.threshold import AtThreshold, choose_threshold
from xmcbench.metrics import TruePairs

LABELS = 4
#: Instances: a score for each label, of which few are different, so that many are equal; and the true labels.
SCORES = st.lists(st.sampled_from([0.0, 0.125, 0.5, 0.75, 3.0]), min_size=LABELS, max_size=LABELS)
INSTANCES = st.lists(st.tuples(SCORES, st.sets(st.integers(0, LABELS - 1))), min_size=1, max_size=6)


def arrays(instances):
    scores = np.array([row for row, _ in instances], np.float32)
    true = np.zeros(scores.shape, int)
    for row, (_, labels) in enumerate(instances):
        true[row, list(labels)] = 1
    return scores, true


@given(instances=INSTANCES.filter(lambda rows: any(labels for _, labels in rows)))
def test_the_threshold_has_the_highest_micro_f1(instances):
    scores, true = arrays(instances)
    predictions, pairs = TopK.from_scores(scores, LABELS), TruePairs.of(csr_matrix(true))
    scored = true.any(axis=1)
    found = choose_threshold(predictions, pairs)

    def micro(threshold):
        return f1_score(true[scored], scores[scored] >= threshold, average="micro", zero_division=0)

    values = {threshold: micro(threshold) for threshold in np.unique(scores[scored]).tolist()}
    assert micro(found) == pytest.approx(max(values.values()))
    assert found == max(threshold for threshold, value in values.items() if math.isclose(value, max(values.values())))


@given(
    instances=INSTANCES.filter(lambda rows: any(labels for _, labels in rows)), threshold=st.sampled_from([0.1, 0.5, 9])
)
def test_the_figures_are_those_of_scikit_learn(instances, threshold):
    scores, true = arrays(instances)
    found = AtThreshold.of("set", TopK.from_scores(scores, LABELS), TruePairs.of(csr_matrix(true)), threshold)
    scored, labels = true.any(axis=1), np.flatnonzero(true.any(axis=0))
    kept = (scores >= threshold)[scored]
    for figure, (function, name) in enumerate(((precision_score, "P"), (recall_score, "R"), (f1_score, "F1"))):
        micro = function(true[scored], kept, average="micro", zero_division=0)
        macro = function(true[scored], kept, average="macro", labels=labels, zero_division=0)
        assert found.micro[figure] == pytest.approx(micro), name
        assert found.macro[figure] == pytest.approx(macro), name
    assert (found.instances, found.predictions) == (scored.sum(), kept.sum())


@pytest.mark.parametrize("lowest", [0.123456, 98765.4, -0.0123456])
def test_the_score_of_the_threshold_is_kept_by_the_number_that_is_printed(lowest):
    scores = np.array([[lowest, lowest - abs(lowest)]], np.float32)
    found = choose_threshold(TopK.from_scores(scores, 2), TruePairs.of(csr_matrix([[1, 0]])))
    assert scores[0, 1] < found <= scores[0, 0]
    assert float(f"{found:.4g}") == found


@pytest.mark.parametrize("gap", [8e-5, 1e-6])
def test_a_score_close_below_is_not_kept(gap):
    """Four digits would keep the wrong predictions, too."""
    scores = np.array([[0.90019, 0.90019 - gap]], np.float32)
    found = choose_threshold(TopK.from_scores(scores, 2), TruePairs.of(csr_matrix([[1, 0]])))
    assert scores[0, 1] < found <= scores[0, 0]


@given(score=st.floats(2**-20, 2**20, width=32))
def test_the_next_number_below_is_not_kept(score):
    """Scores are compared as numbers of 32 bits, to which a threshold is rounded."""
    scores = np.array([[score], [np.nextafter(np.float32(score), np.float32(0))]], np.float32)
    predictions, pairs = TopK(np.zeros((2, 1), np.int32), scores), TruePairs.of(csr_matrix([[1, 0], [0, 1]]))
    found = choose_threshold(predictions, pairs)
    assert scores[1, 0] < np.float32(found) <= scores[0, 0]
    assert AtThreshold.of("set", predictions, pairs, found).predictions == 1
    assert float(f"{found:.9g}") == found


def test_a_first_score_may_be_infinite():
    predictions = TopK(np.array([[0, 1]], np.int32), np.array([[np.inf, 1]], np.float32))
    found = choose_threshold(predictions, TruePairs.of(csr_matrix([[1, 0]])))
    assert 1 < np.float32(found) < math.inf, "JSON has no infinity"


def test_without_predictions_there_is_no_threshold():
    nothing = TopK(np.full((1, 2), -1, np.int32), np.full((1, 2), -np.inf, np.float32))
    with pytest.raises(UsageError, match="no prediction"):
        choose_threshold(nothing, TruePairs.of(csr_matrix([[1, 0]])))


def test_from_held_out_instances_to_suggestions(inside, tiny, tmp_path):
    words = ("--dataset", tiny, "--setting", "full")
    explained = ("explain", "knn", *words, "--threshold-from", f"{tiny}?dev=0.4")
    for dev in ((), ("--dev", "0.4")):
        assert inside("run", *words, *dev, "--methods", "knn").returncode == 0
    ended = inside(*explained, code=0)
    assert "Threshold 0." in ended.stdout
    assert [line.split()[0] for line in ended.stdout.splitlines()[-2:]] == ["tiny-dev-0.4", "tiny"]
    found = json.loads(inside(*explained, "--json").stdout)
    suggested = ("suggest", "--method", "knn", *words, "--out", "suggested.tsv", "--overwrite", "--threshold")
    assert inside(*suggested, str(found["threshold"])).returncode == 0
    rows = (tmp_path / "suggested.tsv").read_text().splitlines()[1:]
    assert len(rows) == found["tested_on"]["predictions"] > 0
    assert "without a suggestion" in inside(*suggested, "1e9").stdout
    inside("explain", "knn", *words, "--threshold-from", f"{tiny}?dev=0.3", code=2)
    inside("run", *words, "--dev", "0.3", "--methods", "knn", "--set", "knn.neighbors=7", code=0)
    assert "are two rows" in inside("explain", "knn", *words, "--threshold-from", f"{tiny}?dev=0.3").stderr


def test_a_threshold_of_another_setting_is_refused(inside, tiny):
    inside("run", "--dataset", tiny, "--dev", "0.3", "--setting", "full", "--methods", "knn", code=0)
    inside("run", "--dataset", tiny, "--setting", "fs", "--ratio", "0.3", "--methods", "knn", code=0)
    ended = inside("explain", "knn", "--dataset", tiny, "--threshold-from", f"{tiny}?dev=0.3", code=2)
    assert "kNN, full (all training pairs), and kNN, few-shot, 30% of the labels, are two rows" in ended.stderr


def test_both_filters_are_named_where_they_differ(inside, tiny):
    """Held-out instances are other rows than those of a filter file, so their default is none."""
    (tiny / "filter_labels_test.txt").write_text("0 0\n")
    (tiny / "card.toml").write_text('name = "tiny"\nslug = "tiny"\nfilter = "file"\n')
    for dev in ((), ("--dev", "0.4")):
        inside("run", "--dataset", tiny, *dev, "--setting", "full", "--methods", "knn", code=0)
    words = ("explain", "knn", "--dataset", tiny, "--threshold-from", f"{tiny}?dev=0.4")
    assert "seed 0, filter none and file\n" in inside(*words, code=0).stdout
    assert "seed 0, filter none\n" in inside(*words, "--filter", "none", code=0).stdout


def test_a_threshold_is_chosen_on_a_run_of_the_same_seed(inside, tiny):
    words = ("--dataset", tiny, "--setting", "fs", "--ratio", "0.5")
    explained = ("explain", "knn", *words, "--threshold-from", f"{tiny}?dev=0.4")
    inside("run", *words, "--dev", "0.4", "--methods", "knn", "--seed", "0,2", code=0)
    inside("run", *words, "--methods", "knn", "--seed", "1", code=0)
    assert ", seed 1, threshold of seed 0, filter none" in inside(*explained, code=0).stdout
    found = json.loads(inside(*explained, "--json").stdout)
    assert (found["seed"], found["chosen_seed"]) == (1, 0)
    inside("run", *words, "--methods", "knn", "--seed", "2", code=0)
    assert ", seed 2, filter none" in inside(*explained, code=0).stdout
    found = json.loads(inside(*explained, "--json").stdout)
    assert (found["seed"], found["chosen_seed"]) == (2, 2)
