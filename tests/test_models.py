"""Methods that are trained and kept as folders, and predict when they are opened again."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest

import xmcbench as library
from xmcbench import Artifacts, Model, Options, TopK, load_dataset
from xmcbench.errors import DataError, MethodError, UsageError
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.glove import GloVe
from xmcbench.methods.knn import KNN
from xmcbench.methods.label_expansion import LabelExpansion
from xmcbench.methods.mllm import MLLM
from xmcbench.methods.tfidf import Tfidf
from xmcbench.methods.xr_linear import XRLinear
from xmcbench.methods.zestxml import ZestXML
from xmcbench.records import Store
from xmcbench.runner.predict_texts import predict_texts

SPARSE = {
    "tfidf": (Tfidf, {}),
    "analyzed": (Tfidf, {"analyzer": "english"}),
    "pecos": (Tfidf, {"vectorizer": "pecos"}),
    "bm25": (BM25, {}),
    "knn": (KNN, {}),
    "zestxml": (ZestXML, {}),
    "xr-linear": (XRLinear, {"implementation": "numba"}),
    "label-expansion": (LabelExpansion, {}),
    "mllm": (MLLM, {}),
    "glove": (GloVe, {"min_count": 1, "epochs": 2, "dimensions": 8}),
}


@pytest.mark.parametrize("name", SPARSE)
def test_a_method_predicts_as_before_when_it_is_opened(name, tiny, tmp_path):
    kind, values = SPARSE[name]
    data = load_dataset(tiny)
    method = kind(**values)
    method.artifacts = Artifacts(tmp_path / "store")
    if hasattr(method, "pretrain"):
        method.pretrained = method.pretrain(data.train, data.labels)
    method.fit(data.train, data.labels, data.train_pairs())
    (tmp_path / "model").mkdir()
    method.save(tmp_path / "model")
    opened = kind(**values)
    opened.load(tmp_path / "model")
    expected, found = method.predict(data.test, 7), opened.predict(data.test, 7)
    assert (expected.indices[:, 0] >= 0).any()
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("weights", ["2,1", "fit"])
def test_a_hybrid_is_kept_with_its_parts(weights, tiny, tmp_path, options):
    values = {"hybrid": {"parts": "tfidf,knn", "weights": weights}}
    (record,) = library.run(tiny, "full", methods="hybrid", set=values, options=options).records
    cell = TopK.load(Store(options.runs).predictions_path(record.cell))
    library.fit(tiny, "hybrid", tmp_path / "model", set=values, options=options)
    model = Model.load(tmp_path / "model")
    assert model.is_current
    found = model.predict(load_dataset(tiny).test, cell.k)
    assert np.array_equal(found.indices, cell.indices)
    assert np.array_equal(found.scores, cell.scores)
    assert {path.name for path in (tmp_path / "model").iterdir() if path.is_dir()} == {"0", "1"}


def test_a_method_that_cannot_be_kept_says_so(tmp_path, tiny):
    pytest.importorskip("pecos")
    data = load_dataset(tiny)
    method = XRLinear(implementation="pecos")
    method.artifacts = Artifacts(tmp_path / "store")
    method.fit(data.train, data.labels, data.train_pairs())
    with pytest.raises(MethodError, match="XRLinear does not keep its trained state: its attribute _ranker._model"):
        method.save(tmp_path)


@pytest.fixture
def options(tmp_path):
    return Options(tmp_path / "runs")


def test_a_kept_model_predicts_as_its_cell(tiny, tmp_path, options):
    (record,) = library.run(tiny, "full", methods="knn", set={"knn": {"neighbors": 7}}, options=options).records
    cell = TopK.load(Store(options.runs).predictions_path(record.cell))
    kept = library.fit(tiny, "knn", tmp_path / "model", set={"knn": {"neighbors": 7}}, options=options)
    assert repr(kept) == "<Model kNN (neighbors=7): tiny, full (all training pairs), 10 labels>"
    model = Model.load(tmp_path / "model")
    found = model.predict(load_dataset(tiny).test, cell.k)
    assert np.array_equal(found.indices, cell.indices)
    assert np.array_equal(found.scores, cell.scores)
    fewer = model.predict(load_dataset(tiny).test, 2)
    assert np.array_equal(fewer.indices, cell.indices[:, :2])
    assert model.is_current
    facts = json.loads((tmp_path / "model" / "model.json").read_text())
    assert (facts["method"], facts["parameters"]["neighbors"]) == ("knn", 7)
    assert facts["source_sha256"] == record.method.source_sha256
    assert facts["dataset_sha256"] == record.cell.dataset_sha256
    assert (facts["depth"], facts["labels"]) == (cell.k, 10)
    assert len(list(Store(options.runs).records())) == 1, "a training is no record"
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".jsonl", ".md", ".safetensors"}
    assert "# kNN (neighbors=7) on tiny" in (tmp_path / "model" / "README.md").read_text()
    changed = facts | {"source_sha256": "0" * 64}
    (tmp_path / "model" / "model.json").write_text(json.dumps(changed))
    assert not Model.load(tmp_path / "model").is_current


def test_labels_are_suggested_by_a_model(tiny, tmp_path, options):
    model = library.fit(tiny, "tfidf", tmp_path / "model", options=options)
    found = model.suggest(["about the bridge", ""], k=2)
    assert [(uid, rank, label) for uid, rank, _, label, _ in found] == [
        ("0", 1, "label-bridge"),
        ("0", 2, "label-apple"),
    ]
    assert found.empty == 1
    (tmp_path / "new.csv").write_text("uid,text\na,the engine\nb,the forest and the candle\n")
    frame = Model.load(tmp_path / "model").suggest(tmp_path / "new.csv", k=1).frame()
    assert frame["uid"].tolist() == ["a", "b"]
    assert frame["label"].tolist()[0] == "the engine"
    (tmp_path / "guessed.csv").write_text("uid,abstract\na,the engine\n")
    for found in (
        model.suggest(tmp_path / "guessed.csv"),
        library.suggest(tiny, "tfidf", tmp_path / "guessed.csv", options=options),
    ):
        assert found.problems == ("columns of guessed.csv: uid=uid, text=abstract",)
        assert str(found).endswith("text=abstract")
    with pytest.raises(UsageError, match="k 0 must be in"):
        model.suggest(["a"], k=0)


PLUGIN = """
    import numpy as np
    from xmcbench import Method, TopK

    COUNTS = {}

    class Part:
        def __init__(self, counts):
            self.counts = counts

    class Popular(Method):
        supervision = "required"
        weight: float = 1.0

        def fit(self, raw_X, raw_Y, pairs=None):
            self.part = Part(self.weight * np.asarray(pairs.sum(axis=0)).ravel())

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.tile(self.part.counts.astype(np.float32), (len(raw_X), 1)), k)

    class Closed(Popular):
        def fit(self, raw_X, raw_Y, pairs=None):
            super().fit(raw_X, raw_Y, pairs)
            self.rank = lambda counts: counts

    class Own(Closed):
        def save(self, folder):
            np.save(folder / "counts.npy", self.part.counts)

        def load(self, folder):
            self.part = Part(np.load(folder / "counts.npy", allow_pickle=False))

    class Shuffled(Popular):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.part = Part(np.arange(10))

        def save(self, folder):
            np.save(folder / "counts.npy", self.part.counts[::-1])

        def load(self, folder):
            self.part = Part(np.load(folder / "counts.npy", allow_pickle=False))

    class Forgetful(Popular):
        def fit(self, raw_X, raw_Y, pairs=None):
            COUNTS["all"] = np.asarray(pairs.sum(axis=0)).ravel()

        def predict(self, raw_X, k=100):
            counts = COUNTS.get("all", np.ones(10))
            return TopK.from_scores(np.tile(counts.astype(np.float32), (len(raw_X), 1)), k)
