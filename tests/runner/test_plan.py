import re

import pytest

from xmcbench import TopK, UsageError, load_dataset
from xmcbench.errors import PluginError, Unavailable, UnknownName
from xmcbench.plugins import inspection
from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import supervise
from xmcbench.records import Store
from xmcbench.runner import rows
from xmcbench.runner.plan import plan
from xmcbench.runner.rows import Request, resolve, status, variants
from xmcbench.runner.schedule import Estimate
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
    registry = Registry([plugin(PLUGIN)])

    def make(setting=None, **request):
        wanted = Request(str(tiny), setting or Setting.of("ez"), **request)
        return plan([wanted], registry, Store(tmp_path / "runs"))

    return make


def test_all_leaves_out_what_cannot_run_and_says_why(planned):
    made = planned()
    assert {"tfidf", "bm25", "xr-linear", "one"} <= {cell.cell.method for cell in made.cells}
    assert {skipped.method: skipped.hint for skipped in made.skipped if skipped.method in ("two", "three", "four")} == {
        "four": "get-weights four",
        "two": "use --setting fs or full",
        "three": "pip install no-such",
    }


def test_a_broken_plug_in_does_not_stop_the_others(tiny, plugin, tmp_path):
    broken = plugin("raise ValueError('gone')", "broken.py")
    registry, store = Registry([plugin(PLUGIN), broken]), Store(tmp_path / "runs")

    def make_plan(*methods):
        return plan([Request(str(tiny), Setting.of("ez"), methods=list(methods))], registry, store)

    both = make_plan("one", "broken")
    assert [cell.cell.method for cell in both.cells] == ["one"]
    assert [(skipped.method, skipped.named) for skipped in both.skipped] == [("broken", True)]
    with pytest.raises(PluginError, match="gone"):
        make_plan("broken")


def test_methods_that_use_others_come_last_and_find_what_these_have_left(tiny, plugin, tmp_path):
    user = plugin(
        """
        from xmcbench import Method

        class Aaa(Method):
            def fit(self, raw_X, raw_Y, pairs=None): ...
            def predict(self, raw_X, k=100): ...
            def uses(self):
                return ("tfidf",)
        """,
        "user.py",
    )
    made = plan([Request(str(tiny), Setting.of("ez"))], Registry([user]), Store(tmp_path / "runs"))
    methods = [cell.cell.method for cell in made.cells]
    assert {"aaa", "hybrid"} & {*methods[-3:]} == {"aaa", "hybrid"}
    assert methods.index("tfidf") < methods.index("aaa")


@pytest.mark.parametrize(
    ("uses", "said"), [({"Aa": "bb", "Bb": "aa"}, "aa uses itself through bb"), ({"Aa": "aa"}, "aa uses itself$")]
)
def test_a_method_that_uses_itself_is_left_out(tiny, plugin, tmp_path, uses, said):
    body = """
class {name}(Method):
    def fit(self, raw_X, raw_Y, pairs=None): ...
    def predict(self, raw_X, k=100): ...
    def uses(self):
        return ("{used}",)
"""
    code = "".join(body.format(name=name, used=used) for name, used in uses.items())
    registry = Registry([plugin(f"from xmcbench import Method\n{code}")])
    made = plan([Request(str(tiny), Setting.of("ez"))], registry, Store(tmp_path / "runs"))
    assert [skipped.reason for skipped in made.skipped if skipped.method == "aa" and re.search(said, skipped.reason)]
    assert "tfidf" in {cell.cell.method for cell in made.cells}
    named = Request(str(tiny), Setting.of("ez"), methods=["tfidf", "aa"])
    with pytest.raises(UsageError, match=f"{said.removesuffix('$')} [(]name other methods[)]"):
        plan([named], registry, Store(tmp_path / "runs"))


def test_a_method_may_use_itself_with_other_parameters(plugin):
    """Outer uses inner, which uses outer:flat, which uses tfidf."""
    code = """
    from typing import ClassVar
    from xmcbench import Method

    class Outer(Method):
        presets: ClassVar = {"flat": {"parts": "tfidf"}}
        parts: str = "inner"
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
        def uses(self):
            return (self.parts,)

    class Inner(Outer):
        parts: str = "outer:flat"
    """
    resolved = Registry([plugin(code)]).resolve("outer", {"parts": "inner"})
    assert [entry.name for entry in resolved.entries] == ["outer", "inner", "tfidf"]


