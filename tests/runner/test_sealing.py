"""Limits of a method: the files that it can reach, and its scores, which it can only change by predicting."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from xmcbench.data import load_dataset
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner import scorer
from xmcbench.runner.execution import execute
from xmcbench.runner.plan import plan
from xmcbench.runner.rows import Request
from xmcbench.runner.target import Target
from xmcbench.setting import Setting, draw
from xmcbench.storage.arrays import pairs_digest, read_pairs, write_pairs
from xmcbench.topk import TopK

SAMPLE = Path(__file__).parents[1] / "sample"

METHODS = '''
import gzip, os, subprocess, sys
from pathlib import Path

import numpy as np
from xmcbench import Method, TopK, load_dataset

DATASET = {dataset!r}
FOLDERS = {folders!r}


class Honest(Method):
    """Ranks labels by chance, the same for all."""

    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)
        self.notes["pairs"] = None if pairs is None else [int(pairs.nnz), int(pairs.indices.sum())]

    def predict(self, raw_X, k=100):
        self.notes["modules"] = sorted(name for name in sys.modules if name.partition(".")[0] == "xmcbench")
        self.found = TopK.from_scores(np.random.RandomState(5).rand(len(raw_X), self.labels), k)
        return self.found


class Loader(Honest):
    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        load_dataset(DATASET).test_pairs()


class Opener(Honest):
    """Breaks the seal of its own process first."""

    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        os.environ.pop("XMCBENCH_SEALED")
        load_dataset(DATASET).test_pairs()


class Spy(Honest):
    """Opens whatever it can find by itself."""

    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        read, tried = [], 0
        for folder in FOLDERS:
            for path in sorted(file for file in Path(folder).rglob("*") if file.is_file()):
                if path.parent.name == "sources":
                    continue  # syntax trees of code
                tried += 1
                read += self.through(path, str(path))
        target = Path(DATASET, "tst.json.gz")
        for name, make in (("link", os.symlink), ("hard link", os.link), ("moved", os.rename)):
            other = self.artifacts.root / f"{{name}}.gz"
            try:
                make(target, other)
            except OSError:
                continue
            read += self.through(other, name)
        code = f"open({{str(target)!r}}, 'rb').read()"
        if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 0:
            read.append("another process")
        self.notes["read"], self.notes["tried"] = read, tried

    def through(self, path, name):
        try:
            path.read_bytes()
        except PermissionError:
            return []
        return [name]


class Reader(Honest):
    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        Path(DATASET, "tst.json.gz").read_bytes()


class Blind(Honest):
    supervision = "unused"


class Forker(Honest):
    """Has a child that leaves `fit` in its own way, as a library may that is not made for this."""

    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        child = os.fork()
        if not child:
            sys.exit(7)
        self.notes["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Beside(Honest):
    """Keeps a file of its own in the current folder, which holds the data."""

    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        np.save("own.npy", np.arange(3))
        np.load("own.npy")


class Patcher(Honest):
    """Gives itself full marks, wherever in its process they are given."""

    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        import xmcbench.metrics
        from xmcbench.metrics import ranks
        from xmcbench.records import Store
        from xmcbench.runner import ranking, scorer, scoring

        def best(predicted, pairs, removed=None):
            return np.ones(len(pairs), np.uint8)

        for module in (xmcbench.metrics, ranks, ranking):
            module.true_ranks = best
        ranking.rank = scorer.rank = scoring.figures = scorer.Scorer.score = Store.write = best


class Editor(Honest):
    """Changes what it was handed, and its predictions once they are saved: that is when it is asked for its notes."""

    def fit(self, raw_X, raw_Y, pairs=None):
        super().fit(raw_X, raw_Y, pairs)
        self.notes["refused"] = 0
        for part in (pairs.data, pairs.indices, pairs.indptr):
            try:
                part[:] = 0
            except ValueError:
                self.notes["refused"] += 1
                part.flags.writeable = True  # who insists changes a copy
                part[:] = 0

    @property
    def notes(self):
        if hasattr(self, "found"):
            self.found.indices[:] = -1
            self.found.scores[:] = -np.inf
        return super().notes
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the dataset, a cache of its own, the methods, and the records of an earlier run."""
    folder = tmp_path_factory.mktemp("sealing")
    shutil.copytree(SAMPLE, folder / "sample", ignore=shutil.ignore_patterns("*.toml", "*.py", "__pycache__"))
    (folder / "sample" / "Y.tst.npz").write_bytes(b"the same pairs in another file, which is not read")
    secret = [folder / name for name in ("sample", "cache", "runs/records", "runs/ranks", "runs/truth", "runs/subsets")]
    values = {"dataset": str(folder / "sample"), "folders": list(map(str, secret))}
    (folder / "methods.py").write_text(METHODS.format(**values))
    return folder


