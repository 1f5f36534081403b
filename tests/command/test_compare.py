"""`xmcbench compare` as a user meets it: what differs, how surely, and what it refuses."""

import json
import shutil

import numpy as np
import pytest

from xmcbench import TopK
from xmcbench.records.record import sealed
from xmcbench.storage.atomic import write_json
from xmcbench.storage.canonical import sha256_file


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the one run of this module is kept."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def runs(xmcbench, kept, tmp_path):
    """A runs folder on LF-Debian-2K: TF-IDF in two presets and BM25 at zero shot, BM25 with all pairs too."""
    if not kept.joinpath("runs").exists():
        for words in (
            ("ez", "--methods", "tfidf:sklearn,tfidf:pecos,bm25", "--seed", "0,1"),
            ("full", "--methods", "bm25"),
        ):
            ended = xmcbench("run", "--dataset", "lf-debian-2k", "--setting", *words)
            assert ended.returncode == 0, ended.stderr
        shutil.copytree(tmp_path / "runs", kept / "runs")
        return tmp_path / "runs"
    return shutil.copytree(kept / "runs", tmp_path / "runs")


def keys(runs, pattern):
    return [json.loads(path.read_text())["key"] for path in sorted((runs / "records").rglob(pattern))]


def result(ended):
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def shuffled(runs, other, share):
    """A copy of a runs folder in which a share of the rows of every TF-IDF prediction is shuffled."""
    shutil.copytree(runs, other)
    for path in (other / "records").rglob("tfidf*.json"):
        record = json.loads(path.read_text())
        file = other / record["predictions"]["file"]
        found = TopK.load(file)
        indices, scores = found.indices.copy(), found.scores.copy()
        rows = np.random.RandomState(0).permutation(len(indices))[: int(share * len(indices))]
        indices[rows], scores[rows] = indices[np.roll(rows, 1)], scores[np.roll(rows, 1)]
        TopK(indices, scores).save(file)
        record["predictions"]["sha256"] = sha256_file(file)
        write_json(path, sealed(record))
    return other


def test_two_identical_runs_do_not_differ(xmcbench, runs):
    one, other = keys(runs, "tfidf-s*.json")[0], keys(runs, "bm25-s1*.json")[0]
    document = result(xmcbench("compare", one, one, "--json"))
    assert {(each["delta"], each["low"], each["high"], each["p"]) for each in document["metrics"].values()} == {
        (0.0, 0.0, 0.0, 1.0)
    }
    assert document["apart"] == {}
    text = xmcbench("compare", "bm25", other, "--setting", "ez").stdout
    assert "No metric differs at the 5% level" in text
    assert "paired over 1,121 test instances" in text


def test_one_row_in_a_hundred_shuffled_is_found(xmcbench, runs, tmp_path):
    other = shuffled(runs, tmp_path / "other", 0.01)
    (file,) = [each for each in (other / "records").rglob("tfidf-s0*.json") if '"variant": "pecos"' in each.read_text()]
    mine = runs / file.relative_to(other)
    document = result(xmcbench("compare", mine, file, "--json"))
    assert document["metrics"]["R@100"]["p"] < 0.05
    assert document["metrics"]["R@100"]["high"] < 0
    assert list(document["apart"]) == []


def test_what_differs_is_named(xmcbench, runs):
    text = xmcbench("compare", "tfidf:sklearn", "tfidf:pecos").stdout
    assert "A: TF-IDF (sklearn), LF-Debian-2K, zero-shot (no pair), seed 0, 1" in text
    assert "At the 5% level these differ: P@1" in text
    assert "cell.parameters.vectorizer: sklearn | pecos" in text
    assert "hardware" not in text


def test_two_settings_of_one_method_are_compared_by_their_keys(xmcbench, runs):
    (full,) = keys(runs, "full/bm25*.json")
    ez = keys(runs, "ez/bm25-s0*.json")[0]
    document = result(xmcbench("compare", ez[:10], full[:10], "--json"))
    assert document["apart"]["cell.setting.kind"] == ["ez", "full"]
    assert document["metrics"]["P@1"]["p"] == 1.0


def test_the_words_must_name_one_row_each(xmcbench, runs):
    for words, message in (
        (("tfidf", "bm25"), "tfidf names 2 rows"),
        (("tfdif", "bm25"), "did you mean 'tfidf'"),
        (("tfidf:sklaern", "bm25"), "did you mean 'tfidf:sklearn'"),
        (("bm25:pecos", "tfidf:pecos"), "(did you mean 'bm25:"),
        (("bm25", "bm25"), "results in several places (choose one: LF-Debian-2K ez, LF-Debian-2K full)"),
        (("tfidf:pecos", "bm25", "--setting", "full"), "tfidf:pecos has no result there"),
        (("tfidf:pecos", "bm25", "--seed", "9"), "has no result there"),
        (("bm25", "bm25", "--ratio", "0.1"), "belong to --setting fs"),
        (("bm25", "runs/none.json"), "there is no record runs/none.json"),
        (("bm25", "tfidf", "--runs", "none"), "there is no runs folder none"),
    ):
        ended = xmcbench("compare", *words)
        assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


def test_a_folder_is_the_data_set_that_its_card_names(xmcbench, tiny, tmp_path):
    (tiny / "card.toml").write_text('name = "Small Set"\nslug = "small-set"\n')
    assert xmcbench("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25,tfidf").returncode == 0
    for given in ("tiny", "./tiny", "tiny/../tiny/."):
        ended = xmcbench("compare", "bm25", "tfidf", "--dataset", given)
        assert (ended.returncode, ended.stderr) == (0, "")
    ended = xmcbench("compare", "bm25", "tfidf")
    assert (ended.returncode, "or give the folder that it lies in" in ended.stderr) == (2, True)


def test_predictions_that_are_gone_are_named(xmcbench, runs):
    shutil.rmtree(runs / "predictions")
    ended = xmcbench("compare", "tfidf:sklearn", "tfidf:pecos")
    assert (ended.returncode, "are not there" in ended.stderr) == (1, True)


def test_two_data_sets_and_two_protocols_are_refused_unless_forced(xmcbench, runs, tiny, tmp_path):
    xmcbench("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25", "--runs", "small")
    (file,) = (tmp_path / "small" / "records").rglob("*.json")
    (mine,) = (runs / "records").rglob("ez/bm25-s0*.json")
    ended = xmcbench("compare", mine, file)
    assert (ended.returncode, "differ in their datasets" in ended.stderr) == (2, True)
    forced = xmcbench("compare", mine, file, "--force")
    assert forced.returncode == 0, forced.stderr
    assert "no test: the rows differ in their datasets: LF-Debian-2K and tiny" in forced.stdout
    assert " p" not in forced.stdout.splitlines()[5]
    assert result(xmcbench("compare", mine, file, "--force", "--json"))["metrics"]["P@1"]["p"] is None

    other = tmp_path / "records" / "older.json"
    record = json.loads(mine.read_text())
    record["protocol"]["filter"] = "none"
    write_json(other, sealed(record))
    ended = xmcbench("compare", mine, other)
    assert (ended.returncode, "differ in their protocols" in ended.stderr) == (2, True)