def test_a_method_of_parts_needs_the_most_of_one(tiny, plugin, installed, tmp_path):
    body = """
    from typing import ClassVar
    from xmcbench import Method

    class {name}(Method):
        needs: ClassVar = {needs}
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
        def uses(self):
            return {uses}
    """
    for name, needs in {"plain": {}, "small": {"gpu": 1}, "large": {"gpu": 1, "cores": 3}}.items():
        installed(f"{name}_package", name, body.format(name="Method_", needs=needs, uses=()))
    whole = plugin(body.format(name="Whole", needs={"gpu": 1}, uses=("plain", "small", "large")))
    wanted = Request(str(tiny), Setting.of("ez"), methods=["whole"])
    (cell,) = plan([wanted], Registry([whole]), Store(tmp_path / "runs")).cells
    assert cell.needs == {"gpu": 1, "cores": 3}


PARTS = """
import numpy as np
from xmcbench import Method, Part, TopK, UsageError

class First(Method):
    best: int = 0

    def require(self):
        if self.best > 9:
            raise UsageError("there are ten labels")

    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)

    def predict(self, raw_X, k=100):
        order = -((np.arange(self.labels) - self.best) % self.labels)
        return TopK.from_scores(np.tile(order.astype(np.float32), (len(raw_X), 1)), k)
"""
OUTER = """

class Second(Method):
    def uses(self):
        return ("first",)

    def require(self):
        Part.of("first", self).require()

    def fit(self, raw_X, raw_Y, pairs=None):
        self.texts = raw_X, raw_Y

    def predict(self, raw_X, k=100):
        return Part.of("first", self).ranking((*self.texts, raw_X), None, k)[0]
"""


@pytest.mark.parametrize("files", [1, 2])
def test_methods_in_files_can_be_parts(tiny, plugin, inside, tmp_path, files):
    """Of built-in methods, of others in the same file, and of those in other files."""
    first = plugin(PARTS + (OUTER if files == 1 else ""), "first.py")
    second = plugin("from xmcbench import Method, Part" + OUTER, "second.py")
    plugins = ["--plugin", first, *(["--plugin", second] if files == 2 else [])]
    run = ["run", "--dataset", tiny, "--setting", "ez", *plugins, "--methods", "first,second,hybrid"]
    run += ["--set", "hybrid.parts=tfidf,first", "--set", "hybrid.weights=1,9"]
    ended = inside(*run)
    assert ended.returncode == 0, ended.stderr
    store = Store(tmp_path / "runs")
    records = {record.cell.method: record for record in store.records()}
    best = {
        name: TopK.load(store.predictions_path(record.cell)).indices[:, 0].tolist() for name, record in records.items()
    }
    assert best == dict.fromkeys(("first", "second", "hybrid"), [0] * 30)
    (made,) = records["second"].artifacts
    assert made in records["hybrid"].artifacts, "it is trained once for all three"

    assert "cached" in inside(*run).stderr
    assert "whether results of first, second are stale is not known" in inside("ls", "results").stderr
    first.write_text(first.read_text().replace("- self.best)", "- self.best - 1)"))
    assert "3 of them stale" in inside(*run).stderr
    first.write_text(first.read_text().replace("best: int = 0", "best: int = 11"))
    alone = ["hybrid" if word == "first,second,hybrid" else word for word in run]
    ended = inside(*alone, "--refresh")
    assert (ended.returncode, "there are ten labels" in ended.stderr) == (2, True), ended.stderr


def test_a_method_asked_for_by_name_must_run(planned):
    with pytest.raises(UsageError, match="two needs pairs"):
        planned(methods=["two"])
    with pytest.raises(Unavailable, match="pip install no-such"):
        planned(methods=["one", "three"])
    with pytest.raises(UnknownName, match="did you mean 'one'"):
        planned(methods=["on"])