@pytest.fixture(scope="module")
def outcomes(folder):
    """Method -> record, of one run; the honest one is run before all others and once more behind them."""
    for methods in ("honest", "beside,blind,editor,forker,patcher,reader,loader,opener,spy", "honest"):
        words = ["run", "--dataset", folder / "sample", "--setting", "full", "--methods", methods]
        more = ["--seed", "1" if "spy" not in methods and (folder / "runs").exists() else "0"]
        _run(folder, *words, *more, "--plugin", "methods.py", "--runs", "runs")
    found = {}
    for path in (folder / "runs" / "records").rglob("*.json"):
        record = json.loads(path.read_text())
        found[record["cell"]["method"] + ("" if record["cell"]["seed"] == 0 else " again")] = record
    return found


def _run(folder, *words):
    environment = {**os.environ, "XMCBENCH_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "xmcbench", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_a_file_beside_the_data_is_out_of_reach_and_said_to_be(outcomes, landlock):
    expected = "a cell cannot read files made beside hidden data" if landlock else "None"
    assert expected in str(outcomes["beside"]["reason"])


def test_the_record_says_whether_files_were_out_of_reach(outcomes, landlock):
    expected = "landlock" if landlock else "process"
    assert {record["isolation"] for record in outcomes.values() if record["status"] == "ok"} == {expected}


def test_a_dataset_is_not_loaded_inside_a_cell(outcomes):
    assert outcomes["loader"]["status"] == "failed"
    assert outcomes["loader"]["reason"].startswith("a dataset cannot be read while a method runs (")
    assert "\n" not in outcomes["loader"]["reason"]


def test_a_method_that_breaks_its_seal_finds_the_files_closed(outcomes, landlock):
    assert outcomes["opener"]["status"] == ("failed" if landlock else "ok")  # without it the files are found
    assert ("Permission denied" in (outcomes["opener"]["reason"] or "")) == landlock
    assert outcomes["reader"]["status"] == ("failed" if landlock else "ok")
    said = "a method gets its data as arguments, and cannot read files that hold pairs"
    assert (said in (outcomes["reader"]["reason"] or "")) == landlock


def test_no_file_with_pairs_or_figures_can_be_read_by_its_path(outcomes, landlock):
    notes = outcomes["spy"]["notes"]
    assert notes["tried"] > 15
    assert (notes["read"] == []) == landlock  # without it the files are found


def test_a_method_that_ignores_pairs_gets_none(outcomes):
    assert (outcomes["blind"]["status"], outcomes["blind"]["notes"]["pairs"]) == ("ok", None)
    assert outcomes["blind"]["cell"]["setting"]["kind"] == "full"


def test_a_child_of_a_method_ends_as_it_wants_and_is_not_the_cell(outcomes):
    assert (outcomes["forker"]["status"], outcomes["forker"]["notes"]["child"]) == ("ok", 7)
    assert outcomes["forker"]["log"] is None  # nothing was printed: no traceback of the child either


def test_what_is_hidden_is_still_there(outcomes, folder):
    assert (folder / "sample" / "tst.json.gz").read_bytes() == (SAMPLE / "tst.json.gz").read_bytes()


@pytest.mark.parametrize("method", ["patcher", "editor", "spy", "honest again"])
def test_no_method_can_change_its_scores(outcomes, method):
    assert outcomes[method]["status"] == "ok", outcomes[method]["reason"]
    assert outcomes[method]["metrics"] == outcomes["honest"]["metrics"]
    assert outcomes[method]["ranks"]["sha256"] == outcomes["honest"]["ranks"]["sha256"]
    assert outcomes[method]["predictions"]["sha256"] == outcomes["honest"]["predictions"]["sha256"]


def test_the_pairs_that_a_method_is_handed_are_read_only_and_its_own(outcomes):
    assert outcomes["editor"]["notes"]["refused"] == 3
    pairs = load_dataset(SAMPLE).train_pairs()
    for method in ("honest", "editor", "honest again"):
        assert outcomes[method]["notes"]["pairs"] == [pairs.nnz, int(pairs.indices.sum())]


def test_the_process_of_a_method_holds_nothing_that_scores(outcomes):
    modules = outcomes["honest"]["notes"]["modules"]
    assert "xmcbench.runner.worker" in modules or "xmcbench.runner.prediction" in modules
    for name in ("xmcbench.metrics", "xmcbench.records", "xmcbench.runner.scor", "xmcbench.leaderboard"):
        assert not [module for module in modules if module.startswith(name)], name


def test_the_scoring_process_holds_no_method(outcomes, folder):
    """It is asked as the run asks it, and says at its end what it has imported."""
    root = folder / "runs"
    (record,) = [stored for stored in Store(root).records() if (stored.cell.method, stored.cell.seed) == ("honest", 0)]
    request = scorer._Request(
        cell=record.cell, root=str(root), dataset=str(folder / "sample"), depth=record.predictions.depth
    )
    code = (
        "import os, sys; from xmcbench.runner import scorer; scorer._serve(os.getppid());"
        "print(*sorted(name for name in sys.modules if name.startswith('xmcbench')), file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code]
    ended = subprocess.run(command, input=msgspec.json.encode(request) + b"\n", capture_output=True, check=True)
    answer = msgspec.json.decode(ended.stdout, type=scorer._Answer)
    assert answer.scored.metrics == record.metrics
    modules = ended.stderr.decode().split()
    assert "xmcbench.metrics" in modules
    for name in ("xmcbench.methods", "xmcbench.plugins.registry", "xmcbench.runner.worker", "xmcbench_plugin_"):
        assert not [module for module in modules if module.startswith(name)], name


@pytest.fixture
def one_cell(inside, folder, tmp_path, own_cache):
    """Run the honest method on a copy of the dataset with a cache and a runs folder of its own; returns the record."""
    shutil.copytree(SAMPLE, tmp_path / "sample")

    def run(*setting):
        words = ["--methods", "honest", "--plugin", folder / "methods.py"]
        inside("run", "--dataset", tmp_path / "sample", "--setting", *setting, *words)
        (record,) = Store(tmp_path / "runs").records()
        return record

    return run


def test_a_swapped_subset_is_written_again(one_cell, tmp_path):
    dataset = load_dataset(tmp_path / "sample")
    mine, other = (draw(dataset.train_pattern(), Setting.of("fs", 0.5), seed) for seed in (0, 1))
    with Store(tmp_path / "runs").subset(dataset.slug, mine) as path:
        pass
    write_pairs(path, other.pairs.indptr, other.pairs.indices)
    assert one_cell("fs", "--ratio", "0.5").status == "ok"
    pairs = read_pairs(path, mine.pairs.shape[1])
    assert pairs_digest(pairs.indptr, pairs.indices) == mine.digest != other.digest


@pytest.mark.parametrize("side", ["train", "test", "label"])
def test_swapped_texts_are_read_again_from_their_source(one_cell, tmp_path, side):
    """Other texts under the digest of the old ones."""
    dataset = load_dataset(tmp_path / "sample")
    path = getattr(dataset, f"{side}_corpus").texts
    titles_before = [*getattr(dataset, "labels" if side == "label" else side).titles]
    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    titles = ["another"] * table.num_rows
    column = table.schema.get_field_index("title")
    table = table.set_column(column, "title", pa.array(titles, pa.large_string())).replace_schema_metadata(
        table.schema.metadata
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert one_cell("ez").status == "ok"
    dataset = load_dataset(tmp_path / "sample")
    assert [*getattr(dataset, "labels" if side == "label" else side).titles] == titles_before


def test_what_is_stored_is_what_was_returned(one_cell, tmp_path):
    record = one_cell("ez")
    path = Store(tmp_path / "runs").predictions_path(record.cell)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == record.predictions.sha256
    expected = TopK.from_scores(np.random.RandomState(5).rand(113, 333), record.predictions.depth)
    found = TopK.load(path)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.scores, expected.scores)


def test_a_cell_can_use_temporary_files_below_what_is_hidden(tiny, plugin, tmp_path, own_cache, monkeypatch):
    """A machine may have one large disk, with the cache and $TMPDIR on it."""
    (own_cache / "tmp").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(own_cache / "tmp"))
    path = plugin(
        """
        import tempfile
        from pathlib import Path
        import numpy as np
        from xmcbench import Method, TopK

        class Writes(Method):
            def fit(self, raw_X, raw_Y, pairs=None):
                with tempfile.NamedTemporaryFile() as file:
                    file.write(b"own")
                    file.flush()
                    self.notes["read"] = [file.name, Path(file.name).read_text()]
            def predict(self, raw_X, k=100):
                shape = (len(raw_X), k)
                return TopK(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
        """
    )
    store = Store(tmp_path / "runs")
    planned = plan([Request(str(tiny), Setting.of("ez"), ["writes"])], Registry([path]), store)
    (record,) = execute(planned, Target(store))
    assert record.ok, record.reason
    name, read = record.notes["read"]
    assert read == "own"
    assert Path(name).is_relative_to(own_cache / "tmp")
