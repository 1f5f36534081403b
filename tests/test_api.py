"""The Python API: what `import xmcbench` gives a script or a notebook."""

import gzip
import importlib.util
import inspect
import json
import math
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

import xmcbench
from xmcbench import Compute, Limits, Method, MethodError, Options, TopK, Unavailable, UsageError
from xmcbench.errors import DataError, PluginError, UnknownName
from xmcbench.methods.bm25 import BM25
from xmcbench.metrics import METRICS
from xmcbench.results import Results

LABELS = """
    import numpy as np
    from xmcbench import Method, TopK

    class Popular(Method):
        '''Ranks labels by the pairs that they have, or by their number.'''
        title = "Popular <b>&</b>"
        weight: float = 1.0

        def fit(self, raw_X, raw_Y, pairs=None):
            if self.weight < 0:
                raise ValueError("weight < 0 & no <i>more</i>")
            self.scores = np.arange(len(raw_Y)) / 100.0
            if pairs is not None:
                self.scores = self.scores + self.weight * np.asarray(pairs.sum(axis=0)).ravel()

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.scores, (len(raw_X), len(self.scores))), k)
"""


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch, scored_here):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def popular(plugin):
    return plugin(LABELS, "popular.py")


@pytest.fixture
def options(popular):
    return Options(plugins=(popular,))


@pytest.fixture
def imported(popular, monkeypatch):
    """The module of a plug-in file, imported as a notebook would do it."""
    spec = importlib.util.spec_from_file_location("popular", popular)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "popular", module)
    spec.loader.exec_module(module)
    return module


