"""A change of code is seen wherever results are shown or artifacts taken: on a copy of the tree, which is changed."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

ROOT = Path(__file__).parents[1]
SAMPLE = Path(__file__).parent / "sample"
STALE = "stale: the method's code has changed since this result was made"


class Tree:
    """xmcbench as a folder, the methods where an installed package has them; entry points are the installed ones."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "tree" / "xmcbench"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "xmcbench", self.root, ignore=ignored)
        shutil.copytree(ROOT / "methods", self.root / "methods", ignore=ignored)
        # Compiled once for all processes. What is changed no longer has the hash that its compiled file says.
        compileall.compile_dir(self.root, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        path = os.pathsep.join([str(folder / "tree"), os.environ["PYTHONPATH"]])
        self.environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def change(self, file, old, new):
        """Replace a text that stands in a file once."""
        text = (self.root / file).read_text()
        assert text.count(old) == 1, (file, old)
        (self.root / file).write_text(text.replace(old, new))

    def python(self, *words):
        """Run Python with this tree; what it printed."""
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def run(self, *words):
        """Run three methods at zero shot; what is printed, and the files of the cells with their times."""
        methods = () if "--methods" in words else ("--methods", "tfidf,bm25,xr-linear")
        printed = self.python("-m", "xmcbench", "run", "--dataset", str(SAMPLE), "--setting", "ez", *methods, *words)
        return printed, {path: path.stat().st_mtime_ns for path in (self.folder / "runs" / "logs").rglob("*.log")}

    def records(self):
        """Method -> its record."""
        found = [json.loads(path.read_text()) for path in (self.folder / "runs" / "records").rglob("*.json")]
        return {record["cell"]["method"]: record for record in found}


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A copy of the tree, the results of three methods, and what was printed."""
    tree = Tree(tmp_path_factory.mktemp("changed"))
    assert tree.python("-c", "import xmcbench.methods.tfidf as m; print(m.__file__)").startswith(str(tree.root))
    return tree, *tree.run()


@pytest.fixture
def tree(first_run):
    """The copy of the tree; what a test changes is put back."""
    tree, _, _ = first_run
    before = {path: path.read_bytes() for path in tree.root.rglob("*.py")}
    yield tree
    for path, content in before.items():
        if path.read_bytes() != content:
            path.write_bytes(content)


def figures(printed):
    """Row -> its figures, as the first table shows them."""
    table = printed.split("fit s")[0].replace("*", " ")  # the best row of a column may be another one
    found = re.findall(r"^(TF-IDF|BM25|XR-Linear).*?  +(\d.*)$", table, re.MULTILINE)
    return {name: " ".join(cells.split()) for name, cells in found}


def stale(printed):
    return {line.partition(":")[0].partition(" (")[0] for line in printed.splitlines() if STALE in line}


def test_a_comment_changes_nothing(tree, first_run):
    _, printed, logs = first_run
    tree.change("methods/sparse/ngrams.py", "def _idf(", "# How rare a word is.\ndef _idf(")
    tree.change("runner/prediction.py", "def predict(", "# What the worker calls.\n\n\ndef predict(")
    assert tree.run("--refresh") == (printed, logs)


def test_a_constant_of_tfidf_makes_all_that_uses_it_stale_and_a_refresh_changes_its_figure(tree, first_run):
    _, printed, logs = first_run
    tree.change("methods/sparse/ngrams.py", "idf = np.log((documents + 1.0) / (frequency + 1.0)) + 1", "idf = 1.0")
    marked, same = tree.run()
    assert stale(marked) == {"TF-IDF", "XR-Linear"}
    assert (figures(marked), same) == (figures(printed), logs)
    listed = json.loads(tree.python("-m", "xmcbench", "ls", "results", "--json"))
    assert {result["method"].partition(" (")[0]: result["status"] for result in listed} == {
        "BM25": "ok",
        "TF-IDF": "stale",
        "XR-Linear": "stale",
    }
    refreshed, ran = tree.run("--methods", "tfidf,bm25", "--refresh")
    assert [path.name.partition("-s0")[0] for path in logs if ran[path] != logs[path]] == ["tfidf"]
    assert stale(refreshed) == set()
    assert figures(refreshed)["BM25"] == figures(printed)["BM25"]
    assert figures(refreshed)["TF-IDF"] != figures(printed)["TF-IDF"]
    # Features of before are not taken for those of now, nor the other way round once the change is undone.
    tree.change("methods/sparse/ngrams.py", "idf = 1.0", "idf = np.log((documents + 1.0) / (frequency + 1.0)) + 1")
    assert stale(tree.run()[0]) == {"TF-IDF"}
    undone, _ = tree.run("--refresh")
    assert figures(undone) == figures(printed)


def test_a_change_of_what_every_result_runs_through_makes_all_stale(tree):
    tree.change("topk.py", "kept = min(k, labels)", "kept = min(k, labels + 0)")
    assert stale(tree.run()[0]) == {"TF-IDF", "BM25", "XR-Linear"}


def test_a_change_of_the_metrics_changes_the_figures_and_runs_no_cell(tree, first_run):
    _, printed, _ = first_run
    before, (_, logs) = tree.records(), tree.run()
    tree.change("metrics/evaluation.py", "counts[k] / true_labels for", "counts[k] / true_labels / 2 for")
    marked, same = tree.run()
    assert (stale(marked), same) == (set(), logs)
    for method, record in tree.records().items():
        assert record["measured"] == before[method]["measured"]
        for name, scored in record["metrics"].items():
            old = before[method]["metrics"][name]["values"]
            assert scored["values"] == {
                metric: pytest.approx(value / (2 if metric.startswith("R") else 1)) for metric, value in old.items()
            }
    tree.change("metrics/evaluation.py", "counts[k] / true_labels / 2 for", "counts[k] / true_labels for")
    assert figures(tree.run()[0]) == figures(printed)
    assert {method: record["metrics"] for method, record in tree.records().items()} == {
        method: record["metrics"] for method, record in before.items()
    }


RIGHT = "ranks[hit[kept]] = rank[kept] + 1"
WRONG = f"{RIGHT}\n    ranks[ranks == 1] = 9"


def test_ranks_of_code_that_was_repaired_are_made_again_from_the_predictions(tree, first_run):
    _, printed, _ = first_run
    _, logs = tree.run()
    tree.change("metrics/ranks.py", RIGHT, WRONG)
    wrong, same = tree.run()
    assert same == logs
    assert {row.split()[0] for row in figures(wrong).values()} == {"0.00"}
    assert stale(wrong) == set()
    tree.change("metrics/ranks.py", WRONG, RIGHT)
    mended, same = tree.run()
    assert (figures(mended), same) == (figures(printed), logs)


def test_ranks_of_other_code_are_stale_without_the_predictions(tree, first_run):
    _, logs = tree.run()
    shutil.move(tree.folder / "runs" / "predictions", tree.folder / "elsewhere")
    try:
        tree.change("runner/ranking.py", "first = empty = 0", "first = empty = 0 + 0")
        marked, same = tree.run()
        assert same == logs
        assert marked.count("stale: the code that makes ranks has changed since this result was made") == 3
    finally:
        shutil.move(tree.folder / "elsewhere", tree.folder / "runs" / "predictions")
    unmarked, same = tree.run()
    assert same == logs
    assert "stale" not in unmarked


def test_another_version_of_the_protocol_is_written_into_the_records(tree):
    _, logs = tree.run()
    text = (tree.root / "metrics" / "protocol.py").read_text()
    (version,) = re.findall(r"^VERSION = (\d+)$", text, re.MULTILINE)
    tree.change("metrics/protocol.py", f"\nVERSION = {version}\n", "\nVERSION = 99\n")
    printed, same = tree.run()
    assert same == logs
    assert "metric protocol 99" in printed
    assert {record["protocol"]["version"] for record in tree.records().values()} == {99}


KEYS = """
import json, sys
from xmcbench import Artifacts
from xmcbench.plugins.loading import load
from xmcbench.plugins.registry import Registry

store = Artifacts()
print(json.dumps({
    entry.name: [entry.source_sha256, store.unfinished("pretraining", {}, load(entry.name)).name]
    for entry in Registry()
}))
assert "torch" not in sys.modules
"""


def test_a_constant_of_a_loss_gives_other_keys_to_what_trains_with_it(tree):
    """Methods trained by changed code have other artifacts and are stale, which is found without training or import."""
    before = json.loads(tree.python("-c", KEYS))
    tree.change("methods/encoder/contrastive.py", "candidates.T / temperature", "candidates.T / (2 * temperature)")
    after = json.loads(tree.python("-c", KEYS))
    for place in (0, 1):
        changed = {name for name in before if before[name][place] != after[name][place]}
        trained = {"dexml", "ict", "lmtx", "maclr", "mpnet", "ngame", "rae", "renee", "rts", "sentbert", "simcse"}
        assert changed == {*trained, "xr-transformer"}
