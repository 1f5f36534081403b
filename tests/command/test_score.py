import gzip
import json

import numpy as np
import pytest

from xmcbench import TopK


@pytest.fixture
def predictions(tmp_path):
    """Perfect for the tiny dataset: instance r has the labels r and r + 3, modulo 10."""
    rows = np.arange(100, 130)
    indices = np.sort(np.stack([rows % 10, (rows + 3) % 10], axis=1), axis=1).astype(np.int32)
    path = tmp_path / "p.npz"
    TopK(indices, np.ones((30, 2), np.float32)).save(path)
    return path


def test_a_perfect_run_scores_one(inside, tiny, predictions):
    document = json.loads(inside("score", "--dataset", tiny, "--predictions", predictions, "--json").stdout)
    assert document["values"]["P@1"] == document["values"]["R@3"] == document["values"]["nDCG@5"] == 1
    assert document["values"]["P@5"] == pytest.approx(0.4)
    assert (document["scored"], document["unlabeled"], document["filter"]) == (30, 0, "none")
    ended = inside("score", "--dataset", tiny, "--predictions", predictions)
    assert "metric protocol 3" in ended.stdout
    assert "100.00" in ended.stdout
    assert "note: the predictions have 2 ranks; metrics with a larger k use only these" in ended.stderr


def test_a_shallow_run_is_noted(inside, tmp_path):
    words = ("score", "--format", "trec", "--qrels", "qrels.txt", "--predictions", "run.txt")
    (tmp_path / "run.txt").write_text("1 Q0 a 1 0.5 mine\n1 Q0 b 2 0.4 mine\n")
    for labels, is_shallow in (("ab", False), ("abc", True)):
        (tmp_path / "qrels.txt").write_text("".join(f"1 0 {label} 1\n" for label in labels))
        said = "note: the predictions have 2 ranks; metrics with a larger k use only these"
        assert (said in inside(*words, code=0).stderr) == is_shallow


def test_what_is_not_predicted_or_ignored_is_counted(inside, tiny, predictions, tmp_path):
    (tmp_path / "qrels.txt").write_text("".join(f"q{row} 0 a 1\n" for row in range(12)) + "q12 0 a 0\n")
    run = tmp_path / "run.txt"
    words = ("score", "--format", "trec", "--qrels", "qrels.txt", "--predictions", "run.txt")
    run.write_text("".join(f"q{row} Q0 a 1 0.5 mine\nx{row} Q0 a 1 0.5 mine\n" for row in range(3)))
    ended = inside(*words, code=0)
    said = "no prediction for 9 of the 12 instances scored, which count as 0 (trec_eval without -c leaves them out)"
    assert ended.stderr.splitlines() == [
        "xmcbench: note: ignored: predictions for 3 queries that qrels.txt does not have, for example 'x0'",
        f"xmcbench: note: {said}",
    ]
    assert json.loads(inside(*words, "--json", code=0).stdout)["empty"] == 9
    run.write_text("".join(f"q{row} Q0 a 1 0.5 mine\n" for row in range(12)))
    assert inside(*words, code=0).stderr == ""
    made = TopK.load(predictions)
    made.indices[4:7], made.scores[4:7] = -1, -np.inf
    made.save(predictions)
    words = ("score", "--dataset", tiny, "--predictions", predictions)
    ended = inside(*words, code=0)
    assert "note: no prediction for 3 of the 30 instances scored, which count as 0\n" in ended.stderr
    assert json.loads(inside(*words, "--json", code=0).stdout)["empty"] == 3


def test_a_test_set_without_labels_cannot_be_scored(inside, tiny, predictions):
    path = tiny / "tst.json.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    path.write_bytes(gzip.compress("\n".join(json.dumps({**row, "target_ind": []}) for row in rows).encode()))
    ended = inside("score", "--dataset", tiny, "--predictions", predictions)
    assert (ended.returncode, "no test instance has a label" in ended.stderr) == (1, True)
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25")
    assert (ended.returncode, "unscored: no test instance has a label" in ended.stdout) == (0, True)


def test_bad_files_are_one_line(inside, tiny, predictions, tmp_path):
    np.savez(tmp_path / "short.npz", indices=np.zeros((3, 1), np.int32), scores=np.zeros((3, 1), np.float32))
    (tmp_path / "text.npz").write_text("no")
    for name, reason in (
        ("short.npz", "not (30, 1) (one row for every instance, in their order, and k columns; pad with index -1 and"),
        ("text.npz", "not a prediction file"),
        ("none.npz", "no file at none.npz"),
    ):
        ended = inside("score", "--dataset", tiny, "--predictions", name)
        assert ended.returncode == (2 if name == "none.npz" else 1)
        assert reason in ended.stderr
        assert ended.stderr.count("\n") == 1
    ended = inside("score", "--dataset", tiny, "--predictions", predictions, "--filter", "self")
    assert (ended.returncode, "has no filter 'self'" in ended.stderr) == (2, True)