"""


def test_a_method_of_somebody_else_is_kept_without_more(tiny, tmp_path, plugin, options):
    file = plugin(PLUGIN)
    with_file = Options(options.runs, (file,))
    for name in ("popular", "own"):
        out = tmp_path / name
        library.fit(tiny, name, out, set={name: {"weight": 2.5}}, options=with_file)
        moved = tmp_path / "elsewhere" / "methods.py"
        moved.parent.mkdir(exist_ok=True)
        moved.write_text(file.read_text())
        found = Model.load(out, str(moved)).predict(["anything"], 3)
        assert found.scores.tolist() == [[30.0, 30.0, 30.0]]
    with pytest.raises(MethodError, match=r"Closed does not keep .* its attribute rank is of type builtins.function"):
        library.fit(tiny, "closed", tmp_path / "closed", options=with_file)
    with pytest.raises(MethodError, match="forgetful does not keep its trained state: it predicts otherwise"):
        library.fit(tiny, "forgetful", tmp_path / "forgetful", options=with_file)
    with pytest.raises(MethodError, match="shuffled does not keep its trained state: it predicts otherwise"):
        library.fit(tiny, "shuffled", tmp_path / "shuffled", set={"shuffled": {"weight": 2.0}}, options=with_file)
    assert not (tmp_path / "closed").exists()
    assert not (tmp_path / "forgetful").exists()


SCALED = """
    import numpy as np
    from xmcbench import Method, TopK

    class Scaled(Method):
        supervision = "unused"
        base: float = 0.0
        unit: float = 1.0
        error: float = 0.0
        forgets: bool = False

        def fit(self, raw_X, raw_Y, pairs=None):
            self.scores = self.base + self.unit * np.random.default_rng(3).random(len(raw_Y))

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.tile(self.scores, (len(raw_X), 1)), k)

        def save(self, folder):
            np.save(folder / "scores.npy", np.full(10, self.base + self.unit / 2) if self.forgets else self.scores)

        def load(self, folder):
            noise = np.random.default_rng(5).uniform(-1, 1, 10)
            self.scores = np.load(folder / "scores.npy", allow_pickle=False) * (1 + self.error * noise)
