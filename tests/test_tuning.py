"""Search of hyperparameters on held-out training instances."""

import sys

import pytest
from msgspec.structs import replace

from xmcbench import Options, UsageError, load_dataset
from xmcbench.data import export
from xmcbench.errors import Unavailable, UnknownName
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.knn import KNN
from xmcbench.methods.tfidf import Tfidf
from xmcbench.parameters import Doc, Limit, Parameter, list_parameters, resolve
from xmcbench.records import Store
from xmcbench.tuning import Space, Trial, Tuned, hold_out, spaces, tune

WEIGHTS = """
    from typing import Annotated
    import numpy as np
    from annotated_types import Interval
    from xmcbench import Method, TopK, UsageError

    class Peak(Method):
        deterministic = True
        supervision = "optional"
        at: Annotated[float, Interval(ge=0, le=1)] = 0.9
        broken: bool = False

        def require(self):
            if self.broken and self.at > 0.5:
                raise UsageError("peak.broken does not fit", "leave it out")

        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = list(raw_Y)

        def predict(self, raw_X, k=100):
            # The nearer to 0.3, the more texts find the first of their labels.
            right = np.array([[f" {label.split()[-1]} " in f" {text} " for label in self.labels] for text in raw_X])
            wrong = np.arange(len(raw_X)) % 20 >= 20 * (1 - abs(self.at - 0.3))
            return TopK.from_scores(np.where(wrong[:, None], -1.0, 1.0) * (right + 1e-3).astype(np.float32), k)
"""


def test_a_second_search_finds_the_trials_finished(inside, tiny, plugin, tmp_path):
    words = ("tune", "peak", "--dataset", tiny, "--dev", "0.4", "--plugin", plugin(WEIGHTS), "--search", "at")
    ended = inside(*words, "--trials", "5", "--figure", "trials.svg", code=0)
    *lines, last, figure = ended.stdout.splitlines()
    assert lines[0].split() == ["trial", "P@1", "at"]
    assert sorted(line.split()[0] for line in lines[2:7]) == ["0", "1", "2", "3", "4"]
    values = [float(line.split()[1]) for line in lines[2:7]]
    assert values == sorted(values, reverse=True)
    assert last.startswith("best P@1 of 5 trials of peak on tiny-dev-0.4, full (all training pairs): ")
    assert "select it with --set peak.at=0." in last
    assert (figure, (tmp_path / "trials.svg").read_text().count("<svg")) == ("trials.svg", 1)
    records = list(Store(tmp_path / "runs").records())
    assert {record.cell.dataset for record in records} == {"tiny-dev-0.4"}
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "records").rglob("*.json")}
    again = inside(*words, "--trials", "5")
    assert again.stdout.splitlines()[:-1] == ended.stdout.splitlines()[:-2]
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert len(list(Store(tmp_path / "runs").records())) == len(records)
    assert inside(*words, "--trials", "6").returncode == 0
    assert len(list(Store(tmp_path / "runs").records())) == len(records) + 1


def test_the_test_set_is_never_read(tiny, tmp_path, plugin):
    folder = tmp_path / "tables"
    export(load_dataset(tiny), folder, "jsonl")
    (folder / "test.jsonl").write_bytes(b"\x00 not a file of instances")
    options = Options(tmp_path / "runs", (plugin(WEIGHTS),))
    given = {"dataset": str(folder), "methods": ["peak"], "setting": "ez", "ratio": None, "by": None, "preset": None}
    found = tune({**given, "set": {}, "seed": [0]}, 2, search=["at"], options=options)
    assert [trial.value is None for trial in found.trials] == [False, False]
    assert found.trials[0].values == {"at": 0.9}
    # Values that do not fit together are a trial without a result; those of the preset are an error.
    failing = {**given, "set": {"peak": {"broken": True}}, "seed": [0]}
    with pytest.raises(UsageError, match="does not fit"):
        tune(failing, 2, search=["at"], options=options)
    found = tune({**given, "set": {}, "seed": [0]}, 4, search=["broken=true,false"], options=options)
    assert [trial.values for trial in found.trials] == [{"broken": False}, {"broken": True}], "each once"
    assert {trial.reason for trial in found.trials if trial.values["broken"]} == {
        "peak.broken does not fit (leave it out)"
    }
    assert found.flags == ""
    assert "no trial is better than the values of the preset" in str(found)