def stamps(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_every_public_name_is_there():
    assert {*xmcbench.__all__, "arrow", "progress"} <= {*dir(xmcbench)}
    assert xmcbench.progress.__name__ == "xmcbench.progress"
    assert xmcbench.arrow.__name__ == "xmcbench.arrow"
    for name in xmcbench.__all__:
        assert getattr(xmcbench, name).__doc__
    assert set(xmcbench.__all__) == set(xmcbench._PUBLIC)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = xmcbench.nothing


def test_a_run_is_records_and_runs_once(tiny, options, tmp_path):
    seen = []

    def progress(planned, position, record):
        seen.append((planned.name, position, record and record.status))

    watched = Options(plugins=options.plugins, progress=progress)
    words = {"ratio": 0.5, "methods": ["popular", "bm25:lucene"], "set": {"popular": {"weight": 2}}, "seed": [0, 1, 0]}
    results = xmcbench.run(tiny, "fs", **words, options=watched)
    assert isinstance(results, Results)
    assert results.ok
    assert [(record.cell.method, record.cell.seed) for record in results] == [
        *(("popular", 0), ("popular", 1)),
        ("bm25", 0),  # which no seed changes
    ]
    assert len(results) == 3
    assert {record.cell.setting.slug for record in results} == {"fs-label-0.5"}
    assert results.records[0].cell.parameters == {"weight": 2.0}
    assert results.filter == "none"
    assert seen[:2] == [("Popular <b>&</b> (weight=2.0)", 0, None), ("Popular <b>&</b> (weight=2.0)", 0, "ok")]
    assert len(seen) == 6
    assert [row.name for row in results.rows()] == ["BM25 (lucene)", "Popular <b>&</b> (weight=2.0)"]
    assert [row.seeds for row in results.rows()] == [(0,), (0, 1)]
    before = stamps(tmp_path / "runs")
    again = xmcbench.run(str(tiny), "fs", **words, options=watched)
    assert again.records == results.records
    assert (len(seen), stamps(tmp_path / "runs")) == (6, before)
    text = str(results)
    assert text.splitlines()[0].split()[:2] == ["Method", "P@1"]
    assert "BM25 (lucene)" in text
    assert "fit s" in text
    forced = xmcbench.run(tiny, "fs", ratio=0.5, methods="bm25:lucene", options=Options(force=True))
    assert forced.records[0].measured.started >= results.records[2].measured.started
    assert forced.records[0] != results.records[2]


COLUMNS = ["dataset", "setting", "by", "ratio", "method", "name", "seed", "status", "problem", "filter"]
FIGURES = [column for name in METRICS for column in (name, f"{name} low", f"{name} high")]
COSTS = ["load_s", "pretrain_s", "fit_s", "predict_s", "total_s", "reused_s", "peak_memory_bytes", "key"]


def test_a_frame_has_a_row_a_cell_and_fractions(tiny, options):
    results = xmcbench.run(tiny, methods=["popular", "bm25"], options=options)
    failed = xmcbench.run(tiny, methods="popular", set={"popular": {"weight": -1}}, options=options)
    frame = Results((*failed, *results), "none", results.runs).frame()
    assert list(frame.columns) == [*COLUMNS, *FIGURES, *COSTS]
    assert len(frame) == 3
    bad, good, record = frame.iloc[0], frame.iloc[2], results.records[1]
    assert good[COLUMNS].to_dict() == {
        "dataset": "tiny",
        "setting": "ez",
        "by": None,
        "ratio": good["ratio"],
        "method": "bm25",
        "name": "BM25",
        "seed": 0,
        "status": "ok",
        "problem": "",
        "filter": "none",
    }
    assert pd.isna(good["ratio"])
    for name in METRICS:
        figures = record.metrics["none"]
        assert good[name] == figures.values[name] <= 1
        assert (good[f"{name} low"], good[f"{name} high"]) == figures.intervals[name]
    assert good["P@1"] > 0.5
    assert (good["fit_s"], good["key"]) == (record.measured.wall_s["fit"], record.key)
    assert pd.isna(good["pretrain_s"])
    assert (bad["status"], bad["problem"]) == ("failed", "ValueError: weight < 0 & no <i>more</i>")
    assert pd.isna(bad["P@1"])
    few = xmcbench.run(tiny, "fs", ratio=0.5, by="pair", methods="popular", options=options).frame().iloc[0]
    assert (few["setting"], few["by"], few["ratio"]) == ("fs", "pair", 0.5)


def test_a_notebook_shows_a_table_and_what_failed_as_text(record):
    """Names and reasons are other people's words: none of them is markup."""
    named, lost = record("named", alpha="<b>bold</b> & co"), record("lost", status="failed", alpha="<script>")
    shown = Results((named, lost), "self", "runs")._repr_html_()
    page = ET.fromstring(f"<body>{shown}</body>")
    assert [cell.text.strip() for cell in page.iter("th")][:2] == ["Method", "P@1"]
    names = [cell.text for cell in page.iter("th") if cell.get("scope") == "row"]
    assert names == ["NAMED (alpha=<b>bold</b> & co)"] * 2  # metrics, costs
    assert "".join(next(page.iter("td")).itertext()) == "50.00 ±3.0"
    assert [element.text for element in page.iter("p")] == ["LOST (alpha=<script>), seed 0: failed: ValueError: no"]
    table = {"table", "caption", "span", "thead", "tbody", "tr", "th", "td", "small"}
    assert {element.tag for element in page.iter()} == {"body", "div", "p"} | table


def test_an_instance_of_a_method_from_a_file(tiny, imported, popular):
    results = xmcbench.run(tiny, "full", methods=[imported.Popular(weight=3), BM25(k1=2), "tfidf"])
    assert results.ok
    found = {record.cell.method: record.cell.parameters for record in results}
    assert list(found) == ["popular", "bm25", "tfidf"]
    assert found["popular"] == {"weight": 3.0}
    assert found["bm25"]["k1"] == 2.0
    # The same cell by its name, its file and its parameter.
    again = xmcbench.run(
        tiny, "full", methods=["popular"], set={"popular": {"weight": 3}}, options=Options(plugins=(popular,))
    )
    assert again.records == results.records[:1]
    # What is set goes before the instance; its file may be named as well.
    other = xmcbench.run(
        tiny,
        "full",
        methods=[imported.Popular(weight=3)],
        set={"popular": {"weight": -1}},
        options=Options(plugins=(popular,)),
    )
    assert [(record.status, record.cell.parameters) for record in other] == [("failed", {"weight": -1.0})]
    assert not other.ok


class InNoFile(Method):
    """Its file is taken away below."""

    def fit(self, raw_X, raw_Y, pairs=None): ...

    def predict(self, raw_X, k=100): ...


def test_a_class_without_a_file_says_where_to_put_it(tiny, monkeypatch):
    typed = type("Typed", (InNoFile,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    with pytest.raises(
        UsageError, match="Typed is not defined in a file, and every cell is a separate process"
    ) as caught:
        xmcbench.run(tiny, methods=[typed()])
    assert "%%writefile my_method.py" in caught.value.hint

    def nowhere(_):
        raise OSError("source code not available")

    monkeypatch.setattr(inspect, "getfile", nowhere)
    with pytest.raises(UsageError, match="InNoFile is not defined in a file"):
        xmcbench.run(tiny, methods=[InNoFile()])


def test_each_instance_is_a_row_beside_those_of_names(tiny, imported, popular):
    """It keeps its own parameters: no preset, no other row of its method changes them."""
    options = Options(plugins=(popular,))
    methods = ["popular", imported.Popular(weight=2), imported.Popular(weight=3), "bm25", imported.Popular(weight=2)]
    results = xmcbench.run(tiny, methods=methods, options=options)
    assert [record.method.variant for record in results] == ["", "weight=2.0", "weight=3.0", ""]
    assert [record.cell.parameters.get("weight") for record in results] == [1.0, 2.0, 3.0, None]
    with_preset = xmcbench.run(tiny, methods=["bm25", BM25(b=0.5)], preset="lucene", options=options)
    assert [record.method.variant for record in with_preset] == ["lucene", "b=0.5"]
    by_set = xmcbench.run(tiny, methods=[imported.Popular()], set={"popular": {"weight": [4, 5]}}, options=options)
    assert [record.cell.parameters for record in by_set] == [{"weight": 4.0}, {"weight": 5.0}]
    drawn = xmcbench.curve(tiny, ["popular", imported.Popular(weight=2)], ratio=[0, 1], options=options)
    assert [line.name for line in drawn.curve("P@1").lines] == [results.records[0].name, results.records[1].name]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tiny: xmcbench.run(tiny, methods=[BM25]), "BM25 is a class"),
        (lambda tiny: xmcbench.run(tiny, methods=None), "None is not a method"),
        (lambda tiny: xmcbench.curve(tiny, ["bm25", 3]), "3 is not a method"),
        (lambda tiny: xmcbench.run(tiny, methods="bm25", set={"bm25.b": 1}), "is not method -> parameter -> value"),
        (lambda tiny: xmcbench.run(tiny, methods="bm25", set=["b"]), "is not method -> parameter -> value"),
        (lambda tiny: xmcbench.run(tiny, methods="bm25", options={"runs": "x"}), "options are of type dict"),
        (lambda tiny: xmcbench.run(tiny, methods="bm25", runs=3), "runs=3 is not a folder"),
        (lambda tiny: xmcbench.ablation(tiny, BM25()), "is not the name of a method"),
        (lambda tiny: xmcbench.run(tiny, methods=BM25(), set={"tfidf": {"ngrams": 1}}), "tfidf"),
        (lambda tiny: xmcbench.curve(tiny, ["bm25"], ratio=[0, 1], by="foo"), "foo"),
        (lambda tiny: xmcbench.curve(tiny, ["bm25"], ratio=[]), "ratio is empty"),
        (lambda _: xmcbench.run([], methods="bm25"), "dataset is empty"),
        (lambda tiny: xmcbench.run(tiny, methods=[]), "methods is empty"),
        (lambda _: xmcbench.run(np.array([]), methods="bm25"), "dataset is empty"),
        (lambda tiny: xmcbench.run(tiny, methods="bm25", preset=3), "preset=3 is not the name of a preset"),
        (lambda tiny: xmcbench.run(tiny, grids={"methods": "bm25"}), "is not a list of arguments"),
        (lambda tiny: xmcbench.run(tiny, grids=[1]), r"grids=\[1\] is not a list of arguments"),
        (lambda tiny: xmcbench.curve(tiny, ()), "methods is empty [(]name one or more"),
        (xmcbench.curve, "methods is empty [(]name one or more"),
        (lambda tiny: xmcbench.run(tiny, methods="bm25", setting=()), "setting is empty"),
        (lambda tiny: xmcbench.curve(tiny, ["bm25"], seed=[]), "seed is empty"),
        (lambda tiny: xmcbench.evaluate([[1, 2]], tiny), "predictions are of type list"),
        (lambda _: xmcbench.compare("bm25", "bm25", seed="a"), "the seed 'a' is not an integer"),
        (lambda _: xmcbench.compare("bm25", "bm25", setting=["fs"]), r"the setting \['fs'\] is not a name"),
        (lambda _: Options(on="x"), "--on 'x' is not local"),
        (lambda _: BM25().predict("one text"), "predict takes several texts"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(tiny, call, message):
    with pytest.raises(UsageError, match=message):
        call(tiny)


def test_names_in_one_text_are_several_methods(tiny):
    """As on the command line and in a settings file."""
    assert {record.cell.method for record in xmcbench.run(tiny, methods="tfidf, bm25")} == {"tfidf", "bm25"}


def test_all_grids_have_what_an_iterator_gives(tiny):
    common = {"dataset": iter([tiny]), "seed": (seed for seed in np.arange(2)), "setting": iter(["ez"])}
    results = xmcbench.run(**common, grids=({"methods": name} for name in (["xr-linear"], "glove")))
    assert [(record.cell.method, record.cell.seed, record.cell.dataset) for record in results] == [
        (method, seed, "tiny") for method in ("xr-linear", "glove") for seed in (0, 1)
    ]
    assert len(xmcbench.run(tiny, methods="xr-linear", seed=np.arange(2))) == 2


def test_none_stands_for_the_default_of_setting_and_seed(tiny):
    (record,) = xmcbench.run(tiny, methods="bm25", setting=None, seed=None).records
    assert (record.cell.setting.slug, record.cell.seed) == ("ez", 0)


def test_instances_that_cannot_run(tiny, plugin, imported):
    with pytest.raises(UsageError, match="out of range"):
        BM25(k1=-1)
    with pytest.raises(UsageError, match="bm25 is not among the methods"):
        xmcbench.run(tiny, methods=["tfidf"], set={"bm25": {"k1": 1}})


def test_a_script_that_is_its_own_plugin_does_not_run_itself(tiny, plugin, monkeypatch):
    """Without the guard of __main__ it would start a run when a cell imports its method."""
    script = plugin("import xmcbench\n" + inspect.cleandoc(LABELS) + "\nxmcbench.run('tiny', methods=[Popular()])\n")
    namespace = {"__name__": "script", "__file__": str(script)}
    module = type(sys)("script")
    module.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "script", module)
    code = compile(script.read_text(), str(script), "exec")
    with pytest.raises(PluginError, match=r'it starts a run on import \(move that below `if __name__ == "__'):
        exec(code, namespace)
    script.write_text(script.read_text().replace("xmcbench.run", "if __name__ == 'script': xmcbench.run"))
    exec(compile(script.read_text(), str(script), "exec"), namespace)


def test_a_method_cannot_start_a_run(tiny, plugin):
    source = LABELS.replace("if self.weight < 0:", "import xmcbench; xmcbench.run('lf-debian-2k')\n            if 0:")
    (record,) = xmcbench.run(tiny, methods="popular", options=Options(plugins=(plugin(source),)))
    assert (record.status, "a run cannot be read while a method runs" in record.reason) == ("failed", True)


def test_all_leaves_out_what_cannot_run(tiny, options, monkeypatch):
    monkeypatch.setattr(BM25, "require", lambda self: (_ for _ in ()).throw(Unavailable("no bm25", "get it")))
    monkeypatch.setattr("xmcbench.display.execute", lambda *_: ())
    results = xmcbench.run(tiny, options=options)
    assert [str(skipped) for skipped in results.skipped if skipped.method == "bm25"] == [
        "bm25 is left out: no bm25 (get it)"
    ]
    with pytest.raises(Unavailable, match="no bm25"):
        xmcbench.run(tiny, methods=["bm25"], options=options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"methods": "tfdif"}, "did you mean 'tfidf'"),
        ({"setting": "zero"}, "unknown setting 'zero'"),
        ({"setting": "fs"}, "needs a ratio"),
        ({"ratio": 0.5}, "ratio and by cannot be used with the setting ez"),
        ({"methods": "bm25", "filter": "file"}, "has no filter 'file'"),
        ({"methods": "bm25", "set": {"bm25": {"b": 2}}}, "out of range"),
        ({"methods": "bm25", "preset": "lucen"}, "did you mean 'lucene'"),
        ({"methods": "bm25", "seed": -1}, "the seed -1 is outside"),
        ({"methods": "bm25", "seed": 0.5}, "the seed 0.5 is not an integer"),
        ({"methods": "bm25", "setting": "fs", "ratio": "0.1"}, "the ratio '0.1' is not a number"),
    ],
)
def test_a_request_that_makes_no_sense(tiny, words, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        xmcbench.run(tiny, **words)
    assert not (tmp_path / "runs").exists()


def test_arguments_may_be_of_numpy_and_paths_may_be_texts(tiny, tmp_path):
    assert Options(plugins="my.py") == Options(plugins=[Path("my.py")]) == Options(plugins=Path("my.py"))
    options = Options(runs=str(tmp_path / "elsewhere"))
    made = xmcbench.run(tiny, methods="bm25", seed=np.arange(1), options=options)
    assert made.ok
    assert [record.cell.seed for record in xmcbench.run(tiny, methods="bm25", seed=np.int64(0), options=options)] == [0]
    compared = xmcbench.compare("bm25", "bm25", seed=0, runs=options.runs)
    assert compared.first.seeds == [0]


def test_the_folder_of_results_has_the_name_of_the_flag(tiny, tmp_path, plugin, monkeypatch):
    """Of every function whose command has --runs; what the options say is the default."""
    monkeypatch.chdir(tmp_path)
    options = Options(runs=tmp_path / "other", plugins=(plugin(SWITCHED, "switched.py"),))
    calls = {
        "run": lambda **given: xmcbench.run(tiny, methods="bm25", **given),
        "curve": lambda **given: xmcbench.curve(tiny, "bm25", ratio=0, **given),
        "ablation": lambda **given: xmcbench.ablation(tiny, "switched", **given),
    }
    for name, call in calls.items():
        for given in ({}, {"runs": name}, {"runs": Path(f"path-{name}"), "options": options}):
            assert call(**{"options": Options(plugins=options.plugins), **given}).ok
            assert [*Path(given.get("runs", "runs"), "records").rglob("*.json")]
    assert not options.runs.exists()
    assert call(options=options).ok
    assert options.runs.exists()
    assert xmcbench.compare("bm25", "bm25", runs="curve").instances == 30


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"jobs": "x"}, "jobs='x' is not a number of cells"),
        ({"cells_per_gpu": 0}, "cells_per_gpu=0 is not a number of cells"),
        ({"compute": Compute(device="gpu")}, "Invalid enum value 'gpu'"),
        ({"compute": Compute(processes=0)}, "Expected `int` >= 1"),
    ],
)
def test_options_that_are_wrong_are_told_before_a_run(values, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        Options(**values)


@pytest.mark.parametrize("limits", [(0, None), (float("nan"), None), (None, -1.0), (None, 1e300)])
def test_limits_are_numbers_that_a_machine_can_have(limits):
    with pytest.raises(UsageError, match="limit of .* is not above 0 and at most 1e"):
        Limits(*limits)


def test_an_infinite_limit_is_none():
    assert Limits(math.inf, math.inf) == Limits()


def test_a_curve_has_its_points_and_says_what_is_missing(tiny, options, tmp_path):
    drawn = xmcbench.curve(tiny, ["popular", "bm25"], ratio=[1, 0, 0.5], seed=(0, 1), by="pair", options=options)
    slugs = sorted(f"{record.cell.method} {record.cell.setting.slug} {record.cell.seed}" for record in drawn)
    assert slugs == [
        "bm25 ez 0",
        *(f"popular {slug} {seed}" for slug in ("ez", "fs-pair-0.5", "full") for seed in (0, 1)),
    ]
    made = drawn.curve("P@1")
    assert (made.ratios, made.missing, made.by) == ((0, 0.5, 1), (), "pair")
    (flat,) = [line for line in made.lines if line.flat]
    (line,) = [line for line in made.lines if not line.flat]
    assert (flat.name, line.name) == ("BM25", "Popular <b>&</b>")
    records = [record for record in drawn if record.cell.setting.kind == "full"]
    assert line.points[1].value == pytest.approx(np.mean([record.metrics["none"].values["P@1"] for record in records]))
    files = drawn.draw(["P@1", "R@10"], tmp_path / "figures")
    with pytest.raises(UnknownName, match="unknown metric 'p@1'"):
        drawn.draw(["p@1"], tmp_path / "figures")
    assert drawn.draw(["P@1", "R@10"], str(tmp_path / "figures")) == files
    names = sorted(path.name for path in files)
    assert names == ["tiny-pair-p1.csv", "tiny-pair-p1.svg", "tiny-pair-r10.csv", "tiny-pair-r10.svg"]
    assert all(path.is_file() for path in files)
    before = stamps(tmp_path / "runs")
    more = xmcbench.curve(
        tiny, ["popular"], ratio=[0, 0.1, 1], seed=[0, 2], by="pair", execute_missing=False, options=options
    )
    assert more.curve("P@1").missing == (f"{line.name} at 0% (seed 2), 10%, 100% (seed 2)",)
    assert stamps(tmp_path / "runs") == before
    nothing = xmcbench.curve(tiny, "tfidf", ratio=[0, 1], execute_missing=False, options=options)
    one = xmcbench.curve(tiny, ["popular"], ratio=0.5, by="pair", execute_missing=False, options=options)
    assert one.curve("P@1").ratios == (0.5,)
    assert (nothing.curve("P@1"), nothing.draw(["P@1"], tmp_path / "none"), len(nothing)) == (None, [], 0)


def test_a_curve_of_finished_cells_needs_nothing(tiny, plugin):
    needy = plugin(
        """
        from xmcbench import Method
        from xmcbench.errors import Unavailable

        class Needy(Method):
            def require(self):
                raise Unavailable("there are no weights here", "download them")

            def fit(self, raw_X, raw_Y, pairs=None):
                pass

            def predict(self, raw_X, k=100):
                pass
        """
    )
    drawn = xmcbench.curve(
        tiny, ["tfidf", "needy"], ratio=[0, 1], execute_missing=False, options=Options(plugins=(needy,))
    )
    assert (len(drawn), drawn.skipped) == (0, ())


def test_a_curve_of_nothing(tiny, options):
    for methods, message in (
        ("all", "a curve needs the names of its methods"),
        (["all", "bm25"], "cannot be combined"),
    ):
        with pytest.raises(UsageError, match=message):
            xmcbench.curve(tiny, methods, options=options)
    with pytest.raises(UsageError, match=r"selects nothing|outside"):
        xmcbench.curve(tiny, "xr-linear", ratio=[2.0], options=options)


SWITCHED = """
    import numpy as np
    from xmcbench import Method, TopK

    class Switched(Method):
        title = "Switched"
        supervision = "unused"
        ablation = {"none": {"up": False}, "both": {"up": True, "twice": True}, "one": {"up": True}}
        up: bool = True
        twice: bool = False
        broken: bool = False
        def fit(self, raw_X, raw_Y, pairs=None):
            if self.broken and self.twice:
                raise ValueError("twice")
            self.scores = np.arange(len(raw_Y)) * (1 if self.up else -1) * (2 if self.twice else 1)
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.scores, (len(raw_X), len(self.scores))), k)
"""


def test_an_ablation_has_its_rows_in_order(tiny, plugin):
    options = Options(plugins=(plugin(SWITCHED, "switched.py"),))
    made = xmcbench.ablation(tiny, "switched", seed=[0, 1], options=options)
    assert list(made.by_row) == ["none", "both", "one"]
    assert made.changes == {"none": {"up": False}, "both": {"up": True, "twice": True}, "one": {"up": True}}
    assert {row: [record.cell.seed for record in records] for row, records in made.by_row.items()} == {
        row: [0, 1] for row in made.by_row
    }
    lines = [line.split() for line in str(made).splitlines()]
    assert lines[0][:4] == ["Row", "up", "twice", "P@1"]
    assert [line[0] for line in lines[2:5]] == ["none", "both", "one"]
    assert (lines[2][1], lines[3][1:3], lines[4][1]) == ("no", ["yes", "yes"], "yes")
    failing = xmcbench.ablation(tiny, "switched", set={"switched": {"broken": True}}, options=options)
    assert not failing.ok
    text = str(failing)
    assert [line.split()[0] for line in text.splitlines()[2:4]] == ["none", "one"]
    assert "failed: ValueError: twice" in text


def test_an_ablation_with_several_values_has_a_row_of_each(tiny, plugin):
    options = Options(plugins=(plugin(SWITCHED, "switched.py"),))
    made = xmcbench.ablation(tiny, "switched", set={"switched": {"broken": [False, True]}}, options=options)
    rows = [re.split(r"\s{2,}", line)[0] for line in str(made).splitlines()[2:7]]
    assert sorted(rows) == sorted(
        ["none, broken=False", "none, broken=True", "both, broken=False", "one, broken=False", "one, broken=True"]
    )


def test_rows_of_an_ablation_that_are_one_cell_are_refused(tiny, plugin):
    same = SWITCHED.replace('"one": {"up": True}', '"one": {"up": False}')
    with pytest.raises(UsageError, match="row 'one' of the ablation is the same as an earlier one"):
        xmcbench.ablation(tiny, "switched", options=Options(plugins=(plugin(same, "switched.py"),)))


def test_an_ablation_that_cannot_be(tiny, plugin, options):
    both = Options(plugins=(plugin(SWITCHED, "switched.py"),))
    with pytest.raises(UsageError, match=r"--method is required; methods with an ablation: maclr, switched"):
        xmcbench.ablation(tiny, options=both)
    with pytest.raises(UsageError, match="bm25 defines no ablation"):
        xmcbench.ablation(tiny, "bm25", options=both)
    with pytest.raises(UsageError, match="--set switched.up is what the rows of the ablation change"):
        xmcbench.ablation(tiny, "switched", set={"switched": {"up": True}}, options=both)


def test_two_rows_compared(tiny, options):
    xmcbench.run(tiny, "full", methods=["popular", "bm25"], seed=[0, 1], options=options)
    found = xmcbench.compare("bm25", "popular", setting="full")
    frame = found.frame()
    assert list(frame.index) == [name for name in METRICS if name in found.differences]
    assert list(frame.columns)[:3] == ["first", "second", "delta"]
    for name, difference in found.differences.items():
        assert frame.loc[name, "first"] == difference.first <= 1
        assert frame.loc[name, "delta"] == pytest.approx(difference.first - difference.second)
        assert frame.loc[name, "p_holm"] == found.adjusted[name]
    assert (found.filter, found.instances, found.unpaired) == ("none", 30, "")
    assert [record.name for record in (found.first.records[0], found.second.records[0])] == ["BM25", "Popular <b>&</b>"]
    assert "cell.method: bm25 | popular" in str(found)
    assert found.problems == ((), ())
    turned = xmcbench.compare("popular", "bm25", runs="runs", dataset=str(tiny), setting="full", seed=[0])
    assert turned.first.seeds == [0]
    assert turned.differences["P@1"].delta == pytest.approx(-found.differences["P@1"].delta)
    with pytest.raises(UsageError, match="ratio and by can only be used with the setting fs"):
        xmcbench.compare("bm25", "popular", ratio=0.5)
    with pytest.raises(UnknownName, match="did you mean 'popular'"):
        xmcbench.compare("bm25", "populr")


def perfect():
    rows = np.arange(100, 130)
    indices = np.sort(np.stack([rows % 10, (rows + 3) % 10], axis=1), axis=1).astype(np.int32)
    return TopK(indices, np.ones((30, 2), np.float32))


def test_predictions_are_evaluated_on_a_dataset(tiny, tmp_path):
    perfect().save(tmp_path / "p.npz")
    for predictions in (perfect(), tmp_path / "p.npz", str(tmp_path / "p.npz")):
        for dataset in (tiny, str(tiny), xmcbench.load_dataset(tiny)):
            scores = xmcbench.evaluate(predictions, dataset)
            assert (scores.values["P@1"], scores.values["R@3"], scores.scored) == (1, 1, 30)
    with pytest.raises(UsageError, match="has no filter 'self'"):
        xmcbench.evaluate(perfect(), tiny, filter="self")
    for wrong in (TopK(perfect().indices[0], perfect().scores[0]), TopK([[0]], [[1.0]])):
        with pytest.raises(MethodError, match="must be arrays of shape"):
            xmcbench.evaluate(wrong, tiny)
    with pytest.raises(MethodError, match="shapes"):
        xmcbench.evaluate(TopK(perfect().indices[:3], perfect().scores[:3]), tiny)
    with pytest.raises(MethodError, match=r"names a label outside 0\.\.9"):
        xmcbench.evaluate(TopK(perfect().indices + 5, perfect().scores), tiny)


def test_nothing_is_scored_where_no_test_instance_has_a_label(tiny):
    with gzip.open(tiny / "tst.json.gz", "rt") as stream:
        lines = [json.loads(line) | {"target_ind": [], "target_rel": []} for line in stream]
    with gzip.open(tiny / "tst.json.gz", "wt") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    with pytest.raises(DataError, match="no test instance has a label, so there is nothing to score"):
        xmcbench.evaluate(perfect(), tiny)


def test_the_filter_is_that_of_the_card_unless_another_is_named(tiny):
    """Label 0 is removed from the first instance, of which it is a true label."""
    (tiny / "filter_labels_test.txt").write_text("0 0\n")
    (tiny / "card.toml").write_text('name = "Tiny"\nslug = "tiny"\nfilter = "file"\n')
    default, named, none = (xmcbench.evaluate(perfect(), tiny, filter=name) for name in (None, "file", "none"))
    assert default.values == named.values
    assert none.values["R@3"] == 1 > default.values["R@3"]


def test_suggestions_are_a_frame_and_a_table(tiny, options, imported, tmp_path):
    (tmp_path / "new.txt").write_text("the apple <b>\nthe bridge and the desert\n")
    found = xmcbench.suggest(tiny, "tfidf", tmp_path / "new.txt", k=2, options=options)
    assert found.problems == (), "documents have no labels, which is nothing to warn of"
    assert (len({row[0] for row in found}), found.record.cell.setting.kind, found.empty) == (2, "ez", 0)
    frame = found.frame()
    assert list(frame.columns) == ["uid", "rank", "score", "label_uid", "label"]
    assert frame["label"].str.contains("apple")[0]
    assert {*frame["rank"]} == {1, 2}
    assert str(found).splitlines()[0].split() == list(frame.columns)
    assert found._repr_html_().count("<tr>") == 1 + len(frame)
    popular = xmcbench.suggest(tiny, imported.Popular(weight=2), options=options)
    assert (popular.record.cell.setting.kind, popular.k) == ("full", 5)
    with pytest.raises(MethodError, match="failed: "):
        xmcbench.suggest(tiny, imported.Popular(weight=-1), options=options)
    for wrong in ({"k": 0}, {"method": "all"}, {"method": ""}, {"setting": "fs", "ratio": [0.1, 0.5]}):
        with pytest.raises(UsageError):
            xmcbench.suggest(tiny, **{"method": "popular", **wrong}, options=options)


def test_suggestions_of_other_code_are_marked(tiny, options, altered):
    found = xmcbench.suggest(tiny, "tfidf", options=options)
    assert (found.problems, "stale" in str(found)) == ((), False)
    xmcbench.records.Store(options.runs).write(altered(found.record, (("method", "source_sha256"), "0" * 64)))
    found = xmcbench.suggest(tiny, "tfidf", options=options)
    (problem,) = found.problems
    assert problem == f"{found.name}: stale: the method's code has changed since this result was made"
    assert str(found).endswith(f"\n\n{problem}")
    assert "stale: the method" in found._repr_html_()


def test_two_rows_are_compared_and_explained_in_a_notebook(tiny, options):
    xmcbench.run(tiny, methods=["tfidf", "bm25"], options=options)
    compared = xmcbench.compare("tfidf", "bm25")
    shown = compared._repr_html_()
    assert shown.count('<th scope="row">') == len(compared.differences)
    assert "A: TF-IDF" in shown
    assert "What differs:" in shown
    found = xmcbench.explain("tfidf", "bm25", "R@10", instances=2, dataset=tiny)
    assert (found.metric, found.comparison.differences) == ("R@10", compared.differences)
    assert len(found.better) <= 2
    assert found._repr_html_().startswith("<style>")
    assert all(f"<bdi>{label.text}" in found._repr_html_() for moved in found.better for label in moved.labels)