"""


@pytest.mark.parametrize(
    ("base", "unit"), [(0.0, 1e-6), (0.0, 1e-30), (0.0, 1.0), (1.0, 1e-3), (-9.0, 1e-3), (0.0, 1e6)]
)
def test_scores_of_any_size_are_kept_or_refused(base, unit, tiny, tmp_path, plugin, options):
    with_file = Options(options.runs, (plugin(SCALED),))
    values = {"base": base, "unit": unit}
    with pytest.raises(MethodError, match="scaled does not keep its trained state: it predicts otherwise"):
        library.fit(tiny, "scaled", tmp_path / "lost", set={"scaled": {**values, "forgets": True}}, options=with_file)
    assert not (tmp_path / "lost").exists()
    error = 3e-4 * unit / max(unit, abs(base))  # as of another number of threads
    library.fit(tiny, "scaled", tmp_path / "kept", set={"scaled": {**values, "error": error}}, options=with_file)


@pytest.mark.parametrize(("unit", "error"), [(1e-7, 1e-6), (0.0, 3e-4)])
def test_ties_that_rounding_puts_in_order_are_kept(unit, error, tiny, tmp_path, plugin, options):
    values = {"scaled": {"base": 1.0, "unit": unit, "error": error}}
    library.fit(tiny, "scaled", tmp_path / "kept", set=values, options=Options(options.runs, (plugin(SCALED),)))


def test_a_file_of_a_plug_in_that_is_not_beside_it_is_named(tiny, tmp_path, plugin, options):
    file = plugin(f"{PLUGIN}\n    class Named(Popular):\n        files = ('words.txt',)\n")
    file.with_name("words.txt").write_text("a\n")
    model = library.fit(tiny, "named", tmp_path / "model", options=Options(options.runs, (file,)))
    assert model.is_current
    file.with_name("words.txt").unlink()
    said = r"named names .*words\.txt in its files, and it cannot be read: No such file .*\(put it beside the plug-in\)"
    with pytest.raises(DataError, match=said):
        model.is_current  # noqa: B018


def test_what_is_no_model_is_one_error(tiny, tmp_path, options, plugin):
    with pytest.raises(UsageError, match="is not a model: it has no model.json"):
        Model.load(tmp_path)
    out = tmp_path / "model"
    library.fit(tiny, "tfidf", out, options=options)
    with pytest.raises(UsageError, match="already exists"):
        library.fit(tiny, "tfidf", out, options=options)
    with pytest.raises(UsageError, match="is not a model"):
        library.fit(tiny, "tfidf", tiny, overwrite=True, options=options)
    library.fit(tiny, "bm25", out, overwrite=True, options=options)
    assert Model.load(out).facts.method == "bm25"
    with pytest.raises(UsageError, match="fit runs a single cell"):
        library.fit(tiny, "xr-linear", tmp_path / "two", seed=[0, 1], options=options)
    facts = json.loads((out / "model.json").read_text())
    for change, error, said in (
        ({"format": 2}, DataError, "cannot be read"),
        ({"method": "gone", "plugins": ["gone.py"]}, UsageError, "--plugin gone.py"),
        ({"parameters": {"b": 7}}, UsageError, "out of range"),
        ({"method": "tfidf", "parameters": {}}, DataError, "is not the state of Tfidf: it is that of BM25"),
        ({"labels": 9}, DataError, "has 10 labels instead of 9"),
    ):
        (out / "model.json").write_text(json.dumps({**facts, **change}))
        with pytest.raises(error, match=said):
            Model.load(out)
    (out / "model.json").write_text(json.dumps(facts))
    lines = (out / "labels.jsonl").read_text().splitlines(keepends=True)
    (out / "labels.jsonl").write_text("".join(reversed(lines)))
    with pytest.raises(DataError, match=r"labels.jsonl: checksum mismatch \(fit the model again\)"):
        Model.load(out)
    (arrays,) = out.glob("*.safetensors")
    content = arrays.read_bytes()
    arrays.write_bytes(b"{")
    with pytest.raises(DataError, match=r"cannot read .*\(fit the model again\)"):
        Model.load(out)
    arrays.write_bytes(content)
    (out / "labels.jsonl").write_text("{")
    with pytest.raises(DataError, match="labels.jsonl cannot be read"):
        Model.load(out)


def test_a_part_of_a_plug_in_that_is_not_given_is_said_with_its_flag(tiny, tmp_path, options):
    out = tmp_path / "model"
    library.fit(tiny, "hybrid", out, set={"hybrid": {"parts": "tfidf,bm25", "weights": "1,1"}}, options=options)
    facts = json.loads((out / "model.json").read_text())
    parameters = {**facts["parameters"], "parts": "tfidf,gone"}
    (out / "model.json").write_text(json.dumps({**facts, "parameters": parameters, "plugins": ["gone.py"]}))
    with pytest.raises(UsageError, match=r"unknown method 'gone' in the model .*/model \(--plugin gone.py\)"):
        Model.load(out)


ORDERED = """
    import numpy as np
    from xmcbench import Method, TopK

    class Ordered(Method):
        title = "Ordered"
        supervision = "unused"

        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            scores = np.arange(self.labels, dtype=np.float32)[::{step}]
            return TopK.from_scores(np.tile(scores, (len(raw_X), 1)), k)