def test_a_dataset_of_held_out_instances_is_taken_as_it_is(tiny):
    for name in ("lf-debian-20k-dev", "lf-yso-abstracts-dev"):
        assert hold_out(name) == name
    assert hold_out(f"{tiny}?dev=0.3") == f"{tiny}?dev=0.3"
    assert load_dataset(hold_out(str(tiny))).name == "tiny-dev-0.1"


def test_what_cannot_be_searched_is_an_error(tiny, monkeypatch, tmp_path):
    given = {"dataset": str(tiny), "methods": ["bm25"], "setting": None, "ratio": None, "by": None, "preset": None}
    with pytest.raises(UnknownName, match="unknown metric"):
        tune({**given, "set": {}, "seed": [0]}, 1, "P@2", options=Options(tmp_path))
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(Unavailable, match=r"needs the package optuna .*xmcbench\[tune\]"):
        tune({**given, "set": {}, "seed": [0]}, 1, options=Options(tmp_path))


def space_of(kind, *search, fixed=(), **changes):
    known = list_parameters(kind)
    return spaces("m", known, {**resolve(known, "m", {}), **changes}, dict.fromkeys(fixed), search)


def test_spaces_are_those_that_parameters_declare():
    assert space_of(BM25) == {
        "variant": Space(("lucene", "robertson", "atire")),
        "k1": Space((), 0.15, 15.0, False, True),
        "b": Space((), 0, 1),
        "stemmer": Space(("english", None)),
        "stopwords": Space(("english", None)),
    }
    found = space_of(KNN, fixed=["text", "vectorizer"])
    assert found["neighbors"] == Space((), 5, 500, True, True)
    assert found["power"] == Space((), 0.1, 10.0, False, True)
    assert found["max_df"] == Space((), 0.01, 1)
    assert not {"text", "vectorizer", "analyzer"} & {*found}, "fixed, or with many choices"
    assert space_of(KNN, neighbors=3)["neighbors"] == Space((), 1, 30, True, True)
    assert len(space_of(Tfidf, "analyzer")["analyzer"].choices) > 20


@pytest.mark.parametrize(
    ("word", "space"),
    [
        ("m.k1=0.5..2", Space((), 0.5, 2.0)),
        ("k1=0.1..10", Space((), 0.1, 10.0, False, True)),
        ("b", Space((), 0, 1)),
        ("analyzer=none,english", Space((None, "english"))),
        ("k1=1,1.5", Space((1.0, 1.5))),
    ],
)
def test_spaces_are_given(word, space):
    assert [*space_of(BM25, word).values()] == [space]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["k2"], "did you mean 'm.k1'"),
        (["k1=2..1"], "is no range"),
        (["k1=-1..2"], "out of range"),
        (["analyzer=a..b"], "unknown value"),
        (["k1", "m.k1"], "is given twice"),
        (["variant"], "is given twice"),
    ],
)
def test_a_wrong_space_is_one_error(words, said):
    with pytest.raises(UsageError, match=said):
        space_of(BM25, *words, fixed=["variant"])


def test_a_parameter_without_a_range_needs_one():
    plain = Parameter("size", "int", 3, doc=Doc("size"))
    with pytest.raises(UsageError, match="declares no range"):
        spaces("m", {"size": plain}, {"size": 3}, {}, ["size"])
    with pytest.raises(UsageError, match="m declares no range to search"):
        spaces("m", {"size": plain}, {"size": 3}, {}, [])
    zero = replace(plain, limits=(Limit(">=", 0),), default=0)
    with pytest.raises(UsageError, match="declares no range"):
        spaces("m", {"size": zero}, {"size": 0}, {}, ["size"])


def test_the_chart_has_the_best_value_until_each_trial():
    trials = [Trial(number, {"b": number}, value) for number, value in enumerate([0.2, None, 0.1, 0.3, 0.25])]
    tuned = Tuned("Tiny-dev", "ez", "bm25:quick", "P@1", tuple(trials))
    best, each = tuned.chart().lines
    assert [(point.x, point.value) for point in best.points] == [(0, 20), (2, 20), (3, 30), (4, 30)]
    assert [point.value for point in each.points] == [20, 10, 30, 25]
    assert tuned.flags == "--set bm25.b=3"
    assert tuned.chart().stem == "tiny-dev-bm25-quick-trials"
    assert "failed" in tuned.table()
