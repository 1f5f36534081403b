"""A row label by label."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench.analysis.by_label import count_confusions
from xmcbench.metrics import TruePairs

ROWS = st.lists(st.tuples(st.integers(-1, 5), st.sets(st.integers(0, 5), max_size=3)), min_size=1, max_size=8)


@given(rows=ROWS)
def test_wrong_first_predictions_are_counted_for_every_true_label(rows):
    matrix = np.zeros((len(rows), 6), np.float32)
    for row, (_, true) in enumerate(rows):
        matrix[row, list(true)] = 1
    found = count_confusions(TruePairs.of(csr_matrix(matrix)), np.array([first for first, _ in rows], np.int32))
    expected = {}
    for first, true in rows:
        for label in true if first >= 0 and first not in true else ():
            expected[label, first] = expected.get((label, first), 0) + 1
    assert [*found.items()] == sorted(expected.items(), key=lambda item: (-item[1], item[0]))


@pytest.fixture
def made(inside, tmp_path):
    """A run of TF-IDF on four labels. The first predictions: tea, tea (wrong, cup is true), jug, none."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "labels.csv").write_text("uid,title\nt,tea\nc,=cup\nj,jug\nx,unseen\n")
    (tmp_path / "set" / "train.csv").write_text("text,labels\ntea,t\ncup,c\njug,j\n")
    (tmp_path / "set" / "test.csv").write_text("text,labels\nred tea,t\ntea time,c\njug,j\nnothing,c\n")
    inside("run", "--dataset", "set", "--setting", "ez", "--methods", "tfidf", code=0)
    return inside


def test_figures_by_label(made, tmp_path):
    ended = made("explain", "tfidf", "--by", "label", "-k", "1", "--csv", "labels.csv", "--dataset", "set", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    figures = {label["text"]: label for label in found["labels"]}
    assert {text: (label["support"], label["predicted"], label["found"]) for text, label in figures.items()} == {
        "tea": (1, 2, 1),
        "=cup": (2, 0, 0),
        "jug": (1, 1, 1),
    }
    assert figures["tea"]["precision"] == 0.5
    assert figures["tea"]["f1"] == pytest.approx(2 / 3)
    assert (figures["=cup"]["confused_with"], figures["=cup"]["confused"]) == ("tea", 1)
    assert found["confusions"] == [{"true": "=cup", "predicted": "tea", "instances": 1}]
    assert found["macro"] == {
        "P": pytest.approx((0.5 + 0 + 1) / 3),
        "R": pytest.approx((1 + 0 + 1) / 3),
        "F1": pytest.approx((2 / 3 + 0 + 1) / 3),
    }
    with (tmp_path / "labels.csv").open() as stream:
        lines = {line["uid"]: line for line in csv.DictReader(stream)}
    assert {uid: line["support"] for uid, line in lines.items()} == {"t": "1", "c": "2", "j": "1"}
    assert not lines["c"]["text"].startswith("=")  # no formula
    again = made("explain", "no-row", "--csv", "labels.csv", "--dataset", "set", code=2)
    assert "labels.csv already exists" in again.stderr


def test_without_predictions_there_is_recall(made, tmp_path):
    for path in (tmp_path / "runs" / "predictions").rglob("*.npz"):
        path.unlink()
    ended = made("explain", "tfidf", "--by", "label", "--dataset", "set", code=0)
    assert "Macro R 66.67 (percent)" in ended.stdout
    assert "Without precision and confusions" in ended.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tfidf", "--html", "x.html"), "--html is for two rows"),
        (("tfidf", "tfidf", "--csv", "x.csv"), "--csv is for one row"),
        (("tfidf", "-k", "0"), "k 0 must be in 1..100"),
        (("tfidf", "--by", "pair"), "can only be used with the setting fs"),
    ],
)
def test_what_does_not_fit_is_refused(made, words, said):
    ended = made("explain", *words, "--dataset", "set", code=2)
    assert said in ended.stderr


def test_a_listing_of_results_and_a_score_show_other_metrics(made, tmp_path):
    listed = made("ls", "results", "--metrics", "hit@1,macro-R@1,PSR@1", "--json", code=0)
    (entry,) = json.loads(listed.stdout)
    assert (entry["hit@1"], entry["macro-R@1"]) == (0.5, pytest.approx(2 / 3))
    assert 0 < entry["PSR@1"] < 1
    assert "P@1" not in entry
    (predictions,) = (tmp_path / "runs" / "predictions").rglob("*.npz")
    chosen = ("--metrics", "hit@1,P@1,PSR@1")
    scored = made("score", "--dataset", "set", "--predictions", str(predictions), *chosen, "--json", code=0)
    values = json.loads(scored.stdout)["values"]
    assert values == {"hit@1": 0.5, "P@1": 0.5, "PSR@1": pytest.approx(entry["PSR@1"])}
    assert made("ls", "results", "--metrics", "F2@1").returncode == 2
    assert made("ls", "methods", "--metrics", "P@1").returncode == 2


def test_ranks_that_are_missing_are_a_reason_in_the_listing(made, tmp_path):
    for path in (tmp_path / "runs" / "ranks").rglob("*.npz"):
        path.unlink()
    listed = made("ls", "results", "--metrics", "hit@1", "--json")
    (entry,) = json.loads(listed.stdout)
    assert entry["hit@1"] is None
    assert "ranks" in entry["reason"]


def test_a_run_of_trec_is_scored_by_other_metrics(made, tmp_path):
    (tmp_path / "run.txt").write_text("0 Q0 t 1 2 x\n1 Q0 t 1 2 x\n2 Q0 j 1 2 x\n")
    (tmp_path / "qrels.txt").write_text("0 0 t 1\n1 0 c 1\n2 0 j 1\n3 0 c 1\n")
    for source in (("--dataset", "set"), ("--qrels", "qrels.txt")):
        words = ("--format", "trec", *source, "--predictions", "run.txt", "--metrics", "hit@1,coverage@1", "--json")
        scored = made("score", *words, code=0)
        assert json.loads(scored.stdout)["values"] == {"hit@1": 0.5, "coverage@1": pytest.approx(2 / 3)}