"""


def test_a_model_predicts_by_the_plug_in_that_is_given(tiny, tmp_path, plugin, options):
    """Two files define one method, and a file is edited: in one process, each model has its own code."""
    files = [plugin(ORDERED.format(step=step), f"v{step}.py") for step in (1, -1)]
    models = [tmp_path / "forward", tmp_path / "backward"]
    for out, file in zip(models, files, strict=True):
        library.fit(tiny, "ordered", out, options=Options(options.runs, (file,)))
    first = [Model.load(out, [file]).predict(["a"], 1).indices[0, 0] for out, file in zip(models * 2, files * 2)]  # noqa: B905
    assert first == [9, 0, 9, 0]
    files[0].write_text(files[1].read_text())
    edited = library.fit(tiny, "ordered", models[0], overwrite=True, options=Options(options.runs, (files[0],)))
    assert edited.predict(["a"], 1).indices[0, 0] == 0


def test_a_part_of_a_kept_hybrid_has_the_seed_of_its_training(tiny, tmp_path, plugin, options):
    drawn = plugin(
        """
        import numpy as np
        from xmcbench import Method, TopK

        class Drawn(Method):
            supervision = "unused"

            def fit(self, raw_X, raw_Y, pairs=None):
                self.labels = len(raw_Y)

            def predict(self, raw_X, k=100):
                scores = np.random.default_rng(self.seed).random(self.labels).astype(np.float32)
                return TopK.from_scores(np.tile(scores, (len(raw_X), 1)), k)

            def save(self, folder):
                (folder / "labels").write_text(str(self.labels))

            def load(self, folder):
                self.labels = int((folder / "labels").read_text())
        """,
        "drawn.py",
    )
    values = {"hybrid": {"parts": "tfidf,drawn", "weights": "1,1"}}
    made = Options(options.runs, (drawn,))
    model = library.fit(tiny, "hybrid", tmp_path / "model", seed=1, set=values, options=made)
    assert model.facts.seed == 1


def test_a_model_replaces_a_model_and_nothing_else(tiny, tmp_path, options, monkeypatch):
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "model.json").write_text('{"layers": []}')
    with pytest.raises(UsageError, match="project already exists and is not a model"):
        library.fit(tiny, "tfidf", project, overwrite=True, options=options)
    assert (project / "src").is_dir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    library.fit(tiny, "tfidf", tmp_path / "link", options=options)
    assert ((tmp_path / "link").is_symlink(), Model.load(tmp_path / "empty").facts.method) == (True, "tfidf")
    (tmp_path / "empty" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"has files that are not the model's: notes.txt"):
        library.fit(tiny, "tfidf", tmp_path / "empty", overwrite=True, options=options)
    (tmp_path / "empty" / "notes.txt").unlink()
    library.fit(tiny, "tfidf", tmp_path / "empty", overwrite=True, options=options)
    with monkeypatch.context() as patch:
        patch.setattr("os.path.ismount", lambda path: Path(path) == tmp_path / "empty")
        with pytest.raises(UsageError, match="empty is a mount point"):
            library.fit(tiny, "tfidf", tmp_path / "empty", overwrite=True, options=options)
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UsageError, match="is the current folder"):
        library.fit(tiny, "tfidf", ".", overwrite=True, options=options)


@pytest.mark.parametrize("overwrite", [True, False])
def test_what_appears_during_the_training_stays(tiny, tmp_path, options, monkeypatch, overwrite):
    out = tmp_path / "model"

    def train(*arguments):
        out.mkdir()
        (out / "notes.txt").write_text("mine")
        return predict_texts(*arguments)

    monkeypatch.setattr("xmcbench.models.predict_texts", train)
    with pytest.raises(UsageError, match="already exists"):
        library.fit(tiny, "tfidf", out, overwrite=overwrite, options=options)
    assert [path.name for path in tmp_path.glob("model/*")] == ["notes.txt"]


def test_arguments_of_another_kind_are_refused(tiny, tmp_path, options):
    model = library.fit(tiny, "tfidf", tmp_path / "model", options=options)
    with pytest.raises(UsageError, match="predict takes several texts, and this is one"):
        model.predict("a text")
    for k in (0, -1, 2.5, "3"):
        with pytest.raises(UsageError, match="is not a number of labels"):
            model.predict(["a text"], k)
        with pytest.raises(UsageError, match=r"must be in 1\.\.100"):
            model.suggest(["a text"], k)
    assert model.predict(["a text"], np.int64(3)).k == 3
    for call in (library.suggest, library.fit):
        with pytest.raises(UsageError, match="2 datasets are given"):
            call([tiny, "lf-debian-2k"], "tfidf", options=options)
    with pytest.raises(UsageError, match="is not the name of a method"):
        library.ablation(tiny, "maclr,tfidf", options=options)
    none = model.suggest(["?"])
    assert list(none.frame().columns) == ["uid", "rank", "score", "label_uid", "label"]


@pytest.mark.parametrize("method", ["tfidf", "knn"])
def test_a_sparse_model_answers_within_two_seconds(method, xmcbench, tiny, tmp_path):
    """Of processor time, which does not depend on what else the machine does; from the second time on."""
    assert xmcbench("fit", method, "--dataset", tiny, "--out", "model").returncode == 0
    (tmp_path / "new.txt").write_text("the engine\nthe bridge\n")
    words = ("suggest", "--model", "model", "--documents", "new.txt", "--k", "1")
    first = xmcbench(*words)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = xmcbench(*words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", first.stdout)
    head, _, *lines = ended.stdout.splitlines()
    assert head.split() == ["uid", "rank", "score", "label_uid", "label"]
    assert [line.split()[3:] for line in lines] == [[f"label-{name}", "the", name] for name in ("engine", "bridge")]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