def test_what_a_method_says_of_itself(planned):
    with pytest.raises(Unavailable, match=r"four: the weights of four are not here \(get-weights four"):
        planned(methods=["four"])
    (cell,) = planned(methods=["four:paper"], overrides={"four": {"steps": 60}}).cells
    assert cell.name == "One (paper, 120 half steps, steps=60)"


def test_a_method_with_a_result_needs_nothing_any_more(planned, monkeypatch, record, altered):
    (cell,) = planned(methods=["four:paper"]).cells
    record = altered(record("four"), (("method", "source_sha256"), cell.source_sha256))
    monkeypatch.setattr(Store, "find", lambda self, wanted: record if wanted.parameters["steps"] == 5 else None)
    (cached,) = planned(methods=["four"]).cells
    assert cached.state == "cached"
    with pytest.raises(Unavailable, match="get-weights four"):
        planned(methods=["four"], overrides={"four": {"steps": 6}})


def test_presets(planned):
    def steps(**request):
        return [(cell.cell.parameters["steps"], cell.name) for cell in planned(**request).cells]

    assert steps(methods=["one"]) == [(5, "One (quick)")]
    assert steps(methods=["one"], preset="paper") == [(100, "One (paper)")]
    assert steps(methods=["one:paper", "one"]) == [(100, "One (paper)"), (5, "One (quick)")]
    assert steps(methods=["one"], overrides={"one": {"steps": "7"}}) == [(7, "One (quick, steps=7)")]
    with pytest.raises(UnknownName, match="unknown preset 'papr' of one.*did you mean 'paper'"):
        planned(methods=["one:papr"])
    with pytest.raises(UnknownName, match="did you mean 'paper'"):
        planned(methods=["one", "tfidf"], preset="papr")


def test_a_preset_is_taken_by_those_that_have_it(planned):
    made = planned(setting=Setting.of("full"), methods=["one", "two"], preset="paper")
    assert [cell.name for cell in made.cells] == ["One (paper)", "Two"]


def test_an_override_of_a_method_that_does_not_run_is_refused(planned):
    with pytest.raises(UsageError, match="not among the methods"):
        planned(methods=["tfidf"], overrides={"one": {"steps": 7}})
    with pytest.raises(UnknownName, match=r"did you mean 'one\.steps'"):
        planned(methods=["one"], overrides={"one": {"step": 7}})


def test_a_wrong_value_is_wrong_under_all_too(planned):
    with pytest.raises(UsageError, match="one.steps = 'many' is not of type int"):
        planned(overrides={"one": {"steps": "many"}})
    assert "two" in {skipped.method for skipped in planned(overrides={"two": {"steps": 7}}).skipped}


def test_a_method_whose_own_code_fails_is_left_out_of_all(tiny, plugin, tmp_path):
    for broken in ("describe", "require"):
        source = PLUGIN + f"\n    class Odd(One):\n        def {broken}(self):\n            raise RuntimeError('odd')\n"
        registry = Registry([plugin(source, f"{broken}.py")])
        made = plan([Request(str(tiny), Setting.of("ez"))], registry, Store(tmp_path / "runs"))
        (reason,) = [skipped.reason for skipped in made.skipped if skipped.method == "odd"]
        assert "RuntimeError: odd" in reason
        assert "one" in {cell.cell.method for cell in made.cells}


def test_a_method_with_inputs_of_no_parameter_is_left_out(tiny, plugin, tmp_path):
    odd = "\n    class Odd(One):\n        def inputs(self):\n            return {'wrods': 'words.txt'}\n"
    registry = Registry([plugin(PLUGIN + odd)])
    made = plan([Request(str(tiny), Setting.of("ez"), ["one", "odd"])], registry, Store(tmp_path / "runs"))
    assert [cell.cell.method for cell in made.cells] == ["one"]
    assert [skipped.reason for skipped in made.skipped] == ["Odd.inputs() has 'wrods', which is no parameter"]


