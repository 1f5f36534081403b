import pytest

from xmcbench import UsageError, load_dataset
from xmcbench.errors import Unavailable, UnknownName
from xmcbench.records import Store
from xmcbench.registry import Registry
from xmcbench.runner.plan import Request, plan
from xmcbench.setting import Setting, draw

PLUGIN = """
    from typing import ClassVar
    from xmcbench import Method, Unavailable

    class One(Method):
        title = "One"
        presets: ClassVar = {"quick": {"steps": 5}, "paper": {"steps": 100}}
        steps: int = 50
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...

    class Two(One):
        title = "Two"
        supervision = "required"
        presets: ClassVar = {}

    class Four(One):
        def require(self):
            if self.steps < 50:
                raise Unavailable("the weights of four are not here", "get-weights four")
        def describe(self):
            return f"{2 * self.steps} half steps"

    class Three(One):
        packages: ClassVar = {"no_such_package": "no-such"}
"""


@pytest.fixture
def planned(tiny, plugin, tmp_path):
    dataset, registry = load_dataset(tiny), Registry([plugin(PLUGIN)])

    def make(setting=None, **request):
        return plan(Request(setting or Setting.of("ez"), **request), dataset, registry, Store(tmp_path / "runs"))

    return make


def test_all_leaves_out_what_cannot_run_and_says_why(planned):
    made = planned()
    assert {"tfidf", "bm25", "xr-linear", "one"} <= {each.cell.method for each in made.cells}
    assert {each.method: each.hint for each in made.skipped if each.method in ("two", "three", "four")} == {
        "four": "get-weights four",
        "two": "run it under fs or full",
        "three": "pip install no-such",
    }


def test_a_method_asked_for_by_name_must_run(planned):
    with pytest.raises(UsageError, match="two learns from pairs"):
        planned(methods=["two"])
    with pytest.raises(Unavailable, match="pip install no-such"):
        planned(methods=["one", "three"])
    with pytest.raises(UnknownName, match="did you mean 'one'"):
        planned(methods=["on"])


def test_what_a_method_says_of_itself(planned):
    with pytest.raises(Unavailable, match="get-weights four"):
        planned(methods=["four"])
    (cell,) = planned(methods=["four:paper"], overrides={"four": {"steps": 60}}).cells
    assert cell.name == "One (paper, 120 half steps, steps=60)"


def test_a_method_with_a_result_needs_nothing_any_more(planned, monkeypatch, record, altered):
    (cell,) = planned(methods=["four:paper"]).cells
    record = altered(record(), (("method", "source_sha256"), cell.source))
    monkeypatch.setattr(Store, "find", lambda self, wanted: record if wanted.parameters["steps"] == 5 else None)
    (cached,) = planned(methods=["four"]).cells
    assert cached.state == "cached"
    with pytest.raises(Unavailable, match="get-weights four"):
        planned(methods=["four"], overrides={"four": {"steps": 6}})


def test_presets(planned):
    def steps(**request):
        return [(each.cell.parameters["steps"], each.name) for each in planned(**request).cells]

    assert steps(methods=["one"]) == [(5, "One (quick)")]
    assert steps(methods=["one"], preset="paper") == [(100, "One (paper)")]
    assert steps(methods=["one:paper", "one"]) == [(100, "One (paper)"), (5, "One (quick)")]
    assert steps(methods=["one"], overrides={"one": {"steps": "7"}}) == [(7, "One (quick, steps=7)")]
    with pytest.raises(UnknownName, match="unknown preset of one: 'papr'.*did you mean 'paper'"):
        planned(methods=["one:papr"])
    with pytest.raises(UnknownName, match="did you mean 'paper'"):
        planned(methods=["one", "tfidf"], preset="papr")


def test_a_preset_is_taken_by_those_that_have_it(planned):
    made = planned(setting=Setting.of("full"), methods=["one", "two"], preset="paper")
    assert [each.name for each in made.cells] == ["One (paper)", "Two"]


def test_an_override_of_a_method_that_does_not_run_is_refused(planned):
    with pytest.raises(UsageError, match="not among the methods"):
        planned(methods=["tfidf"], overrides={"one": {"steps": 7}})
    with pytest.raises(UnknownName, match=r"did you mean 'one\.steps'"):
        planned(methods=["one"], overrides={"one": {"step": 7}})


def test_a_wrong_value_is_wrong_under_all_too(planned):
    with pytest.raises(UsageError, match="one.steps = 'many' is not of type int"):
        planned(overrides={"one": {"steps": "many"}})
    assert "two" in {each.method for each in planned(overrides={"two": {"steps": 7}}).skipped}


def test_a_method_whose_own_code_fails_is_left_out_of_all(tiny, plugin, tmp_path):
    for broken in ("describe", "require"):
        source = PLUGIN + f"\n    class Odd(One):\n        def {broken}(self):\n            raise RuntimeError('odd')\n"
        registry = Registry([plugin(source, f"{broken}.py")])
        made = plan(Request(Setting.of("ez")), load_dataset(tiny), registry, Store(tmp_path / "runs"))
        (reason,) = [each.reason for each in made.skipped if each.method == "odd"]
        assert "RuntimeError: odd" in reason
        assert "one" in {each.cell.method for each in made.cells}


@pytest.mark.parametrize("setting", [Setting.of("fs", 0.5), Setting.of("fs", 0.5, "pair")])
def test_every_seed_has_the_subset_that_it_draws(planned, tiny, setting):
    cells = planned(setting=setting, methods=["one", "two"], seeds=[0, 1, 5]).cells
    assert [each.cell.seed for each in cells] == [0, 1, 5] * 2
    pairs = load_dataset(tiny).train_pairs()
    for each in cells:
        expected = draw(pairs, setting, each.cell.seed)
        assert each.cell.subset_sha256 == each.subset.digest == expected.digest
        assert (each.subset.pairs != expected.pairs).nnz == 0
    assert len({each.cell.subset_sha256 for each in cells}) == 3


def test_keys_depend_on_what_a_cell_is(planned):
    def keys(**request):
        return [each.cell.key for each in planned(methods=["one"], **request).cells]

    few = Setting.of("fs", 0.5)
    everything = [
        *keys(seeds=[0, 1]),
        *keys(setting=few),
        *keys(setting=Setting.of("full")),
        *keys(overrides={"one": {"steps": 6}}),
    ]
    assert len(set(everything)) == len(everything)
    assert keys() == keys() == keys(overrides={"one": {"steps": "5"}})
