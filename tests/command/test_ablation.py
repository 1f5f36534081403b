"""`xmcbench ablation` as a user meets it."""

import json

import pytest

from xmcbench.records import Store

SWITCHED = """
    import numpy as np
    from xmcbench import Method, TopK

    class Switched(Method):
        title = "Switched"
        supervision = "unused"
        ablation = {
            "1": {"up": False, "twice": False},
            "2": {"up": True, "twice": False},
            "3": {"up": True, "twice": True},
        }
        up: bool = True
        twice: bool = True
        offset: int = 0

        def fit(self, raw_X, raw_Y, pairs=None):
            if self.offset > 5:
                raise ValueError("too far")
            self.scores = np.arange(len(raw_Y)) * (1 if self.up else -1) * (2 if self.twice else 1) + self.offset

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.scores, (len(raw_X), len(self.scores))), k)
"""

#: What the rows are called, in their order.
NAMES = ["Switched (up=False, twice=False)", "Switched (twice=False)", "Switched"]


@pytest.fixture
def words(tiny, plugin):
    return "ablation", "--dataset", tiny, "--plugin", plugin(SWITCHED, "switched.py"), "--method", "switched"


def test_rows_in_order_with_their_components(inside, altered, words, tmp_path):
    ended = inside(*words, "--seed", "0,1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count(": ok, ") == 6
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("tiny, zero-shot (no pairs), filter none.")
    assert lines[2].split()[:4] == ["Row", "up", "twice", "P@1"]
    assert [line.split()[:3] for line in lines[4:7]] == [["1", "no", "no"], ["2", "yes", "no"], ["3", "yes", "yes"]]
    records = {path: path.read_bytes() for path in (tmp_path / "runs" / "records").rglob("*.json")}
    assert len(records) == 6
    again = inside(*words, "--seed", "0,1")
    assert again.stdout == ended.stdout
    assert {path: path.read_bytes() for path in records} == records

    # A result of other code is marked, and so is a row that has one among others.
    store = Store(tmp_path / "runs")
    first, second, *_ = store.records()
    for record in (first, second):
        store.write(altered(record, (("method", "source_sha256"), "0" * 64)))
    stale = "stale: the method's code has changed since this result was made"
    marked = inside(*words, "--seed", "0,1")
    assert marked.stdout.count(stale) == len({first.cell.parameters["up"], second.cell.parameters["up"]})
    rows = json.loads(inside(*words, "--seed", "0,1", "--json").stdout)["rows"]
    problems = {record["key"]: record["problem"] for row in rows.values() for record in row}
    assert {key for key, problem in problems.items() if problem == stale} == {first.key, second.key}
    assert len(problems) == 6


def test_json(inside, words):
    ended = inside(*words, "--json", "--set", "switched.offset=2")
    rows = json.loads(ended.stdout)["rows"]
    assert list(rows) == ["1", "2", "3"]
    assert rows["2"][0]["cell"]["parameters"] == {"up": True, "twice": False, "offset": 2}


def test_dry_run(inside, words, tmp_path):
    ended = inside(*words, "--dry-run")
    assert [line.partition("  ")[0] for line in ended.stdout.splitlines()[2:5]] == NAMES
    assert ended.stdout.count("  to run") == 3
    cells = json.loads(inside(*words, "--dry-run", "--json").stdout)["cells"]
    assert [(cell["method"], cell["state"]) for cell in cells] == [(name, "to run") for name in NAMES]
    assert not (tmp_path / "runs" / "records").exists()


def test_a_row_that_fails(inside, words):
    ended = inside(*words, "--set", "switched.offset=9")
    assert ended.returncode == 1
    assert ended.stdout.count("ValueError: too far") == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--set", "switched.up=true"), "--set switched.up is what the rows of the ablation change"),
        (("--method", "tfidf"), "tfidf defines no ablation"),
        (("--method", "swiched"), "switched"),
        (("--set", "tfidf.ngrams=1"), "--set tfidf: tfidf is not among the methods"),
    ],
)
def test_a_request_that_is_wrong(inside, words, more, said):
    ended = inside(*words, *more)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_row_that_is_left_out_is_named(inside, words, plugin):
    broken = """
        def uses(self):
            if self.up and not self.twice:
                raise RuntimeError("not this one")
            return ()

        def fit("""
    plugin(SWITCHED.replace("\n        def fit(", broken), "switched.py")
    ended = inside(*words)
    assert ended.returncode == 1
    assert "xmcbench: switched is left out of row '2': " in ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()[4:6]] == ["1", "3"]
    (skipped,) = json.loads(inside(*words, "--json").stdout)["skipped"]
    assert (skipped["method"], skipped["where"]) == ("switched", ["row '2'"])


def test_a_row_that_changes_what_the_method_does_not_have(inside, words, plugin):
    plugin(SWITCHED.replace('"3": {"up"', '"3": {"upp"'), "switched.py")
    ended = inside(*words)
    assert ended.returncode == 1
    assert "row of the ablation '3'" in ended.stderr