@pytest.mark.parametrize("answer", ["3, float('nan')", "1, 2, 3", "7", "1, float('inf')", "1 / 0, 0"])
def test_a_method_whose_estimate_is_no_two_numbers_has_none(tiny, plugin, tmp_path, answer):
    odd = f"\n    class Odd(One):\n        def estimate_calls(self, sizes):\n            return {answer}\n"
    good = "\n    class Good(One):\n        def estimate_calls(self, sizes):\n            return 3, 4.5\n"
    registry, store = Registry([plugin(PLUGIN + odd + good)]), Store(tmp_path / "runs")
    made = plan([Request(str(tiny), Setting.of("ez"), ["good", "odd"])], registry, store)
    good, odd = (cell.cell.key for cell in made.cells)
    assert Estimate.of(made, store).calls == {good: (3, 4)}


def test_a_plugin_is_asked_about_all_rows_at_once(tiny, plugin, tmp_path, monkeypatch):
    started = []

    def count(*arguments):
        started.append(arguments)
        return supervise(*arguments)

    monkeypatch.setattr(inspection, "supervise", count)
    registry = Registry(
        [plugin(PLUGIN.replace("def require", "def uses(self):\n            return ()\n        def require"))]
    )
    assert len(started) == 1
    steps = [60, 70, 80, 90]
    wanted = Request(str(tiny), Setting.of("ez"), ["four"], overrides={"four": {"steps": steps}})
    made = plan([wanted], registry, Store(tmp_path / "runs"))
    assert [cell.name for cell in made.cells] == [
        f"One (quick, {2 * number} half steps, steps={number})" for number in steps
    ]
    assert len(started) == 1 + len(["describe", "uses", "require"])


@pytest.mark.parametrize("setting", [Setting.of("fs", 0.5), Setting.of("fs", 0.5, "pair")])
def test_every_seed_has_the_subset_that_it_draws(planned, tiny, setting):
    cells = planned(setting=setting, methods=["one", "two"], seeds=[0, 1, 5]).cells
    assert [cell.cell.seed for cell in cells] == [0, 1, 5] * 2
    pattern = load_dataset(tiny).train_pattern()
    for cell in cells:
        expected = draw(pattern, setting, cell.cell.seed)
        assert cell.cell.subset_sha256 == cell.subset.digest == expected.digest
        assert (cell.subset.pairs != expected.pairs).nnz == 0
    assert len({cell.cell.subset_sha256 for cell in cells}) == 3


def test_keys_depend_on_what_a_cell_is(planned):
    def keys(**request):
        return [cell.cell.key for cell in planned(methods=["one"], **request).cells]

    few = Setting.of("fs", 0.5)
    everything = [
        *keys(seeds=[0, 1]),
        *keys(setting=few),
        *keys(setting=Setting.of("full")),
        *keys(overrides={"one": {"steps": 6}}),
    ]
    assert len(set(everything)) == len(everything)
    assert keys() == keys() == keys(overrides={"one": {"steps": "5"}})


def test_what_is_wrong_is_said_before_any_data_are_loaded(plugin):
    registry = Registry([plugin(PLUGIN)])

    def resolve_rows(**request):
        return resolve([Request("no-such-dataset", Setting.of("ez"), **request)], registry)

    ((rows, skipped),) = resolve_rows(methods=["one", "one:paper"], overrides={"one": {"steps": "7"}})
    assert [(row.preset, row.values["steps"], row.title) for row in rows] == [("quick", 7, "One"), ("paper", 7, "One")]
    assert skipped == []
    ((rows, skipped),) = resolve_rows()
    assert {"one", "tfidf"} <= {row.entry.name for row in rows}
    assert {"two", "three"} <= {left_out.method for left_out in skipped}
    for request, message in (
        ({"methods": ["bm25"], "overrides": {"bm25": {"k1": -1.0}}}, r"bm25\.k1 = -1\.0 is out of range"),
        ({"overrides": {"bm25": {"k1": "-1"}}}, r"bm25\.k1 = -1\.0 is out of range"),
        ({"methods": ["two"]}, "two needs pairs"),
        ({"methods": ["one"], "preset": "papr"}, "unknown preset 'papr'"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve_rows(**request)


def test_requests_share_their_cells(tiny, plugin, tmp_path):
    """A cell is in the plan once, under the request that named it first; names are looked for in all requests."""
    registry, store = Registry([plugin(PLUGIN)]), Store(tmp_path / "runs")
    zero, full = Setting.of("ez"), Setting.of("full")
    requests = [
        Request(str(tiny), zero, ["one"], seeds=(0, 1), preset="paper", overrides={"two": {"steps": 3}}),
        Request(str(tiny), zero, ["one:paper", "tfidf"], overrides={"one": {"steps": 100}}),
        Request(str(tiny), full, ["two"], overrides={"two": {"steps": 3}}),
    ]
    made = plan(requests, registry, store)
    assert [(cell.cell.method, cell.cell.seed, cell.request, cell.state) for cell in made.cells] == [
        ("one", 0, 0, "to run"),
        ("one", 1, 0, "to run"),
        ("tfidf", 0, 1, "to run"),
        ("two", 0, 2, "to run"),
    ]
    assert len({id(cell.dataset) for cell in made.cells}) == 1  # loaded once
    assert {cell.loaded_by for cell in made.cells} == {str(tiny)}
    assert made.requests == tuple(requests)
    assert made.cells[3].subset.digest == made.cells[3].cell.subset_sha256
    assert made.cells[0].subset is None
    assert all(made.staleness.sources[cell.cell.method] == cell.source_sha256 for cell in made.cells)
    with pytest.raises(UsageError, match="tfidf is not among the methods"):
        plan([requests[2], Request(str(tiny), zero, ["one"], overrides={"tfidf": {"ngrams": 1}})], registry, store)


@pytest.mark.parametrize(
    ("source", "status", "states"),
    [
        ("today", "ok", ("cached", "cached", "to run")),
        ("yesterday", "ok", ("stale", "to run", "to run")),
        ("today", "failed", ("to run", "to run", "to run")),
    ],
)
def test_what_runs_again(tiny, plugin, tmp_path, record, altered, monkeypatch, source, status, states):
    registry, store = Registry([plugin(PLUGIN)]), Store(tmp_path / "runs")
    requests = [Request(str(tiny), Setting.of("ez"), ["one"])]
    (cell,) = plan(requests, registry, store).cells
    today = cell.source_sha256 if source == "today" else "0" * 64
    made = altered(record("one", status=status), (("method", "source_sha256"), today))
    monkeypatch.setattr(Store, "find", lambda *_: made)
    found = [plan(requests, registry, store, **how).cells[0] for how in ({}, {"refresh": True}, {"force": True})]
    assert tuple(planned_cell.state for planned_cell in found) == states
    assert [planned_cell.record for planned_cell in found] == [made] * 3


NAMED = """
    from typing import ClassVar
    from xmcbench import Method

    class Named(Method):
        title = "Named"
        presets: ClassVar = {"quick": {"steps": 5}}
        described = ("model", "steps")
        model: str = "large"
        steps: int = 50
        words: str = "corpus"
        fast: bool = False
        def describe(self):
            return f"{self.model.rpartition('/')[2]}, {self.steps} steps"
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "Named (quick, large, 5 steps)"),
        ({"steps": 7, "fast": True}, "Named (quick, large, 7 steps, fast=True)"),
        ({"model": "/data/of/mine/small"}, "Named (quick, small, 5 steps)"),
        ({"words": "/data/of/mine/glove.txt"}, "Named (quick, large, 5 steps, words=glove.txt)"),
        ({"words": "../vectors/"}, "Named (quick, large, 5 steps, words=vectors)"),
        ({"words": "/"}, "Named (quick, large, 5 steps, words=/)"),
    ],
)
def test_a_rows_name_says_nothing_twice_and_holds_no_path(tiny, plugin, tmp_path, values, name):
    requests = [Request(str(tiny), Setting.of("ez"), ["named"], overrides={"named": values})]
    (cell,) = plan(requests, Registry([plugin(NAMED)]), Store(tmp_path / "runs")).cells
    assert cell.name == name


def test_a_row_can_be_called_by_each_preset_it_could_be_of(plugin):
    entry = Registry([plugin(NAMED)])["named"]
    assert variants(entry, {"steps": 5}) == ["large, 5 steps", "quick, large, 5 steps"]
    assert variants(entry, {"fast": True, "steps": 50}) == [
        "large, 50 steps, fast=True",
        "quick, large, 50 steps, fast=True",
    ]
    with pytest.raises(UnknownName):
        variants(entry, {"step": 5})


def test_the_status_of_a_method(plugin):
    source = PLUGIN + "\n    class Odd(One):\n        def require(self):\n            raise RuntimeError('odd')\n"
    registry = Registry([plugin(source), plugin("import nothing_of_that_name", "bad.py")])
    assert status(registry["one"]) == status(registry["tfidf"]) == "ok"
    assert status(registry["four"]) == "missing: the weights of four are not here (get-weights four)"
    assert status(registry["three"]) == "missing: three needs no_such_package (pip install no-such)"
    assert status(registry["odd"]) == "broken: odd cannot be inspected: RuntimeError: odd"
    assert status(registry["bad"]).startswith("broken: cannot be imported: ModuleNotFoundError")


def test_earlier_results_stay_those_of_a_method_that_grew_a_parameter(tiny, plugin, tmp_path):
    before = """
        from xmcbench import Method
        class Grown(Method):
            k1: float = 1.5
            def fit(self, raw_X, raw_Y, pairs=None): ...
            def predict(self, raw_X, k=100): ...
    """
    declared = """
            analyzer: Annotated[str | None, Doc("of texts", added=True)] = None"""
    after = "from typing import Annotated\n        from xmcbench import Doc, Method"
    after = before.replace("from xmcbench import Method", after).replace(
        "k1: float = 1.5", f"k1: float = 1.5{declared}"
    )

    def cell(code, name, **values):
        request = Request(str(tiny), Setting.of("ez"), methods=["grown"], overrides={"grown": values})
        (planned,) = plan([request], Registry([plugin(code, name)]), Store(tmp_path / "runs")).cells
        return planned.cell

    assert cell(before, "before.py").key == cell(after, "after.py").key
    assert cell(after, "after.py", analyzer="icu").parameters == {"k1": 1.5, "analyzer": "icu"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *(("/m/minilm/", "minilm"), ("a/b", "b"), ("plain", "plain"), ("/", "/")),
        *((url, url) for url in ("http://one:8000/v1", "http://two:8000/v1/")),
    ],
)
def test_a_path_is_short_in_the_name_of_a_row(value, shown):
    assert rows._short(value) == shown


@pytest.mark.parametrize("outdated", [True, False])
def test_a_result_whose_ranks_are_damaged_runs_again_where_its_figures_have_to_be_computed(
    run_here, chance, tmp_path, tiny, monkeypatch, outdated
):
    """They cannot be; where they are those of today's metrics, nothing needs the ranks."""
    (record,) = run_here(chance, methods=["chance"])
    store, registry = Store(tmp_path / "runs"), Registry([chance])
    monkeypatch.setattr("xmcbench.runner.plan.is_outdated", lambda *_: outdated)

    def look():
        (cell,) = plan([Request(str(tiny), Setting.of("ez"), ["chance"])], registry, store).cells
        assert cell.record == record
        return cell.state, cell.damage

    assert look() == ("cached", "")
    ranks = store.ranks_path(record.cell)
    ranks.write_bytes(b"x")
    state, damage = look()
    assert (state, str(ranks) in damage) == (("to run", True) if outdated else ("cached", False))
    ranks.unlink()
    assert look()[0] == state


@pytest.mark.parametrize(
    ("method", "setting", "seeds"),
    [
        ("tfidf", Setting.of("ez"), [3]),
        ("tfidf", Setting.of("fs", 0.5), [3]),  # it looks at no pairs
        ("knn", Setting.of("full"), [3]),
        ("knn", Setting.of("fs", 0.5), [3, 1]),  # each seed draws its pairs
        ("one", Setting.of("ez"), [3, 1]),
    ],
)
def test_only_seeds_that_can_change_a_result_are_planned(planned, method, setting, seeds):
    made = planned(setting, methods=(method,), seeds=(3, 1))
    assert [cell.cell.seed for cell in made.cells] == seeds
